"""`desched history`: each eviction of a service, with what came of it."""

from __future__ import annotations

from desched.cli.command import Command, Invocation
from desched.cli.lazy_loading import loaded_to_run
from desched.cli.setting_flags import CONNECTION, own_flag

if loaded_to_run(__name__):
    from desched.bootstrap.logbook import read_logbook
    from desched.views.rendering import write_out
    from desched.views.review import history_blocks

DEFAULT_SINCE = "7d"


def run(invocation: Invocation) -> None:
    """Print the evictions, oldest first."""
    flags, settings = invocation.flags, invocation.settings()
    node, workload = flags.get("node", ""), flags.get("workload", "")
    book, begins = read_logbook(settings, flags.get("since", DEFAULT_SINCE))
    moves = [
        move
        for move in book.moves
        if move.last_at >= begins
        and node in {"", move.node, move.landed_on}
        and workload in {"", move.workload, move.workload.partition(" ")[2]}
    ]
    write_out(settings.output, moves, history_blocks(moves))


COMMAND = Command(
    "history",
    details="It reads the logbook that a service keeps, outside a cluster with --logbook, also "
    "of dry runs. The newest eviction comes last.",
    examples={
        "desched history --since 24h": "of the last day",
        "desched history --workload shop/web -o json": "of one workload, for programs",
    },
    settings=("output", *CONNECTION),
    parameters=(
        own_flag(
            "--since DURATION",
            f"How far back, counted from the newest cycle. Default: {DEFAULT_SINCE}, the most.",
        ),
        own_flag("--node NAME", "Only evictions from this node, or that landed on it."),
        own_flag("--workload NAMESPACE/NAME", "Only evictions of this workload."),
    ),
    refused={"--from": "did you mean --since?"},
)
