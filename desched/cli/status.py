"""`desched status`: the last cycle, pauses and evictions in flight."""

import sys

from desched.cli.command import Command, Invocation, Usage
from desched.cli.setting_flags import CONNECTION


def run(invocation: Invocation) -> None:
    """Print the status."""
    from desched.bootstrap.commands import run_command

    run_command("status", invocation.settings(), invocation.flags, sys.stdout, sys.stderr)


COMMAND = Command(
    "status",
    run,
    Usage(
        examples={
            "desched status --context prod": "of the desched in another context",
            "desched status -o json": "for programs",
        },
        settings=(*CONNECTION, "output"),
    ),
)
