"""The completion of bash runs in bash; the others are asked as their scripts ask."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from desched.cli import main
from desched.cli.program import COMPLETION
from desched.commands.completion import SHELLS


def completions(monkeypatch, capsys, shell, *words):
    """What the last word is completed to."""
    line = ["desched", *words]
    monkeypatch.setenv("COMP_WORDS", " ".join(line))
    monkeypatch.setenv("COMP_CWORD", words[-1] if shell == "fish" else str(len(words)))
    monkeypatch.setenv(COMPLETION, f"{shell}_complete")
    assert main([]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_asks_the_program(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"{COMPLETION}={shell}_complete" in script
    assert "_desched_completion" in script


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.skipif(os.name != "posix", reason="these are shells of POSIX systems")
def test_the_script_is_understood_by_its_shell(shell, capsys, tmp_path):
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    main(["completion", shell])
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    subprocess.run([program, "-n", script], check=True)  # noqa: S603  (the user's own shell)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["pl"], ["plan"]),
        (["steering", "c"], ["clear"]),
        (["status", "--cont"], ["--context"]),
        (["plan", "-o", "j"], ["json"]),
        (["--context", "prod", "stat"], ["status"]),
        (["help", "set"], ["settings"]),
        (["completion", "zs"], ["zsh"]),
    ],
)
def test_commands_flags_and_values_are_completed(shell, words, expected, monkeypatch, capsys):
    found = completions(monkeypatch, capsys, shell, *words)
    for word in expected:
        assert word in found


@pytest.mark.parametrize("words", [["--"], ["--e"], ["--ev"], ["plan", "--"], ["status", "--e"]])
def test_no_completion_evicts(words, monkeypatch, capsys):
    assert "--evict" not in completions(monkeypatch, capsys, "bash", *words)


def test_the_names_of_files_are_left_to_the_shell(monkeypatch, capsys):
    assert completions(monkeypatch, capsys, "bash", "plan", "--policy", "p") == "file,p\n"


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_a_command(tmp_path: Path) -> None:
    program = tmp_path / "desched"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m desched "$@"\n')
    program.chmod(0o755)
    typed = (
        "set -e\nsource <(desched completion bash)\n"
        "COMP_WORDS=(desched steering '') COMP_CWORD=2\n"
        '_desched_completion desched\necho "${COMPREPLY[*]}"\n'
    )
    done = subprocess.run(  # noqa: S603  (our own program)
        ["bash", "-c", typed],  # noqa: S607  (the user's own shell)
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},  # noqa: TID251  (the shell's)
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout == "clear\n"
