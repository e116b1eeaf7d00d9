"""An installation without its annexes runs cycles, and says what it leaves out."""

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from desched import __version__
from desched.cli.command_table import SUMMARIES
from tests.repository import ROOT
from tests.stored_snapshots import STORED

SNAPSHOT = STORED / f"desched-{__version__}.snapshot"
COMMANDS = {
    "backtest": ("lab", "--since", "1h"),
    "demo": ("lab",),
    "simulate": ("lab", "published"),
    "policy convert": ("convert", "policy.yaml"),
    "doctor": ("doctor",),
}
"""The annex that each command needs, and arguments with which it would run."""

IMPORT_ALL = """
import sys
from importlib import import_module
from pathlib import Path

import desched

folder = Path(desched.__file__).parent
assert folder.parent == Path.cwd()
for path in folder.rglob("*.py"):
    parts = path.relative_to(folder.parent).with_suffix("").parts
    name = ".".join(parts).removesuffix(".__init__")
    if name not in {"desched.__main__", *sys.argv[1:]}:
        print(import_module(name).__name__)
"""


def run(installation: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603  (our own program)
        [sys.executable, *arguments],
        cwd=installation,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def annexes() -> set[str]:
    text = (ROOT / "pyproject.toml").read_text()
    contracts = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    (contract,) = (each for each in contracts if each["id"] == "annexes")
    return {name.removeprefix("desched.") for name in contract["protected_modules"]}


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of desched that has no annex."""
    folder = tmp_path_factory.mktemp("core")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "desched", folder / "desched", ignore=ignored)
    for annex in annexes():
        shutil.rmtree(folder / "desched" / annex)
    (folder / "desched" / "convert" / "__pycache__").mkdir(
        parents=True
    )  # as some removals leave it
    return folder


def test_the_commands_of_all_annexes_are_tested() -> None:
    assert {annex for annex, *_ in COMMANDS.values()} == annexes()
    assert COMMANDS.keys() < SUMMARIES.keys()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_without_its_annex_says_so_in_one_line(core: Path, command: str) -> None:
    annex, *arguments = COMMANDS[command]
    done = run(core, "-m", "desched", *command.split(), *arguments)
    assert done.returncode == 2
    assert done.stderr == (
        f"desched: This installation leaves out desched.{annex}, which `desched {command}` needs; "
        "use a complete one.\n"
    )
    assert not done.stdout


@pytest.mark.parametrize(
    "arguments",
    ["--help", "help settings", *(f"{command} --help" for command in SUMMARIES)],
)
def test_every_page_of_help_is_there(core: Path, arguments: str) -> None:
    done = run(core, "-m", "desched", *arguments.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_it_has_all_of_the_core_and_runs_cycles(core: Path) -> None:
    needing = {f"desched.commands.{command.replace(' ', '_')}" for command in COMMANDS}
    done = run(core, "-c", IMPORT_ALL, *needing)
    assert (done.returncode, done.stderr) == (0, "")
    imported = set(done.stdout.split())
    assert {"desched.bootstrap.runs", "desched.commands.cycles", "desched.commands.plan"} < imported
    assert not imported & needing


def test_it_plans_as_the_whole_does(core: Path) -> None:
    assert run(core, "-m", "desched", "version").stdout == f"desched {__version__}\n"
    command = ("-m", "desched", "plan", "--snapshot", str(SNAPSHOT), "--output", "json")
    done, whole = run(core, *command), run(ROOT, *command)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["plan"] == json.loads(whole.stdout)["plan"]
