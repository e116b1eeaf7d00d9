"""Plans of snapshot files, from the command line to the report."""

import gzip
import io
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from desched.bootstrap import look
from desched.bootstrap.load_source import LoadSource
from desched.bootstrap.look import LiveCluster
from desched.cli import main
from desched.cycle import run_cycle
from desched.cycle_report import CycleInfo
from desched.lab.demo import POLICY_FILE
from desched.lab.scenarios import OVERLOADED_NODE, guarded_scenario
from desched.lab.world import Simulation
from desched.model.report import Mode
from desched.model.state import State
from desched.policy_file.loading import PolicyText, parse_policy
from desched.snapshot_file.storage import load_snapshot
from tests.repository import ROOT
from tests.shown import shown

POLICY = ROOT / "desched" / "lab" / POLICY_FILE


@pytest.fixture
def live(mocker) -> Simulation:
    """A simulated cluster in place of the one that the settings name."""
    simulation = guarded_scenario()

    def look_at(_settings, policy, policy_text, _clock) -> LiveCluster:
        source = mocker.create_autospec(LoadSource, instance=True)
        return LiveCluster(
            simulation.world(acting=False), policy, policy_text, State(), "the lab", source
        )

    mocker.patch.object(look, "_look", autospec=True, side_effect=look_at)
    return simulation


def taken(path: Path, *flags: str) -> Path:
    assert main(["snapshot", "-o", str(path), "--policy", str(POLICY), *flags]) == 0
    return path


def test_the_plan_of_a_snapshot_is_that_of_a_dry_run(live, tmp_path, capsys) -> None:
    path = taken(tmp_path / "now.snapshot")
    said = capsys.readouterr()
    assert said.out == ""
    assert f"Wrote {path} (" in said.err
    assert " KiB): 5 nodes and 21 pods of the lab." in said.err

    assert main(["plan", "--snapshot", str(path), "-o", "json"]) == 0

    found = json.loads(capsys.readouterr().out)
    policy = parse_policy(POLICY.read_text(), "p").policy
    info = CycleInfo(1, Mode.DRY_RUN, "live")
    report, _ = run_cycle(live.world(acting=False), policy, State(), info)
    assert report.plan.evictions
    assert found["plan"] == json.loads(shown(report, "json"))["plan"]
    assert found["target"] == "snapshot of the lab"
    assert found["policy"] == f"{POLICY_FILE} in {path}"


@pytest.mark.usefixtures("live")
def test_a_snapshot_can_be_streamed_from_a_pod(tmp_path, monkeypatch) -> None:
    stdout = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr("sys.stdout", stdout)

    assert main(["snapshot", "-o", "-", "--policy", str(POLICY)]) == 0

    (tmp_path / "s").write_bytes(stdout.buffer.getvalue())
    assert len(load_snapshot(tmp_path / "s").snapshot.cluster.nodes) == 5


@pytest.mark.usefixtures("live")
def test_names_can_be_replaced(tmp_path) -> None:
    path = taken(tmp_path / "s", "--hash-names")

    text = gzip.decompress(path.read_bytes())
    assert OVERLOADED_NODE.encode() not in text
    assert b"the lab" not in text


@pytest.mark.usefixtures("live")
def test_another_policy_can_plan_a_snapshot(tmp_path, capsys) -> None:
    path = taken(tmp_path / "s")
    other = tmp_path / "other.yaml"
    other.write_text(POLICY.read_text().replace("cpu: 80", "cpu: 95"))

    assert main(["plan", "--snapshot", str(path), "--policy", str(other)]) == 0
    assert "No node is overloaded" in capsys.readouterr().out

    for old, new, missing in (
        ("thresholds:", "duration: 7m\n          thresholds:", "the load of memory over 7m"),
        ("thresholds:", "nodeSelector: disk=fast\n          thresholds:", "node label disk"),
    ):
        other.write_text(POLICY.read_text().replace(f"          {old}", f"          {new}"))
        assert main(["plan", "--snapshot", str(path), "--policy", str(other)]) == 2
        said = capsys.readouterr().err
        assert missing in said
        assert said.count("\n") == 1


@pytest.mark.usefixtures("live")
def test_a_snapshot_can_be_planned_at_another_price(tmp_path, capsys) -> None:
    path = taken(tmp_path / "s")
    plans, written = {}, {"1m": "1m", "90m": "1h30m"}
    for price in ("1m", "90m"):
        assert main(["plan", "--snapshot", str(path), "--price", price, "-o", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["policy"] == f"{POLICY_FILE} in {path} (evictionPrice: {written[price]})"
        plans[price] = found["plan"]
    assert plans["1m"]["evictions"]
    assert not plans["90m"]["evictions"]
    (hot,) = (each for each in plans["90m"]["nodes"] if each["node"] == OVERLOADED_NODE)
    assert hot["reason"] == "overload_passes"


@pytest.mark.usefixtures("live")
def test_a_price_that_is_no_duration_is_refused(tmp_path, capsys) -> None:
    path = taken(tmp_path / "s")
    assert main(["plan", "--snapshot", str(path), "--price", "5"]) == 2
    assert '--price: "5" has no unit' in capsys.readouterr().err


@pytest.mark.usefixtures("live")
def test_with_all_labels_another_policy_can_select_by_any(tmp_path, capsys) -> None:
    path = taken(tmp_path / "s", "--all-labels")
    other = tmp_path / "other.yaml"
    text = POLICY.read_text()
    other.write_text(
        text.replace(
            "          thresholds:", "          nodeSelector: disk=fast\n          thresholds:"
        )
    )

    assert main(["plan", "--snapshot", str(path), "--policy", str(other)]) == 3
    assert "No node is in scope" in capsys.readouterr().out


@pytest.mark.usefixtures("live")
def test_the_environment_names_no_policy_for_a_snapshot(tmp_path, monkeypatch) -> None:
    path = taken(tmp_path / "s")
    monkeypatch.setenv("DESCHED_POLICY", "/nowhere.yaml")

    assert main(["plan", "--snapshot", str(path)]) == 0


@pytest.mark.usefixtures("live")
def test_one_node_and_all_of_its_pods_can_be_shown(tmp_path, capsys) -> None:
    path = taken(tmp_path / "s")
    capsys.readouterr()

    assert main(["plan", "--snapshot", str(path), "--node", OVERLOADED_NODE, "--all"]) == 0
    found = capsys.readouterr().out
    assert f"{OVERLOADED_NODE}: demo/stress" in found
    assert "te1 " not in found

    assert main(["plan", "--snapshot", str(path), "--node", "te9"]) == 2
    assert 'There is no node "te9" among the 5 nodes.' in capsys.readouterr().err
    assert main(["plan", "--snapshot", str(path), "--all", "-o", "json"]) == 2
    assert "--node and --all are for the table" in capsys.readouterr().err


def test_the_text_of_the_policy_is_as_it_was_read(live, tmp_path) -> None:
    content = load_snapshot(taken(tmp_path / "s"))

    assert PolicyText(content.policy_text, content.policy_source) == (
        POLICY.read_text(),
        POLICY_FILE,
    )
    assert content == replace(content, state=State(), target="the lab")
    assert live


@pytest.mark.usefixtures("live")
def test_a_question_about_a_snapshot_has_the_answer_of_a_live_one(tmp_path, capsys) -> None:
    path = taken(tmp_path / "s")
    for words in (["node", OVERLOADED_NODE], ["pod/demo/payments-1"], ["deploy", "demo/quorum"]):
        capsys.readouterr()
        assert main(["explain", *words, "--policy", str(POLICY), "-o", "json"]) == 0
        live_answer = json.loads(capsys.readouterr().out)
        assert main(["explain", *words, "--snapshot", str(path), "-o", "json"]) == 0
        answer = json.loads(capsys.readouterr().out)

        assert answer["policy"] == f"{POLICY_FILE} in {path}"
        assert answer["target"] == "snapshot of the lab"
        assert {**answer, "policy": "", "target": ""} == {**live_answer, "policy": "", "target": ""}


@pytest.mark.usefixtures("live")
def test_a_question_about_nothing_is_refused_in_one_sentence(tmp_path, capsys) -> None:
    path = taken(tmp_path / "s")
    capsys.readouterr()

    for words, said in (
        (["node", "te33"], "There is no node te33; did you mean te3?"),
        (["pod", "payments-1"], "Name the pod with its namespace"),
        ([], "`desched explain` requires node|pod|workload"),
        (["node", "te3", "te4"], 'The argument "te4" is unknown'),
        (["node", "te3", "--context", "x"], "--context has no effect with --snapshot"),
    ):
        assert main(["explain", *words, "--snapshot", str(path)]) == 2
        shown = capsys.readouterr().err
        assert said in shown
        assert shown.count("\n") == 1
