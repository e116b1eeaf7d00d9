"""`desched resume`: the end of pauses."""

import sys

from desched.cli.command import Command, Invocation, Usage
from desched.cli.setting_flags import CONNECTION, own_flag


def run(invocation: Invocation) -> None:
    """Resume what the flags name."""
    from desched.bootstrap.commands import run_command

    run_command("resume", invocation.settings(), invocation.flags, sys.stdout, sys.stderr)


COMMAND = Command(
    "resume",
    run,
    Usage(
        details="Without a flag it ends the pause of everything.",
        examples={
            "desched resume": "end the pause of everything",
            "desched resume --workload shop/web": "end its pause and its cool-down",
        },
        settings=CONNECTION,
        parameters=(
            own_flag("--workload", "NAMESPACE/NAME", "The workload to resume, such as shop/web."),
            own_flag("--namespace", "NAME", "The namespace to resume."),
            own_flag("--pool", "NAME", "The pool of the policy's nodePools to resume."),
            own_flag("--all", "", "End every pause and every cool-down."),
        ),
    ),
)
