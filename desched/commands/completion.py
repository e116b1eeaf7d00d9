"""`desched completion`: what a shell needs to complete commands and flags."""

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from desched.cli.command import Command, Invocation
from desched.cli.program import COMPLETION

SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


def run(invocation: Invocation) -> None:
    """Print the script of a shell."""
    shell = SHELLS[invocation.flags["shell"]](click.Command("desched"), {}, "desched", COMPLETION)
    click.echo(ShellComplete.source(shell))  # that of bash itself would start bash


COMMAND = Command(
    "completion",
    parameters=(click.Argument(["shell"], type=click.Choice([*SHELLS]), metavar="|".join(SHELLS)),),
    examples={
        "source <(desched completion bash)": "in ~/.bashrc; likewise zsh in ~/.zshrc",
        "desched completion fish > ~/.config/fish/completions/desched.fish": "for fish",
    },
)
