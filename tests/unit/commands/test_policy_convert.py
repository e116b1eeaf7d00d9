import io
import json
import re

import pytest
import yaml

from desched.cli import main
from desched.policy_file.loading import parse_policy
from tests.properties.outputs import Terminal
from tests.repository import ROOT

ORIGINALS = ROOT / "tests" / "unit" / "convert" / "originals"
KOORDINATOR = str(ORIGINALS / "koordinator-traps.yaml")


def test_the_policy_goes_to_standard_output_and_the_notes_to_standard_error(capsys):
    assert main(["policy", "convert", KOORDINATOR]) == 0
    out, err = capsys.readouterr()
    assert parse_policy(out, "f").policy.limits.total == 0
    lines = err.splitlines()
    assert lines[0] == "Nothing is evicted until you have settled:"
    assert (
        " ".join(lines[1].split())
        == "line 3 dryRun: it was a dry run; start desched with --dry-run for one."
    )
    assert {"Other meaning or form here:", "Left out:", "Added:"} <= {*lines}
    assert lines[-1].endswith("notes; the policy has them as comments.")


def test_a_note_on_what_is_added_has_the_new_key(capsys):
    assert main(["policy", "convert", str(ROOT / "policies" / "volcano-published.yaml")]) == 0
    assert "numberOfNodes: 0 requires one node" in capsys.readouterr().err


def test_a_policy_that_excludes_the_default_namespace_is_worth_knowing(capsys):
    assert main(["policy", "convert", str(ROOT / "policies" / "volcano-published.yaml")]) == 0
    out, err = capsys.readouterr()
    assert "exclude: names default, where kubectl" in err
    assert "# names default, where kubectl" in out


@pytest.mark.parametrize("columns", ["40", "80"])
def test_the_notes_fit_the_terminal(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    main(["policy", "convert", KOORDINATOR])
    text = re.sub(r"\x1b\[[\d;]*m", "", terminal.getvalue())
    assert max(map(len, text.splitlines())) <= int(columns)


def test_json_is_the_same_policy(capsys):
    main(["policy", "convert", KOORDINATOR])
    as_yaml = yaml.safe_load(capsys.readouterr().out)
    assert main(["policy", "convert", KOORDINATOR, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == as_yaml


def test_standard_input_is_converted(monkeypatch, capsys):
    text = (ORIGINALS / "cce.json").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(["policy", "convert", "-", "--from", "cce"]) == 0
    assert "from <stdin> (cce)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["/none.yaml"], "/none.yaml: the policy cannot be read: No such file"),
        ([str(ROOT / "policies" / "cautious.yaml")], "only desched has windows"),
        ([KOORDINATOR, "--from", "v1alpha1"], "strategies: there is no LowNodeUtilization"),
        ([KOORDINATOR, "--from", "cron"], "'cron' is not one of"),
        ([KOORDINATOR, KOORDINATOR], "is unknown"),
        ([], "requires FILE"),
    ],
)
def test_what_cannot_be_converted_is_refused_without_output(capsys, words, said):
    assert main(["policy", "convert", *words]) == 2
    out, err = capsys.readouterr()
    assert said in err
    assert not out
