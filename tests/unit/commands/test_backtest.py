"""Backtests from the command line to the figures, with a Prometheus of our own."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from desched.cli import main
from desched.cli.past_flags import point_in_time
from desched.errors import ConfigurationError
from tests.unit.adapters.prometheus.fake_server import FakePrometheus
from tests.unit.commands.hot_past import (
    CREATED,
    SINCE_UNTIL,
    add_hot_cluster,
    hot_prometheus,
    written,
)
from tests.unit.lab.prometheus.small_cluster import SmallCluster

# Python 3.12 and later warn of any thread, such as that of the Prometheus.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


@pytest.fixture
def prometheus() -> Iterator[FakePrometheus]:
    with hot_prometheus() as server:
        yield server


@pytest.fixture
def policy(prometheus: FakePrometheus, tmp_path: Path) -> Path:
    return written(tmp_path / "policy.yaml", prometheus.url)


def words(*policies: Path) -> list[str]:
    found = ["backtest", *SINCE_UNTIL]
    for path in policies:
        found += ["--policy", str(path)]
    return found


def test_the_past_is_replayed_with_each_policy(policy, tmp_path, capsys) -> None:
    high = written(tmp_path / "high.yaml", policy.read_text().split('"')[1], target=99)
    cache = ["--cache", str(tmp_path / "cache")]

    assert main([*words(policy, high), *cache, "-o", "json"]) == 0

    found = json.loads(capsys.readouterr().out)
    ours, other = found["policies"]
    assert (ours["without"]["node_minutes"], other["without"]["node_minutes"]) == (60, 0)
    assert ours["evictions"] == 1
    assert ours["with_policy"]["node_minutes"] < 30
    assert (found["nodes"], found["pods"], found["workloads"]) == (2, 4, 1)
    assert found["covered_share"] == 1.0


def test_a_repeated_backtest_asks_only_which_cluster_it_is(
    policy, prometheus, tmp_path, capsys
) -> None:
    """Besides what had no series."""
    series = add_hot_cluster(prometheus).series
    line = [*words(policy), "--cache", str(tmp_path / "cache")]
    assert main(line) == 0
    first, asked = capsys.readouterr().out, len(prometheus.asked)

    assert main(line) == 0
    assert {each.query for each in prometheus.asked[asked:]} & set(series) == {CREATED}
    assert capsys.readouterr().out == first

    known = len(prometheus.asked)
    assert main([*words(policy), "--no-cache"]) == 0
    without = {each.query for each in prometheus.asked[known:]}
    assert without == {each.query for each in prometheus.asked[:asked]} - {CREATED}


def test_a_backtest_can_be_a_page(policy, tmp_path, capsys) -> None:
    page = tmp_path / "page.html"
    assert main([*words(policy), "--no-cache", "--report", str(page)]) == 0
    assert "overloaded node-minutes" in capsys.readouterr().out
    assert "what happened" in page.read_text()


def test_the_number_of_processes_changes_nothing(policy, tmp_path, capsys) -> None:
    high = written(tmp_path / "high.yaml", policy.read_text().split('"')[1], target=90)
    line = [*words(policy, high), "--cache", str(tmp_path / "cache"), "-o", "json"]
    shown = []
    for jobs in ("1", "2"):
        assert main([*line, "--jobs", jobs]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_each_cluster_has_a_backtest_of_its_own(policy, prometheus, jobs, capsys) -> None:
    with FakePrometheus() as calm:
        add_hot_cluster(calm, load_ratio=0.5)
        clusters = ["--cluster", f"prod={prometheus.url}", "--cluster", f"stage={calm.url}"]
        line = [*words(policy), *clusters, "--no-cache", "--jobs", jobs]
        assert main([*line, "-o", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert main(line) == 0
        table = capsys.readouterr().out

    assert found["version"] == "desched.io/backtests/v1"
    minutes = {
        each["cluster"]: each["backtest"]["policies"][0]["without"]["node_minutes"]
        for each in found["clusters"]
    }
    assert minutes == {"prod": 60, "stage": 0}
    titles = [line for line in table.splitlines() if line.startswith("desched · ")]
    assert titles == ["desched · backtest · prod", "desched · backtest · stage"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--jobs", "0"], "--jobs must be 1 or more"),
        (["--jobs", "2", "--workers", "dask:8786"], "--jobs has no effect with --workers"),
        *((["--workers", each], "host and port") for each in ("dask", "tls://dask", ":8786")),
        (["--cluster", "prod"], "must be a name and an address"),
        (["--cluster", "a=http://x", "--cluster", "a=http://y"], "--cluster names a twice"),
        (["--cluster", "a=http://x", "--prometheus-url", "http://y"], "--prometheus-url has no"),
        (["--cluster", "a=http://x", "--report", "page.html"], "--report has no effect with"),
        (["--since", "2026-05-01T09:55"], "must be at least 2 intervals apart"),
        (["--since", "2026-05-01T11:00"], "--since must be before --until"),
        (["--until", "2999-01-01"], "--until must not be in the future"),
        (["--since", "2026-01-01"], "at most 31 days apart"),
        (["--since", "yesterday"], '"yesterday" is not a time'),
        (["--step", "7m"], "--step must divide an hour"),
        (["--step", "5"], "--step has no unit"),
        (["--no-cache", "--cache", "."], "--cache has no effect with --no-cache"),
        (["--policy", "nowhere.yaml"], "nowhere.yaml: the policy cannot be read"),
        (["--kubeconfig", "x", "--dry-run"], "--dry-run has no effect for `desched backtest`"),
    ],
)
def test_wrong_flags_are_refused_with_a_sentence(policy, prometheus, capsys, flags, said) -> None:
    assert main([*words(policy), *flags]) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert shown.count("\n") == 1
    assert prometheus.asked == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--since", "7d"], "No policy is given; name one with --policy FILE (DESCHED_POLICY)."),
        (["--policy", "a.yaml"], "Say with --since when the time to replay begins"),
    ],
)
def test_a_backtest_needs_a_time_and_a_policy(capsys, given, said) -> None:
    assert main(["backtest", *given]) == 2
    assert said in capsys.readouterr().err


def test_policies_that_read_load_differently_are_not_compared(policy, tmp_path, capsys) -> None:
    other = written(tmp_path / "other.yaml", "http://127.0.0.1:9")
    assert main(words(policy, other)) == 2
    assert "read load differently" in capsys.readouterr().err
    assert main(words(policy, policy)) == 2
    assert "Name each policy once" in capsys.readouterr().err


def test_a_prometheus_without_kube_state_metrics_is_unknown(tmp_path, capsys) -> None:
    with FakePrometheus() as server:
        SmallCluster(server).series.clear()
        policy = written(tmp_path / "policy.yaml", server.url)
        assert main([*words(policy), "--no-cache"]) == 3
    assert "a backtest needs kube-state-metrics" in capsys.readouterr().err


NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("now", NOON),
        ("7d", NOON - timedelta(days=7)),
        ("1h30m", NOON - timedelta(minutes=90)),
        ("2026-04-30", datetime(2026, 4, 30, tzinfo=UTC)),
        ("2026-04-30T08:00", datetime(2026, 4, 30, 8, tzinfo=UTC)),
        ("2026-04-30T08:00Z", datetime(2026, 4, 30, 8, tzinfo=UTC)),
        (
            "2026-04-30T08:00+02:00",
            datetime(2026, 4, 30, 8, tzinfo=timezone(timedelta(hours=2))),
        ),
    ],
)
def test_a_time_is_a_date_or_so_long_ago(text, meant):
    assert point_in_time("--since", text, NOON) == meant


@pytest.mark.parametrize("text", ["", "yesterday", "7", "2026-13-01", "08:00", "11y"])
def test_another_text_is_refused_with_the_forms_that_are_known(text):
    with pytest.raises(ConfigurationError, match=r"--since: .* is not a time; write one such as"):
        point_in_time("--since", text, NOON)


def test_one_policy_is_compared_at_several_prices(policy, capsys) -> None:
    assert main([*words(policy), "--no-cache", "--price", "0s,5m,90m", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["policies"]
    names = [each["policy"] for each in found]
    assert names == [f"{policy} (evictionPrice: {price})" for price in ("0s", "5m", "1h30m")]
    assert [each["evictions"] for each in found] == [1, 1, 0]


@pytest.mark.parametrize(
    ("prices", "problem"),
    [
        ("5", '--price: "5" has no unit'),
        ("5m,,", '--price: "" is not a duration'),
        ("5m,300s", '--price: "5m,300s" has a price twice'),
        ("121m", '--price: found "121m", allowed is at most "120m"'),
    ],
)
def test_prices_that_cannot_be_compared_are_refused(policy, capsys, prices, problem) -> None:
    assert main([*words(policy), "--price", prices]) == 2
    assert problem in capsys.readouterr().err


def test_several_policies_have_their_own_prices(policy, tmp_path, capsys) -> None:
    other = written(tmp_path / "other.yaml", policy.read_text().split('"')[1])
    assert main([*words(policy, other), "--price", "5m"]) == 2
    assert "--price is for one policy" in capsys.readouterr().err
