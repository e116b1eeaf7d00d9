"""The figures of a policy over a time, beside the same time without it."""

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from desched.history.timeline import Timeline
from desched.lab.closed_loop import LoopResult
from desched.lab.cycle_counts import CycleCounts
from desched.lab.figures import Hours, IdleHours, NodeFigures, PolicyFigures, WorkloadFigures
from desched.lab.history import Floats
from desched.lab.load import MEASURED
from desched.lab.loop_timeline import LinesByResource, timeline_of
from desched.model.cluster import Node
from desched.model.resources import Resource

MOST_POINTS = 500_000
"""The maximum number of points of a timeline; larger ones have longer steps."""

TIMELINE_STEP_SECONDS = 300.0
"""The least length of a timeline's steps."""


class PolicyRun(NamedTuple):
    """A run with a policy, as far as its figures need it.

    `policy` is the name of the policy, `without` that of the time without it. `resources` are those
    whose load is known. `counts` are those of the run's cycles.
    """

    policy: str
    without: str
    started_at: datetime
    nodes: Sequence[Node]
    resources: frozenset[Resource]
    counts: CycleCounts

    @property
    def targets(self) -> Floats:
        """The targets, node x 1 x (CPU, memory); infinite where there are none."""
        by_resource = self._lines().values()
        rows = [[e.target_ratio if e else np.inf for e in lines] for lines in by_resource]
        targets: Floats = np.array(rows, dtype=float).T[:, None, :]
        return targets

    def _lines(self) -> LinesByResource:
        return {resource: self.counts.lines(self.nodes, resource) for resource in MEASURED}

    def figures(self, before: LoopResult, after: LoopResult) -> PolicyFigures:
        """The figures of both times, which have the same steps and targets."""
        lines = {r: lines_of for r, lines_of in self._lines().items() if r in self.resources}
        without, left = before.overload, after.overload
        days = after.seconds / 86_400
        return PolicyFigures(
            policy=self.policy,
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
            before=self._timeline(self.without, before, lines),
            after=self._timeline(self.policy, after, lines),
        )

    def _hours(self) -> Hours:
        counts = self.counts
        idle = tuple(IdleHours(*idle_hour) for idle_hour in counts.idle_hours)
        return Hours(counts.evicting_hours, counts.quiet_hours, idle)

    def _workloads(self, after: LoopResult) -> Iterator[WorkloadFigures]:
        names = self.counts.workloads
        moved = Counter(names.get(move.pod, "") for move in after.moves)
        replicas: Counter[str] = Counter()
        for move in after.moves:
            name = names.get(move.pod, "")
            replicas[name] = max(replicas[name], after.replicas[move.workload])
        for name, evictions in sorted(moved.items(), key=lambda pair: (-pair[1], pair[0])):
            yield WorkloadFigures(name, evictions, replicas[name])

    def _node_figures(self, before: LoopResult, after: LoopResult) -> Iterator[NodeFigures]:
        minutes = before.step_seconds / 60
        left = Counter(move.node for move in after.moves)
        landed = Counter(move.landed_on for move in after.moves)
        sums = [result.overloaded.sum(axis=1) * minutes for result in (before, after)]
        peaks = [_peaks(result) for result in (before, after)]
        columns = np.stack([*sums, *peaks], axis=1).tolist()
        for node, (was, now, peak_was, peak_now) in zip(self.nodes, columns, strict=True):
            moves = left[node.name], landed[node.name]
            yield NodeFigures(node.name, was, now, peak_was, peak_now, *moves)

    def _timeline(self, name: str, result: LoopResult, lines: LinesByResource) -> Timeline:
        timeline = timeline_of(
            name, _in_fewer_steps(result), self.nodes, self.counts, self.started_at, lines
        )
        return replace(timeline, refusals=(), idle=()) if name == self.without else timeline


def _peaks(result: LoopResult) -> Floats:
    """The highest load of each node as a share of its targets; 0 where none is known."""
    shares = np.nan_to_num(result.load / result.targets, nan=0.0)
    peaks: Floats = shares.reshape(len(shares), -1).max(axis=1, initial=0.0)
    return peaks


def _in_fewer_steps(result: LoopResult) -> LoopResult:
    """The result in steps of at least TIMELINE_STEP_SECONDS and few enough points."""
    load = result.load
    enough = math.ceil(load.size / MOST_POINTS)
    together = max(1, enough, math.ceil(TIMELINE_STEP_SECONDS / result.step_seconds))
    steps = load.shape[1] // together
    if together == 1 or steps == 0:
        return result
    parts = load[:, : steps * together].reshape(len(load), steps, together, -1)
    measured = (~np.isnan(parts)).sum(axis=2)
    means = np.where(measured > 0, np.nansum(parts, axis=2) / np.maximum(measured, 1), np.nan)
    return dataclasses.replace(result, load=means, step_seconds=result.step_seconds * together)
