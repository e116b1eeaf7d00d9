import json

import pytest

from desched.cli import main
from desched.snapshot_file.storage import load_snapshot
from tests.repository import ROOT

SNAPSHOT = ROOT / "tests" / "unit" / "snapshot_file" / "stored" / "desched-0.1.0.snapshot"
CAUTIOUS, CPU_ONLY = (str(ROOT / "policies" / f"{name}.yaml") for name in ("cautious", "cpu-only"))


@pytest.fixture
def two(tmp_path):
    """The policy of the stored snapshot, and another one."""
    text = load_snapshot(SNAPSHOT).policy_text
    paths = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    paths[0].write_text(text)
    paths[1].write_text(text.replace("node: 5", "node: 1").replace("cpu: 70", "cpu: 75"))
    return [str(path) for path in paths]


def test_each_difference_has_both_values_and_its_meaning(capsys):
    assert main(["policy", "diff", CAUTIOUS, CPU_ONLY]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "targetThresholds.cpu: 85 % → 80 %" in lines
    assert "DefaultEvictor.minReplicas: 2 → 0" in lines
    assert lines[-1] == f"{sum('→' in line for line in lines)} differences in meaning."


def test_a_policy_does_not_differ_from_itself(capsys):
    assert main(["policy", "diff", CAUTIOUS, CAUTIOUS]) == 0
    assert capsys.readouterr().out == "No difference in meaning.\n"


def test_json_has_the_keys_and_the_plans_if_there_is_a_snapshot(two, capsys):
    assert main(["policy", "diff", *two, "--snapshot", str(SNAPSHOT), "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["key"] for row in document["policy"]] == [
        "targetThresholds.cpu",
        "evictionLimits.node",
    ]
    assert document["plan"]["evictions_before"]
    assert main(["policy", "diff", *two, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["plan"] is None


def test_a_snapshot_shows_what_would_be_decided_differently(two, capsys):
    assert main(["policy", "diff", *two, "--snapshot", str(SNAPSHOT)]) == 0
    text = capsys.readouterr().out
    assert "2 differences in meaning." in text
    assert "Evicted with the first policy only:" in text
    assert "Evicted with the second policy only:" not in text
    assert "  limit_node: 0 → " in text
    assert main(["policy", "diff", two[0], two[0], "--snapshot", str(SNAPSHOT)]) == 0
    assert "On the snapshot both decide the same: 2 evictions." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([CAUTIOUS], "`desched policy diff` requires OTHER"),
        ([CAUTIOUS, "/none.yaml"], "/none.yaml: the policy cannot be read"),
        ([CAUTIOUS, CPU_ONLY, "--snapshot", "/none"], "/none: the snapshot cannot be read"),
        ([CAUTIOUS, CPU_ONLY, "--snapshot", str(SNAPSHOT)], "does not have"),
        ([CAUTIOUS, CPU_ONLY, "x"], 'The argument "x" is unknown'),
    ],
)
def test_what_cannot_be_compared_is_refused(capsys, words, said):
    assert main(["policy", "diff", *words]) == 2
    out, err = capsys.readouterr()
    assert said in err
    assert not out
