"""`desched history`: each eviction of a service, with what came of it."""

import sys

from desched.cli.command import Command, Invocation, Usage
from desched.cli.setting_flags import CONNECTION, own_flag

DEFAULT_SINCE = "7d"


def run(invocation: Invocation) -> None:
    """Print the evictions."""
    from desched.bootstrap.review import Asked, length_of, read_history, write_history

    flags, settings = invocation.flags, invocation.settings()
    since = length_of(flags.get("since", DEFAULT_SINCE))
    asked = Asked(since, flags.get("node", ""), flags.get("workload", ""))
    write_history(read_history(settings, asked, sys.stderr), settings, sys.stdout)


COMMAND = Command(
    "history",
    run,
    Usage(
        details="It reads the logbook that a service keeps, outside a cluster with --logbook, also "
        "of dry runs. The newest eviction comes last.",
        examples={
            "desched history --since 24h": "of the last day",
            "desched history --workload shop/web -o json": "of one workload, for programs",
        },
        settings=("output", *CONNECTION),
        parameters=(
            own_flag(
                "--since",
                "DURATION",
                f"How far back, counted from the newest cycle. Default: {DEFAULT_SINCE}, the most.",
            ),
            own_flag("--node", "NAME", "Only evictions from this node, or that landed on it."),
            own_flag("--workload", "NAMESPACE/NAME", "Only evictions of this workload."),
        ),
        refused={"--from": "did you mean --since?"},
    ),
)
