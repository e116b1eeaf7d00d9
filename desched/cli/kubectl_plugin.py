"""The programs `kubectl-desched` and `kubectl_complete-desched`, a plug-in of kubectl."""

import sys
from collections.abc import Sequence

import click
from click.shell_completion import ShellComplete

from desched.cli.program import COMPLETION, Program, main

NAME = "kubectl desched"

_FILES = ":0"
_NO_FILES = ":4"
"""Directives of kubectl's completion: whether the shell adds the names of files."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run `kubectl desched`, which is `desched` whose help has this name."""
    return main(arguments, NAME)


def complete(arguments: Sequence[str] | None = None) -> int:
    """Print what the last argument may become, one a line, and a directive, as kubectl expects."""
    *words, incomplete = (sys.argv[1:] if arguments is None else arguments) or [""]
    completions = ShellComplete(Program(), {}, NAME, COMPLETION).get_completions(words, incomplete)
    values = [item for item in completions if item.type == "plain"]
    for item in values:
        click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(_NO_FILES if len(values) == len(completions) else _FILES)
    return 0
