"""Drains as people see them: what for, on which nodes, how far they are and how they ended."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from desched.model.drains import Drain, Purpose
from desched.model.groups import grouped
from desched.model.plan import Unserved
from desched.model.report import CycleReport
from desched.views.explained.values import PodExplanation
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


class DrainsView:
    """The drains of a report, as they are shown."""

    def __init__(self, report: CycleReport) -> None:
        self._report = report

    @property
    def sections(self) -> Sequence[Section]:
        """The drains that would begin, and what waits for GPUs without one."""
        return (
            Section("Drains that have not begun", list(self._planned)),
            Section(
                "Waiting for GPUs without a drain",
                list(describe_unserved(self._report.plan.unserved)),
            ),
        )

    @property
    def begun(self) -> Sequence[Drain]:
        """The drains that began in this cycle."""
        began = self._report.started_at
        return [drain for drain in self._report.state.drains if drain.began_at >= began]

    @property
    def ended(self) -> Sequence[Drain]:
        """The drains that ended in this cycle."""
        began, drains = self._report.started_at, self._report.plan.drains
        return [drain for drain in drains if drain.ended_at and drain.ended_at >= began]

    @property
    def _planned(self) -> Iterator[str]:
        """The drains of the plan that did not begin, as in a dry run."""
        begun = {drain.key for drain in self._report.state.drains if drain.under_way}
        moves = Counter(move.drain for move in self._report.plan.evictions if move.drain)
        for drain, number in moves.items():
            if drain.key not in begun:
                yield f"{drained_for(drain)}: {count(number, 'move')} in this cycle"


def describe_hold(drain: Drain, now: datetime) -> str:
    """For what a node is held, if the drain has begun."""
    if drain.moves:
        return f"New pods are kept off it: {describe_drain(drain, now)}."
    return f"The plan drains it: {drained_for(drain)}."


def describe_drains_of(pod: PodExplanation, now: datetime) -> Iterator[str]:
    """What moves for the pod, and for what it moves or has moved."""
    moved = pod.moved
    if pod.eviction is not None and pod.eviction.drain is not None:
        yield f"It leaves because {pod.eviction.reason}."
    elif moved is not None and moved.purpose is Purpose.GPU_DEMAND:
        at, is_it = moment(moved.evicted_at, now), moved.pod == pod.summary.pod
        what = "Its eviction" if is_it else f"It replaces {moved.pod}, whose eviction"
        yield f"{what} from {moved.node} was requested {at} for a drain (gpu_demand)."
    for drain in pod.drains:
        if drain.moves:
            yield f"A drain for it is under way: {describe_drain(drain, now)}."
        else:
            yield f"The plan begins a drain for it: {drained_for(drain)}."
    if pod.unserved is not None:
        yield f"No drain is under way for it: {pod.unserved.why}."


def describe_unserved(unserved: Iterable[Unserved]) -> Iterator[str]:
    """What waits without a drain, a line for each reason."""
    for reason, demands in grouped((demand.why, demand.demand) for demand in unserved).items():
        yield f"{first_names(demands, MOST_NAMES)}: {reason}"
