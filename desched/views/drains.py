"""Drains as people see them: what for, on which nodes, how far they are and how they ended."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from desched.model.drains import Drain
from desched.model.groups import grouped
from desched.model.plan import Unserved
from desched.views.formatting import clock_time, count, first_names, moment, words

MOST_NAMES = 3


def describe_drain(drain: Drain, now: datetime) -> str:
    """A drain in one line: what for, on which nodes, how far it is and how long, or its end."""
    moves = count(drain.moves, "move")
    if drain.end is None or drain.ended_at is None:
        until = clock_time(drain.until, now)
        return f"{drained_for(drain)}: {moves} made, held until {until} at the latest"
    why = f": {drain.why}" if drain.why else ""
    ended = f"{words(drain.end)} {moment(drain.ended_at, now)}"
    return f"{drained_for(drain)}: {ended} after {moves}{why}"


def drained_for(drain: Drain) -> str:
    """What a drain is for, and its nodes."""
    gpus = "" if drain.reserve else f" ({count(drain.gpus, 'GPU')})"
    return f"{drain}{gpus} on {first_names(drain.nodes, MOST_NAMES)}"


def describe_unserved(unserved: Iterable[Unserved]) -> Iterator[str]:
    """What waits without a drain, a line for each reason."""
    for why, demands in grouped((each.why, each.demand) for each in unserved).items():
        yield f"{first_names(demands, MOST_NAMES)}: {why}"
