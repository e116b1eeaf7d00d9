"""`desched steering clear`: no node has a soft taint of desched any more."""

import sys

from desched.cli.command import Command, Invocation, Usage
from desched.cli.setting_flags import CONNECTION


def run(invocation: Invocation) -> None:
    """Remove the soft taints."""
    from desched.bootstrap.commands import run_command

    run_command("steering", invocation.settings(), invocation.flags, sys.stdout, sys.stderr)


COMMAND = Command(
    "steering clear",
    run,
    Usage(
        details="Run it before you uninstall desched or revoke its right to patch nodes.",
        examples={
            "desched steering clear": "in the current context",
            "desched steering clear --context prod": "in another context",
        },
        settings=CONNECTION,
    ),
)
