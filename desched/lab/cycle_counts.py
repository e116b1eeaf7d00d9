"""What the cycles of a run decided, counted: lines, refusals, and why nothing was evicted."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import numpy as np

from desched.history.timeline import IdleReason, IdleTotal, Lines, RefusalTotal, why_idle
from desched.model.cluster import Node, PodRef
from desched.model.plan import NodeVerdict, RefusalReason
from desched.model.report import CycleReport, CycleResult, EvictionVerdict
from desched.model.resources import Resource
from desched.model.state import MoveResult
from desched.planning.overload.node_load import pool_thresholds
from desched.policy.policy import Policy

_SECONDS_PER_HOUR = 3600


class CycleCounts:
    """Counts over all cycles of a run with one policy.

    `results` are the results of moves by the uid of the evicted pod, `reasons` why they were
    planned, `workloads` whose pods they were. `first` and `last` are what plugins count in the
    first and the last cycle.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._hours: dict[int, Counter[IdleReason | CycleResult]] = {}
        self._idle: Counter[IdleReason] = Counter()
        self._refused: dict[RefusalReason, set[PodRef]] = {}
        self._decisions: Counter[RefusalReason] = Counter()
        self._lines: dict[tuple[str, Resource], list[Lines]] = {}
        self.results: dict[str, MoveResult] = {}
        self.reasons: dict[str, str] = {}
        self.workloads: dict[str, str] = {}
        self.first: Mapping[str, float] = {}
        self.last: Mapping[str, float] = {}

    def add(self, report: CycleReport) -> CycleReport:
        """Count one cycle; returns its report."""
        hour = self._hour(report.started_at)
        if any(outcome.verdict is EvictionVerdict.EVICTED for outcome in report.outcomes):
            hour[CycleResult.EVICTED] += 1
        elif (idle := why_idle(report)) is not None:
            hour[idle] += 1
            self._idle[idle] += 1
        for refusal in report.plan.refusals:
            self._refused.setdefault(refusal.reason, set()).add(refusal.pod)
            self._decisions[refusal.reason] += 1
        for eviction in report.plan.evictions:
            self.reasons[eviction.pod.uid] = eviction.grounds
            self.workloads[eviction.pod.uid] = eviction.workload
        self.results |= {r.pod.uid: r.result for r in report.settled if r.result is not None}
        if self._policy.deviation:
            self._add_lines(report.plan.nodes)
        of_plugins = (plugin.views.figures(report) for plugin in self._policy.plugins)
        self.last = {name: value for figures in of_plugins for name, value in figures.items()}
        self.first = self.first or self.last
        return report

    def add_calm(self, at: datetime) -> None:
        """Count a cycle that found no overloaded node and had nothing else to do."""
        self._hour(at)

    def _hour(self, at: datetime) -> Counter[IdleReason | CycleResult]:
        """The counts of the hour that this time is in."""
        return self._hours.setdefault(int(at.timestamp() // _SECONDS_PER_HOUR), Counter())

    @property
    def refusals(self) -> tuple[RefusalTotal, ...]:
        """The refusals of all cycles, with most pods first."""
        totals = [
            RefusalTotal(reason, len(pods), self._decisions[reason])
            for reason, pods in self._refused.items()
        ]
        return tuple(sorted(totals, key=lambda total: (-total.pods, total.reason)))

    @property
    def idle(self) -> tuple[IdleTotal, ...]:
        """The cycles that evicted nothing although nodes were overloaded, by reason."""
        return tuple(IdleTotal(*total) for total in _ranked(self._idle))

    @property
    def idle_hours(self) -> tuple[tuple[IdleReason, int], ...]:
        """The same for hours without any eviction; the most frequent reason of an hour counts."""
        reasons: Counter[IdleReason] = Counter()
        for hour in self._hours.values():
            if hour and not hour[CycleResult.EVICTED]:
                (idle, _), *_ = hour.most_common(1)
                if not isinstance(idle, CycleResult):
                    reasons[idle] += 1
        return _ranked(reasons)

    @property
    def evicting_hours(self) -> int:
        """The hours with evictions."""
        return sum(bool(hour[CycleResult.EVICTED]) for hour in self._hours.values())

    @property
    def quiet_hours(self) -> int:
        """The hours in which no node was overloaded when a cycle looked."""
        return sum(not hour for hour in self._hours.values())

    def lines(self, nodes: Sequence[Node], resource: Resource) -> tuple[Lines | None, ...]:
        """The lines of each node, None without any; those around a mean are averaged over time."""
        return tuple(self._lines_of(node, resource) for node in nodes)

    def _lines_of(self, node: Node, resource: Resource) -> Lines | None:
        if not self._policy.looks_at(node.labels):
            return None
        if self._policy.deviation:
            lines = self._lines.get((node.name, resource))
            return _mean(lines) if lines else None
        thresholds = pool_thresholds(self._policy.pool_of(node.labels), self._policy, ())
        line = thresholds.get(resource)
        return Lines(line.target_ratio, line.stop_ratio, line.ceiling_ratio) if line else None

    def _add_lines(self, verdicts: Iterable[NodeVerdict]) -> None:
        for verdict in verdicts:
            for p in verdict.pressures:
                lines = Lines(p.target_ratio, p.stop_ratio, p.ceiling_ratio)
                self._lines.setdefault((verdict.node, p.resource), []).append(lines)


def _ranked(counts: Counter[IdleReason]) -> tuple[tuple[IdleReason, int], ...]:
    return tuple(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def _mean(lines: Sequence[Lines]) -> Lines:
    rows = np.array([(e.target_ratio, e.stop_ratio, e.ceiling_ratio) for e in lines])
    return Lines(*rows.mean(axis=0).tolist())
