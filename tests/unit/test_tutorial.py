"""Tutorials are run as they are written, from their first command to their last."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from desched.cli import main
from tests.repository import ROOT

TUTORIALS = {
    "tutorial.md": ["demo", "validate", "validate", "policy", "simulate"],
    "tutorial-gpus.md": ["demo", "validate"],
}
"""The pages with the commands of desched that they have."""

LEFT_OUT = "…"


def files(page: str) -> dict[str, str]:
    """The files that the reader saves, by name."""
    return dict(re.findall(r'^```yaml title="(.+?)"\n(.+?)^```$', page, re.MULTILINE | re.DOTALL))


def commands(page: str) -> Iterator[tuple[str, list[str]]]:
    """Each command with the lines of its output that the page has."""
    for block in re.findall(r"^```console\n(.+?)^```$", page, re.MULTILINE | re.DOTALL):
        for each in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *lines = each.splitlines()
            yield command, lines


def matches(output: str, lines: list[str]) -> bool:
    """Whether the output is these lines; a line that is left out stands for any lines."""
    parts = (".*" if line == LEFT_OUT else re.escape(line) + " *\n" for line in lines)
    return re.fullmatch("".join(parts), output, re.DOTALL) is not None


@pytest.mark.parametrize("name", TUTORIALS)
def test_every_command_says_what_the_tutorial_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    for file, text in files(page).items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    ran = []
    for command, lines in commands(page):
        program, *words = shlex.split(command)
        if program == "desched":
            main(words)
            ran.append(words[0])
        else:
            subprocess.run(["/bin/sh", "-c", command], check=True)  # noqa: S603 (of our own page)
        output = capsys.readouterr().out
        assert matches(output, lines), f"{command}\n{output}"
    assert ran == TUTORIALS[name]


@pytest.mark.parametrize(
    ("lines", "same"),
    [
        (["one", "two"], True),
        (["one", LEFT_OUT], True),
        ([LEFT_OUT, "two"], True),
        (["one"], False),
        (["two", "one"], False),
        ([LEFT_OUT, "tw"], False),
    ],
)
def test_output_that_differs_is_noticed(lines: list[str], *, same: bool) -> None:
    assert matches("one\ntwo  \n", lines) is same
