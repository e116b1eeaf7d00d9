"""`desched pause`: no evictions for a while."""

import sys

from desched.cli.command import Command, Invocation, Usage
from desched.cli.setting_flags import CONNECTION, own_flag


def run(invocation: Invocation) -> None:
    """Pause what the flags name."""
    from desched.bootstrap.commands import run_command

    run_command("pause", invocation.settings(), invocation.flags, sys.stdout, sys.stderr)


COMMAND = Command(
    "pause",
    run,
    Usage(
        details="Without --workload, --namespace or --pool it pauses everything. Evictions in "
        "flight are followed.",
        examples={
            'desched pause --for 2h --because "storage upgrade"': "evict nothing for two hours",
            "desched pause --workload shop/web": "leave one workload alone until you resume it",
        },
        settings=CONNECTION,
        parameters=(
            own_flag("--workload", "NAMESPACE/NAME", "The workload to pause, such as shop/web."),
            own_flag("--namespace", "NAME", "The namespace to pause."),
            own_flag("--pool", "NAME", "The pool of the policy's nodePools to pause."),
            own_flag(
                "--for",
                "DURATION",
                "The length of the pause, such as 2h; by default until you resume.",
            ),
            own_flag("--because", "TEXT", "The reason, for other people."),
        ),
    ),
)
