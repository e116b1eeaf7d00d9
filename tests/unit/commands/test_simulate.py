"""Simulations from the command line to the figures."""

import json
from pathlib import Path

import pytest

from desched.cli import main
from desched.lab.demo import POLICY_FILE
from desched.lab.scenarios import guarded_scenario
from desched.model.state import State
from desched.policy_file.loading import read_policy
from desched.snapshot_file.storage import save_snapshot
from desched.snapshot_file.taken import Redaction, take_snapshot
from tests.repository import ROOT

POLICY = ROOT / "desched" / "lab" / POLICY_FILE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A snapshot file of the guarded scenario."""
    world, text = guarded_scenario().world(acting=False), read_policy(POLICY)
    content = take_snapshot(world, text, State(), "the lab", Redaction())
    save_snapshot(content, tmp_path / "now.snapshot")
    return tmp_path / "now.snapshot"


def with_line(line: str, folder: Path) -> Path:
    """The policy with one more argument."""
    indent = " " * 10
    found = folder / "other.yaml"
    text = POLICY.read_text()
    found.write_text(text.replace(f"{indent}thresholds:", f"{indent}{line}\n{indent}thresholds:"))
    return found


def test_a_snapshot_file_is_simulated_by_its_own_policy(path, capsys) -> None:
    assert main(["simulate", str(path), "--hours", "1", "-o", "json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["target"] == "snapshot of the lab"
    assert [each["policy"] for each in found["policies"]] == [f"{POLICY_FILE} in {path}"]
    assert found["policies"][0]["evictions"] == 1


def test_policies_are_compared_and_need_not_have_the_windows_of_the_snapshot(
    path, tmp_path, capsys
) -> None:
    wide = with_line("duration: 10m", tmp_path)
    words = ["simulate", str(path), "--policy", str(POLICY), "--policy", str(wide), "--hours", "1"]

    assert main([*words, "--report", str(tmp_path / "page.html")]) == 0

    said = capsys.readouterr()
    assert "overloaded node-minutes" in said.out
    assert "The report is in" in said.err
    assert "no descheduler" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("name", ["published", "guarded", "steering"])
def test_the_scenarios_of_the_demonstration_can_be_simulated(name, capsys) -> None:
    assert main(["simulate", name, "--hours", "0.5", "-o", "json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["target"] == f"scenario {name}"
    assert found["policies"][0]["evictions"] >= 1


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--hours", "0.1"], "--hours must be from 0.25 to 168."),
        (["--hours", "nan"], "--hours must be from 0.25"),
        (["--hours", "x"], "'x' is not a number"),
        (["--seed", "x"], "'x' is not a whole number"),
        (["--policy", "nowhere.yaml"], "nowhere.yaml: the policy cannot be read"),
        (["-o", "toml"], "'toml' is not one of 'table', 'json', 'yaml'"),
        (["--context", "prod"], "--context has no effect for `desched simulate`"),
    ],
)
def test_wrong_flags_are_refused_with_a_sentence(path, capsys, flags, said) -> None:
    assert main(["simulate", str(path), *flags]) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert shown.count("\n") == 1


def test_what_is_neither_a_file_nor_a_scenario_is_refused(capsys) -> None:
    assert main(["simulate", "yesterday"]) == 2
    assert "yesterday is neither a file nor one of the scenarios" in capsys.readouterr().err


def test_a_policy_that_needs_more_than_the_snapshot_has_is_refused(path, tmp_path, capsys) -> None:
    by_label = with_line("nodeSelector: disk=fast", tmp_path)

    assert main(["simulate", str(path), "--policy", str(by_label)]) == 2
    assert "does not have node label disk" in capsys.readouterr().err


def test_a_policy_with_a_target_for_pods_needs_nothing_anew(path, tmp_path, capsys) -> None:
    by_pods = tmp_path / "pods.yaml"
    text = POLICY.read_text()
    for line in ("cpu: 80", "cpu: 30"):
        assert text.count(line) == 1
        text = text.replace(line, f"{line}\n            pods: 90")
    by_pods.write_text(text)

    assert main(["simulate", str(path), "--policy", str(by_pods), "--hours", "1"]) == 0
    assert "1 h from" in capsys.readouterr().out


def test_for_a_resource_that_was_not_measured_the_snapshot_is_to_be_taken_anew(
    path, tmp_path, capsys
) -> None:
    by_gpus = tmp_path / "gpus.yaml"
    text = POLICY.read_text()
    for line in ("cpu: 80", "cpu: 30"):
        text = text.replace(line, f"{line}\n            gpu: 90")
    by_gpus.write_text(text)

    assert main(["simulate", str(path), "--policy", str(by_gpus)]) == 2
    said = capsys.readouterr().err
    assert "does not have the load of gpu, which it watches; take it anew with" in said
    assert f"`desched snapshot --policy {by_gpus}`" in said


def test_one_policy_is_not_compared_with_itself(path, capsys) -> None:
    words = ["simulate", str(path), "--policy", str(POLICY), "--policy", str(POLICY)]

    assert main(words) == 2
    assert "Name each policy once" in capsys.readouterr().err
