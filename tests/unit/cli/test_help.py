import os
import re
import shlex
import subprocess
import sys

import pytest

from desched import __version__
from desched.cli import main
from desched.cli.command import flags_of, load_command
from desched.cli.command_table import SUMMARIES
from desched.cli.lazy_loading import load_to_run
from desched.cli.program import COMPLETION
from desched.cli.setting_flags import EXPLAINED, PROMETHEUS
from desched.settings import Settings, flag_of, option_of, variable_of
from tests.repository import ROOT

FIELDS = [n for n, f in Settings.model_fields.items() if not option_of(f).environment_only]
SECRETS = [n for n, f in Settings.model_fields.items() if option_of(f).environment_only]


def page(capsys, *arguments):
    """What a help page says, which ends well."""
    assert main(arguments) == 0
    return capsys.readouterr().out


def test_the_help_of_settings_names_every_flag_and_variable(capsys):
    text = page(capsys, "help", "settings")
    for name in FIELDS:
        assert re.search(rf"^ .*{flag_of(name)}( |$)", text, re.MULTILINE)
    for name in Settings.model_fields:
        assert re.search(rf"\b{variable_of(name)}\b", text)
    assert "Default: 5m" in text


def test_the_help_page_names_every_command_and_exit_code(capsys):
    text = page(capsys, "--help")
    for name, summary in SUMMARIES.items():
        assert re.search(rf"^  {name} +{re.escape(summary)}$", text, re.MULTILINE)
    for words in ("Exit codes: 0 done", "desched plan --policy", "desched help settings"):
        assert words in text


def test_the_help_page_fits_on_two_screens(capsys):
    lines = page(capsys, "--help").splitlines()
    assert len(lines) <= 80
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("name", SUMMARIES)
def test_the_help_of_a_command_has_two_examples_and_its_flags_on_one_screen(name, capsys):
    text = page(capsys, *name.split(), "--help")
    assert text.startswith(f"Usage: desched {name}")
    assert SUMMARIES[name] in text
    assert text.count("\n  # ") == 2
    command = load_command(name)
    named = set(command.settings) - {*EXPLAINED}
    listed = re.findall(r"^  (?:-\w, )?(--[a-z-]+)(?:\s|$)", text, re.MULTILINE)
    flags = [option.opts for option in flags_of(command) if option.name not in named]
    assert listed == [next(flag for flag in names if flag.startswith("--")) for names in flags]
    for setting in named - {*PROMETHEUS, *SECRETS}:
        assert re.search(rf"{flag_of(setting)}\b", text.partition("help settings`:")[2])
    lines = text.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert page(capsys, "help", *name.split()) == text


WITHOUT_CLUSTER = {"completion", "help", "policy convert", "policy diff", "validate", "version"}


@pytest.mark.parametrize("name", SUMMARIES)
def test_the_examples_of_a_command_are_accepted(name, mocker, monkeypatch):
    monkeypatch.chdir(ROOT)
    for other in set(SUMMARIES) - WITHOUT_CLUSTER:
        mocker.patch.object(load_to_run(other), "run", return_value=0)
    for line in load_command(name).examples:
        (words,) = re.findall(r"(?:^|\(|-- )desched ([^|>)]*)", line)
        assert main(shlex.split(words)) == 0


def test_the_help_of_a_command_shows_a_variable_beside_each_setting(capsys):
    text = page(capsys, "plan", "--help")
    assert re.search(r"--policy FILE [^\[]+\[DESCHED_POLICY\]", text)


def test_a_flag_is_never_broken_in_two(capsys):
    for words in (["--help"], ["help", "settings"], ["plan", "--help"]):
        assert not re.search(r"-\n", page(capsys, *words))


def test_help_before_a_command_is_the_help_of_the_command(capsys):
    assert page(capsys, "--help", "status") == page(capsys, "status", "-h")


def test_help_of_no_command_is_refused(capsys):
    assert main(["help", "steering", "wheel"]) == 2
    assert 'There is no command "steering wheel"' in capsys.readouterr().err


def test_the_help_page_shows_no_value_of_the_environment(capsys, monkeypatch):
    monkeypatch.setenv("DESCHED_PROMETHEUS_PASSWORD", "s3cr3t")
    for words in (["--help"], ["help", "settings"], ["plan", "--help"]):
        assert "s3cr3t" not in page(capsys, *words)


@pytest.mark.parametrize("word", ["--version", "version"])
def test_the_version_is_printed(word, capsys):
    assert page(capsys, word) == f"desched {__version__}\n"


HEAVY = {"kubernetes", "apscheduler", "numpy", "requests", "pydantic", "rich", "structlog"}


QUICK = [["--version"], ["--help"], ["plan", "--help"], ["--nosuch"], ["help", "settings"]]


@pytest.mark.parametrize("words", QUICK)
def test_help_loads_nothing_heavy(words):
    assert heavy_modules(words) == "set()"


def test_completion_loads_nothing_heavy():
    asked = {"COMP_WORDS": "desched plan --", "COMP_CWORD": "2", COMPLETION: "bash_complete"}
    assert heavy_modules([], asked) == "set()"


def test_what_a_command_needs_is_loaded_when_it_runs():
    assert heavy_modules(["plan"]) != "set()"


def heavy_modules(words, variables=None):
    """Which large libraries a process of its own has loaded after these words."""
    program = (
        f"import sys; from desched.cli import main; main({words})\n"
        f"print({HEAVY} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(  # noqa: S603  (our own interpreter and program)
        [sys.executable, "-c", program],
        env={**os.environ, **(variables or {})},  # noqa: TID251  (the process's own)
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stderr.splitlines()[-1]
