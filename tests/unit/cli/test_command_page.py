"""docs/commands.md has a section for each command, and its examples print what they print."""

import re
import shlex
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from desched.bootstrap.interventions import Change
from desched.cli import main
from desched.cli.command import options_by_flag
from desched.cli.command_table import SUMMARIES
from desched.commands.pause import pausing
from desched.commands.resume import resuming
from desched.doctor.diagnosis import diagnose
from desched.doctor.table import DoctorReport, diagnosis_blocks
from desched.lab.demo import POLICY_FILE
from desched.lab.scenarios import guarded_scenario
from desched.model.state import PauseScope, State
from desched.policy_file.loading import read_policy
from desched.snapshot_file.storage import save_snapshot
from desched.snapshot_file.taken import Redaction, take_snapshot
from desched.views.rendering import rendered
from tests.builders import NOW
from tests.repository import ROOT
from tests.shown import text_of
from tests.unit.commands.test_interventions import REMEMBERED, Office, pause
from tests.unit.doctor.examinations import examination
from tests.unit.views.test_every_view import VIEWS

PAGE = ROOT / "docs" / "commands.md"
POLICY = ROOT / "desched" / "lab" / POLICY_FILE
CONVERTED = ROOT / "tests" / "unit" / "convert" / "originals" / "v1alpha1.yaml"


def examples() -> dict[str, str]:
    """Each command that the page shows with its output."""
    blocks = re.findall(r"^```console\n\$ (.+)\n((?:.*\n)+?)```", PAGE.read_text(), re.MULTILINE)
    return dict(blocks)


def typed() -> list[list[str]]:
    """The words of each desched command that stands on a line of its own."""
    lines = re.findall(r"^(?:\$ )?(desched .+?)(?: +#.*| >.*)?$", PAGE.read_text(), re.MULTILINE)
    return [shlex.split(line) for line in lines]


def of_view(name: str) -> str:
    return rendered(*VIEWS[name].parts(VIEWS[name].value()), "table")


def diagnosis() -> str:
    found = DoctorReport(NOW, 'context "prod"', "p.yaml", "dry_run", diagnose(examination()))
    return text_of(diagnosis_blocks(found))


def of_person(change: Change, state: State) -> str:
    return Office(state).run(change)


WITH_CLUSTER: dict[str, Callable[[], str]] = {
    "doctor": diagnosis,
    "backtest": partial(of_view, "backtest"),
    "status": partial(of_view, "status"),
    "report": partial(of_view, "review"),
    "history": partial(of_view, "history"),
    "pause": lambda: of_person(pausing({"for": "2h", "because": "storage upgrade"}), REMEMBERED),
    "resume": lambda: of_person(
        resuming({}), State(since=NOW, pauses=(pause(PauseScope.EVERYTHING),))
    ),
}
"""What commands print that need a cluster or Prometheus."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the files that the page names."""
    monkeypatch.chdir(tmp_path)
    text = POLICY.read_text()
    for name, policy in {
        "policy.yaml": text,
        "new.yaml": text.replace("cpu: 80", "cpu: 70"),
        "typo.yaml": text.replace("targetThresholds", "targetThreshold"),
    }.items():
        Path(name).write_text(policy)
    shutil.copy(CONVERTED, "descheduler.yaml")
    seen = guarded_scenario().world(acting=False)
    content = take_snapshot(seen, read_policy(Path("policy.yaml")), State(), "prod", Redaction())
    save_snapshot(content, Path("now.snapshot"))
    return tmp_path


def pattern(shown: str) -> str:
    """The regular expression of an output in which … stands for any lines."""
    lines = shown.splitlines()
    return "".join(r"(?:.*\n)*?" if line == "…" else re.escape(line) + r" *\n" for line in lines)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", examples())
def test_an_example_prints_what_the_page_has(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, *words = shlex.split(command.partition(" >")[0])
    if words[0] in WITH_CLUSTER:
        printed = WITH_CLUSTER[words[0]]()
    else:
        main(words)
        said = capsys.readouterr()
        printed = said.err if ">" in command else said.out

    assert re.fullmatch(pattern(examples()[command]), printed), printed


def test_every_command_has_a_section_and_no_other_has() -> None:
    assert sorted(re.findall(r"^## desched (.+)$", PAGE.read_text(), re.MULTILINE)) == sorted(
        SUMMARIES
    )


def test_each_flag_that_is_typed_is_one_of_its_command() -> None:
    of_a_command = 0
    for _, *words in typed():
        for name in {" ".join(words[:2]), words[0]} & SUMMARIES.keys():
            flags = [word for word in words if word.startswith("-") and word != "-"]
            assert all(name in options_by_flag().get(flag, {}) for flag in flags), words
            of_a_command += len(flags)
    assert of_a_command > 10
