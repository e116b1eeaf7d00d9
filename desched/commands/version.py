"""`desched version`."""

import click

from desched import __version__
from desched.cli.command import Command, Invocation


def run(_: Invocation) -> None:
    """Print the version."""
    click.echo(f"desched {__version__}")


COMMAND = Command(
    "version",
    examples={
        "desched version": "on this machine",
        "kubectl -n desched-system exec deploy/desched -- desched version": "in the cluster",
    },
)
