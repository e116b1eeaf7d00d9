"""`desched version`."""

from __future__ import annotations

import click

from desched import __version__
from desched.cli.command import Command, Invocation
from desched.cli.lazy_loading import loaded_to_run

if loaded_to_run(__name__):
    from desched.plugin_api.installed import installed, package


def run(_: Invocation) -> None:
    """Print the version, and the out-of-tree plugins that are installed."""
    click.echo(f"desched {__version__}")
    for point in installed():
        click.echo(f"plugin {point.name} of {package(point)}")


COMMAND = Command(
    "version",
    examples={
        "desched version": "on this machine",
        "kubectl -n desched-system exec deploy/desched -- desched version": "in the cluster",
    },
)
