"""Drains as people see them: what for, on which nodes, how far they are and how they ended."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime

from desched.model.groups import grouped
from desched.model.report import CycleReport
from desched.model.state import State
from desched.plugins.gpus.drains.drain import (
    Drain,
    DrainPlan,
    Drains,
    Unserved,
    drain_of,
    drains_of,
)
from desched.wording.formatting import clock_time, count, first_names, moment, words
from desched.wording.section import Section

MOST_NAMES = 3


def describe_drain(drain: Drain, now: datetime) -> str:
    """A drain in one line: what for, on which nodes, how far it is and how long, or its end."""
    moves = count(drain.moves, "move")
    if drain.end is None or drain.ended_at is None:
        until = clock_time(drain.until, now)
        return f"{drained_for(drain)}: {moves} made, held until {until} at the latest"
    reason = f": {drain.why}" if drain.why else ""
    ended = f"{words(drain.end)} {moment(drain.ended_at, now)}"
    return f"{drained_for(drain)}: {ended} after {moves}{reason}"


def drained_for(drain: Drain) -> str:
    """What a drain is for, and its nodes."""
    gpus = "" if drain.reserve else f" ({count(drain.gpus, 'GPU')})"
    return f"{drain}{gpus} on {first_names(drain.nodes, MOST_NAMES)}"


def drain_sections(report: CycleReport) -> Iterator[Section]:
    """The drains that would begin, and what waits for GPUs without one."""
    yield Section("Drains that have not begun", list(_planned(report)))
    unserved = list(describe_unserved(DrainPlan.of(report.plan.extras).unserved))
    yield Section("Waiting for GPUs without a drain", unserved)


def _planned(report: CycleReport) -> Iterator[str]:
    """The drains of the plan that did not begin, as in a dry run."""
    begun = {drain.key for drain in Drains.of(report.state.extras).under_way}
    moves = Counter(drain for move in report.plan.evictions if (drain := drain_of(move)))
    for drain, number in moves.items():
        if drain.key not in begun:
            yield f"{drained_for(drain)}: {count(number, 'move')} in this cycle"


def describe_unserved(unserved: Iterable[Unserved]) -> Iterator[str]:
    """What waits without a drain, a line for each reason."""
    for reason, demands in grouped((demand.why, demand.demand) for demand in unserved).items():
        yield f"{first_names(demands, MOST_NAMES)}: {reason}"


def newest_drains(state: State) -> list[Drain]:
    """The drains under way, then those of the last day, newest first."""
    newest = sorted(drains_of(state), key=lambda drain: drain.began_at, reverse=True)
    return sorted(newest, key=lambda drain: not drain.under_way)
