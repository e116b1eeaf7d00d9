"""Searches from the command line to the recommended policy, with a Prometheus of our own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from pathlib import Path

import dask
import pytest

from desched.bootstrap import tuning
from desched.cli import main
from desched.commands import tune
from desched.whatif.tuning.results import Results
from desched.whatif.tuning.search import Search, Tried
from tests.unit.adapters.prometheus.fake_server import FakePrometheus
from tests.unit.adapters.prometheus.past.small_cluster import SmallCluster
from tests.unit.commands.hot_past import SINCE_UNTIL, hot_prometheus, written
from tests.unit.whatif.tuning.dask_threads import workers_in_this_process


@pytest.fixture
def prometheus() -> Iterator[FakePrometheus]:
    with hot_prometheus() as server:
        yield server


@pytest.fixture
def words(prometheus: FakePrometheus, tmp_path: Path, monkeypatch) -> list[str]:
    """A search over the hour that this Prometheus has."""
    monkeypatch.setattr(tune, "SHORTEST_HOURS", 0)
    path = written(tmp_path / "policy.yaml", prometheus.url)
    return ["tune", *SINCE_UNTIL, "--policy", str(path), "--no-cache", "--policies", "6"]


def test_without_optuna_it_names_what_to_install() -> None:
    """In a process of its own, because this one has loaded Optuna."""
    program = "import sys; sys.modules['optuna'] = None; from desched.cli import main; exit(main())"
    words = [sys.executable, "-c", program, "tune", "--since", "7d", "--policy", "policy.yaml"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603  (ours)

    assert done.returncode == 2
    assert done.stderr.strip().endswith("install it with `pip install 'desched[tune]'`.")


def test_a_search_shows_what_it_found_and_keeps_a_policy_that_is_good(
    words, tmp_path, capsys
) -> None:
    better, page = tmp_path / "better.yaml", tmp_path / "page.html"
    assert main([*words, "--write-policy", str(better), "--report", str(page)]) == 0
    shown, said = capsys.readouterr()
    assert "Keep " in shown
    assert "today's policy" in shown
    assert "varied: targetThresholds.cpu=70..85 " in shown
    assert not better.exists()
    assert f"{better} is not written: nothing is recommended" in said
    assert "Overload left against evictions" in page.read_text()


def test_a_search_for_programs(words, capsys) -> None:
    assert main([*words, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["version"] == "desched.io/tuning/v1"
    assert found["tried"] == 6
    assert found["recommended"] is None
    assert found["today"]["evictions"] == 1
    assert [each["policy"] for each in found["judged"]["policies"]] == [found["policy"]]


def test_a_second_run_continues_the_results(words, tmp_path, capsys) -> None:
    line = [*words, "--results", str(tmp_path / "results")]
    assert main([*line, "-o", "json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert main([*line, "-o", "json"]) == 0
    again, said = capsys.readouterr()
    assert "with 5 known policies" in said
    assert json.loads(again)["front"] == first["front"]
    assert main([*line, "--policies", "8", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["tried"] == 8
    assert main([*line, "--vary", "stopMargin=4,5"]) == 2
    assert "is about another search (what varies differs)" in capsys.readouterr().err


def test_ctrl_c_ends_the_search_and_judges_what_was_found(
    words, tmp_path, monkeypatch, capsys
) -> None:
    results = tmp_path / "results"
    add = Results.add

    def add_and_interrupt(self: Results, tried: Tried) -> None:
        add(self, tried)
        if len(results.read_text().splitlines()) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Results, "add", add_and_interrupt)
    assert main([*words, "--policies", "60", "--results", str(results), "-o", "json"]) == 0
    shown, said = capsys.readouterr()
    found = json.loads(shown)
    assert found["interrupted"]
    assert 1 < found["tried"] < 60
    assert "Judging the best of" in said


def test_nothing_is_searched_where_today_s_policy_leaves_nothing(
    words, prometheus, tmp_path, capsys
) -> None:
    high = written(tmp_path / "high.yaml", prometheus.url, 97)
    assert main([*words, "--policy", str(high)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "it leaves no overload in the time of the search" in shown
    assert "1 policy replayed" in shown


def test_the_end_of_a_worker_has_a_reason(words, monkeypatch, capsys) -> None:
    def end(*_: object) -> None:
        raise BrokenExecutor

    monkeypatch.setattr(Search, "run", end)
    assert main(words) == 2
    assert "memory ran out" in capsys.readouterr().err


def test_workers_of_dask_find_the_same(words, capsys) -> None:
    line = [*words, "-o", "json"]
    assert main(line) == 0
    here = capsys.readouterr().out
    with workers_in_this_process() as cluster:
        assert main([*line, "--workers", cluster.scheduler_address]) == 0
    assert capsys.readouterr().out == here


def test_what_was_found_is_judged_here_if_the_workers_are_lost(words, monkeypatch, capsys) -> None:
    found: list[Tried] = []
    with workers_in_this_process() as cluster:

        def add_and_end(_: Results, tried: Tried) -> None:
            found.append(tried)
            cluster.close()

        monkeypatch.setattr(Results, "add", add_and_end)
        line = ["--policies", "60", "--results", "results", "-o", "json"]
        monkeypatch.chdir(Path(words[words.index("--policy") + 1]).parent)
        assert main([*words, *line, "--workers", cluster.scheduler_address]) == 3
    shown, said = capsys.readouterr()
    assert json.loads(shown)["tried"] == len(found) + 1 < 60
    assert "connection to the scheduler is lost. This machine judges" in said


def test_a_past_that_cannot_be_sent_is_refused(words, monkeypatch, capsys) -> None:
    monkeypatch.setattr(tuning, "MOST_SENT_BYTES", 0)
    with workers_in_this_process() as cluster:
        assert main([*words, "--workers", cluster.scheduler_address]) == 2
    assert "choose a shorter time" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["dask", "tls://dask", "dask:port", ":8786", "tls://:8786"])
def test_an_address_of_no_scheduler_is_refused_before_the_past_is_read(
    words, prometheus, address, capsys
) -> None:
    assert main([*words, "--workers", address]) == 2
    assert "host and port of a Dask scheduler" in capsys.readouterr().err
    assert not prometheus.requests


def test_no_scheduler_is_a_sentence_before_the_past_is_read(words, prometheus, capsys) -> None:
    with dask.config.set({"distributed.comm.timeouts.connect": "500ms"}):
        assert main([*words, "--workers", "127.0.0.1:1"]) == 3
    assert "no Dask scheduler answers" in capsys.readouterr().err
    assert not prometheus.requests


@pytest.fixture
def clusters(words, prometheus: FakePrometheus) -> list[str]:
    return [*words, *(w for name in ("a", "b") for w in ("--cluster", f"{name}={prometheus.url}"))]


def test_clusters_get_a_policy_each_and_a_common_one(clusters, tmp_path, capsys) -> None:
    line = [*clusters, "--write-policy", str(tmp_path / "better.yaml")]
    assert main([*line, "-o", "json"]) == 0
    shown, said = capsys.readouterr()
    found = json.loads(shown)
    assert [each["cluster"] for each in found["clusters"]] == ["a", "b"]
    assert found["today"]["evictions"] == 2 * found["clusters"][0]["tuned"]["today"]["evictions"]
    assert found["tried"] == 6
    assert found["recommended"] is None
    assert "better-a.yaml is not written" in said
    assert main(line) == 0
    assert "The common policy" in capsys.readouterr().out


def test_a_signal_ends_all_searches_and_keeps_what_was_found(
    clusters, tmp_path, monkeypatch, capsys
) -> None:
    results = tmp_path / "results"
    add = Results.add

    def add_and_interrupt(self: Results, tried: Tried) -> None:
        monkeypatch.setattr(Results, "add", add)  # a second signal would end this process
        add(self, tried)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Results, "add", add_and_interrupt)
    assert main([*clusters, "--results", str(results), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["cluster"] for each in found["clusters"]] == ["a"]
    assert found["today"] is None
    assert main([*clusters, "--results", str(results), "-o", "json"]) == 0
    shown, said = capsys.readouterr()
    assert "results.a with" in said
    assert json.loads(shown)["today"] is not None
    assert main([*clusters, "--cluster", "c=http://c", "--results", str(results)]) == 2
    assert "(--cluster differs)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--cluster", "a"], "must be a name and an address"),
        (["--cluster", "../a=http://a"], "must be a name and an address"),
        (["--cluster", "a=http://a"], "--cluster needs two clusters"),
        (["--cluster", "a=http://a", "--cluster", "a=http://b"], "names a twice"),
        (
            ["--cluster", "a=http://a", "--cluster", "b=http://b", "--prometheus-url", "http://c"],
            "--prometheus-url has no effect with --cluster",
        ),
        (
            ["--cluster", "a=http://a", "--cluster", "b=http://b", "--report", "page.html"],
            "--report has no effect with --cluster",
        ),
    ],
)
def test_wrong_clusters_are_refused_with_a_sentence(words, prometheus, capsys, flags, said) -> None:
    assert main([*words, *flags]) == 2
    assert said in capsys.readouterr().err
    assert prometheus.asked == []


def test_the_budget_ends_the_search(words, capsys) -> None:
    assert main([*words, "--policies", "5000", "--budget", "1s", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["interrupted"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--vary", "stopMargin=9..1"], "the lower bound comes first"),
        (["--vary", "evictionLimits.workload=1,2"], "protections, budgets"),
        (["--budget", "ten"], "--budget is not a duration"),
        (["--budget", "0s"], "--budget must be longer than 0s"),
        (["--policies", "1"], "--policies must be from 2"),
        (["--more-evictions", "much"], "--more-evictions must be a percentage"),
        (["--force"], "--force has no effect without --write-policy"),
        (["--policy", "nowhere.yaml"], "nowhere.yaml: the policy cannot be read"),
        (["--from", "7d"], "did you mean --since?"),
    ],
)
def test_wrong_flags_are_refused_with_a_sentence(words, prometheus, capsys, flags, said) -> None:
    assert main([*words, *flags]) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert shown.count("\n") == 1
    assert prometheus.asked == []


def test_a_short_time_cannot_be_searched(words, monkeypatch, prometheus, capsys) -> None:
    monkeypatch.setattr(tune, "SHORTEST_HOURS", 12)
    assert main(words) == 2
    assert "must be at least 12h apart" in capsys.readouterr().err
    assert prometheus.asked == []


def test_a_time_that_prometheus_has_not_kept_is_unknown(words, prometheus, capsys) -> None:
    SmallCluster(prometheus).series.clear()
    assert main(words) == 3
    assert "Prometheus" in capsys.readouterr().err


def test_an_existing_file_is_not_replaced(words, tmp_path, prometheus, capsys) -> None:
    path = tmp_path / "kept.yaml"
    path.write_text("mine")
    assert main([*words, "--write-policy", str(path)]) == 2
    assert "pass --force to replace it" in capsys.readouterr().err
    assert path.read_text() == "mine"
    assert prometheus.asked == []
