"""Replays the past with policies, and compares each with what really happened."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from desched.model.backtest import (
    Backtest,
    Hours,
    IdleHours,
    NodeFigures,
    Overload,
    PolicyFigures,
    WorkloadFigures,
)
from desched.model.past import Caveat, Doubt, Past
from desched.model.timeline import Lines, LoadOverTime, Timeline, TimelineEviction
from desched.policy.policy import Policy
from desched.ports import World
from desched.simulation.closed_loop import (
    Descheduler,
    LoopResult,
    Pace,
    RecordingEvictor,
    load_by_step,
    run_cycles,
)
from desched.simulation.cycle_counts import CycleCounts
from desched.simulation.history import Floats, Mask
from desched.simulation.load import MEASURED
from desched.simulation.past.replay import Replay

MOST_POINTS = 500_000
"""The maximum number of points of a timeline; larger ones have longer steps."""

TIMELINE_STEP_SECONDS = 300.0
"""The least length of a timeline's steps."""

TARGET = "the past"
HAPPENED = "what happened"

Progress = Callable[[float], None]
"""Called with the share that is done."""


class Span(NamedTuple):
    """The time to judge: cycles begin at `started_at` and follow each other by the interval."""

    started_at: datetime
    ended_at: datetime
    interval_seconds: float = 300.0


def lead_seconds(policies: Sequence[Policy]) -> int:
    """How much earlier than the span the past must begin, so that all windows are covered."""
    further = (
        window.window_seconds
        for policy in policies
        for rule in policy.rules
        for window in rule.destination_windows
    )
    sources = (policy.sustained_seconds + policy.longest_window_seconds for policy in policies)
    return max([*sources, *further], default=0)


def backtest(
    past: Past, policies: Sequence[Policy], span: Span, progress: Progress = lambda _: None
) -> Backtest:
    """The figures of each policy over the span."""
    replay = Replay(past)
    figures = []
    for number, policy in enumerate(policies):
        run = _Run(past, replay, policy, span)

        def share(done: float, number: int = number) -> None:
            progress((number + done) / len(policies))

        figures.append(run.figures(share))
    assumed, unknown = _doubts(past, policies)
    return Backtest(
        started_at=span.started_at,
        ended_at=span.ended_at,
        interval_seconds=span.interval_seconds,
        step_seconds=float(past.step_seconds),
        nodes=len(past.nodes),
        pods=len(past.pods),
        workloads=len({str(each.workload) for each in past.pods if each.workload}),
        covered_share=covered_share(past, span),
        policies=tuple(figures),
        assumed=assumed,
        unknown=unknown,
    )


def covered_share(past: Past, span: Span) -> float:
    """The share of the nodes' time within the span for which all of their load is known."""
    known = np.ones((len(past.nodes), past.steps), dtype=bool)
    for ratios in past.node_ratios.values():
        known &= ~np.isnan(ratios)
    present = np.zeros_like(known)
    for number, each in enumerate(past.nodes):
        begin = max(each.began, span.started_at)
        end = min(each.ended or span.ended_at, span.ended_at)
        first, last = (
            (at - past.started_at).total_seconds() / past.step_seconds for at in (begin, end)
        )
        present[number, max(0, math.ceil(first)) : max(0, math.floor(last))] = True
    there = int(present.sum())
    return float((known & present).sum() / there) if there else 0.0


class _Run:
    """One policy over the past."""

    def __init__(self, past: Past, replay: Replay, policy: Policy, span: Span) -> None:
        self._past, self._replay, self._policy, self._span = past, replay, policy, span
        begins_at = (span.started_at - past.started_at).total_seconds()
        self._pace = Pace(span.interval_seconds, begins_at, float(past.step_seconds))
        seconds = (span.ended_at - span.started_at).total_seconds()
        self._cycles = max(0, int(seconds // span.interval_seconds) - 1)
        self._nodes = replay.nodes
        self._counts = CycleCounts(policy)

    def figures(self, progress: Progress) -> PolicyFigures:
        simulation = self._replay.begin()
        evictor, desched = RecordingEvictor(simulation), Descheduler(self._policy, TARGET)
        done = 0

        def act(world: World) -> None:
            nonlocal done
            self._counts.add(desched.cycle(world))
            done += 1
            progress(done / self._cycles)

        run_cycles(simulation, act, self._cycles, self._pace, evictor)
        lines = {each: self._counts.lines(self._nodes, each) for each in MEASURED}
        targets = np.array(
            [[e.target_ratio if e else np.inf for e in lines[each]] for each in MEASURED]
        ).T[:, None, :]
        after = evictor.result(
            self._nodes, load_by_step(simulation, self._nodes, self._pace), targets, self._pace
        )
        before = self._happened(after)
        return self._compared(before, after, list(lines.values()))

    def _happened(self, like: LoopResult) -> LoopResult:
        """What really happened, in the same steps and with the same targets."""
        load: Floats = np.zeros(like.load.shape)
        first = int(self._pace.begins_at // self._past.step_seconds)
        steps = slice(first, first + load.shape[1])
        for i, resource in enumerate(MEASURED):
            if (ratios := self._past.node_ratios.get(resource)) is not None:
                load[:, :, i] = ratios[:, steps]
        return LoopResult(load, like.targets, (), like.seconds, {}, like.step_seconds)

    def _compared(
        self, before: LoopResult, after: LoopResult, lines: Sequence[Sequence[Lines | None]]
    ) -> PolicyFigures:
        without, left = _overload(before), _overload(after)
        days = after.seconds / 86_400
        name = self._policy.source
        return PolicyFigures(
            policy=name,
            evictions=len(after.moves),
            evictions_per_day=len(after.moves) / days if days else 0.0,
            without=without,
            with_policy=left,
            avoided_share=1 - left.node_minutes / without.node_minutes
            if without.node_minutes
            else None,
            replicas_moved_again=after.replica_repeats,
            came_back=after.came_back,
            landed_overloaded=after.landed_overloaded,
            pending_minutes=after.pending_minutes,
            most_of_a_workload_within_an_hour=after.share_within_hour,
            hours=self._hours(),
            workloads=tuple(self._workloads(after)),
            nodes=tuple(self._node_figures(before, after)),
            before=self._timeline(HAPPENED, before, lines),
            after=self._timeline(name, after, lines),
        )

    def _hours(self) -> Hours:
        counts = self._counts
        idle = tuple(IdleHours(*each) for each in counts.idle_hours)
        return Hours(counts.evicting_hours, counts.quiet_hours, idle)

    def _workloads(self, after: LoopResult) -> Iterator[WorkloadFigures]:
        names = self._counts.workloads
        moved = Counter(names.get(move.pod, "") for move in after.moves)
        replicas: Counter[str] = Counter()
        for move in after.moves:
            name = names.get(move.pod, "")
            replicas[name] = max(replicas[name], after.replicas[move.workload])
        for name, evictions in sorted(moved.items(), key=lambda each: (-each[1], each[0])):
            yield WorkloadFigures(name, evictions, replicas[name])

    def _node_figures(self, before: LoopResult, after: LoopResult) -> Iterator[NodeFigures]:
        minutes = before.step_seconds / 60
        left = Counter(move.node for move in after.moves)
        landed = Counter(move.landed_on for move in after.moves)
        sums = [result.overloaded.sum(axis=1) * minutes for result in (before, after)]
        peaks = [_peaks(result) for result in (before, after)]
        columns = np.stack([*sums, *peaks], axis=1).tolist()
        for node, (was, now, peak_was, peak_now) in zip(self._nodes, columns, strict=True):
            moves = left[node.name], landed[node.name]
            yield NodeFigures(node.name, was, now, peak_was, peak_now, *moves)

    def _timeline(
        self, name: str, result: LoopResult, lines: Sequence[Sequence[Lines | None]]
    ) -> Timeline:
        happened = name == HAPPENED
        load, step_seconds = _in_fewer_steps(result)
        watched = [i for i, each in enumerate(MEASURED) if each in self._past.node_ratios]
        loads = [LoadOverTime(MEASURED[i], tuple(lines[i]), _rows(load[:, :, i])) for i in watched]
        counts = self._counts
        return Timeline(
            name=name,
            started_at=self._span.started_at,
            step_seconds=step_seconds,
            nodes=tuple(node.name for node in self._nodes),
            loads=tuple(loads),
            evictions=tuple(self._evictions(result)),
            refusals=() if happened else counts.refusals,
            idle=() if happened else counts.idle,
        )

    def _evictions(self, result: LoopResult) -> Iterator[TimelineEviction]:
        counts, start = self._counts, self._span.started_at
        for move in result.moves:
            landed_at = move.landed_at
            yield TimelineEviction(
                at=start + timedelta(seconds=move.at),
                pod=move.ref,
                node=move.node,
                workload=counts.workloads.get(move.pod, ""),
                landed_at=None if landed_at is None else start + timedelta(seconds=landed_at),
                landed_on=move.landed_on,
                result=counts.results.get(move.pod),
                reason=counts.reasons.get(move.pod, ""),
            )


def _overload(result: LoopResult) -> Overload:
    overloaded = result.overloaded
    minutes = result.step_seconds / 60
    longest = max((_longest(row) for row in overloaded), default=0)
    nodes = int(overloaded.any(axis=1).sum())
    return Overload(float(overloaded.sum() * minutes), longest * minutes, nodes)


def _longest(row: Mask) -> int:
    (calm,) = np.nonzero(~np.concatenate(([False], row, [False])))
    return int(np.diff(calm).max()) - 1


def _peaks(result: LoopResult) -> Floats:
    """The highest load of each node as a share of its targets; 0 where none is known."""
    shares = np.nan_to_num(result.load / result.targets, nan=0.0)
    peaks: Floats = shares.reshape(len(shares), -1).max(axis=1, initial=0.0)
    return peaks


def _in_fewer_steps(result: LoopResult) -> tuple[Floats, float]:
    """The load in steps of at least TIMELINE_STEP_SECONDS and few enough points."""
    load = result.load
    enough = math.ceil(load.size / MOST_POINTS)
    together = max(1, enough, math.ceil(TIMELINE_STEP_SECONDS / result.step_seconds))
    steps = load.shape[1] // together
    if together == 1 or steps == 0:
        return load, result.step_seconds
    parts = load[:, : steps * together].reshape(len(load), steps, together, -1)
    known = (~np.isnan(parts)).sum(axis=2)
    means = np.nansum(parts, axis=2) / np.maximum(known, 1)
    return np.where(known > 0, means, np.nan), result.step_seconds * together


def _rows(load: Floats) -> tuple[tuple[float | None, ...], ...]:
    rounded = np.round(load, 4).tolist()
    return tuple(tuple(None if math.isnan(x) else x for x in row) for row in rounded)


def _doubts(past: Past, policies: Sequence[Policy]) -> tuple[tuple[Doubt, ...], tuple[Doubt, ...]]:
    """What the replay assumes, and what it could not know."""
    assumed = [
        Doubt(Caveat.LOAD_FOLLOWS_PODS),
        Doubt(Caveat.SCHEDULER_SIMULATED),
        Doubt(Caveat.READY_AT_ONCE),
        Doubt(Caveat.LOAD_IN_STEPS, f"{past.step_seconds} s"),
        Doubt(Caveat.SOMEBODY_ELSE_MOVED),
    ]
    if any(policy.deviation for policy in policies):
        assumed.append(Doubt(Caveat.LINES_AVERAGED))
    assumed += (each for each in past.doubts if each.caveat in _ASSUMED)
    unknown = [each for each in past.doubts if each.caveat not in _ASSUMED]
    return tuple(assumed), (*unknown, Doubt(Caveat.THROTTLING_UNKNOWN))


_ASSUMED = frozenset({Caveat.CONSTRAINTS_OF_TODAY, Caveat.TOLERATIONS_GUESSED})
