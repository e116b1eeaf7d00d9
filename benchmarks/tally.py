"""Counts of a day's reports: why nodes stayed overloaded, and the results of the moves."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from benchmarks.measures import named_first
from desched.model.cluster import PodRef
from desched.model.landing import LandingChance
from desched.model.plan import NodeClass, NodeVerdict, Plan
from desched.model.report import CycleReport, EvictionVerdict, TaintChange


@dataclass
class Tally:
    """Counts over all cycles of a day.

    `stays` counts, in every cycle, what desched did about each node that it measured above a
    target; `results` counts the results of its evictions. `acting_seconds` is the longest virtual
    time of a cycle, in which only acting takes time. `taints` counts the soft taints;
    `most_tainted` is the maximum number of nodes that had one at the same time. `named` has the
    likeliest node of each replacement, by the evicted pod.
    """

    stays: Counter[str] = field(default_factory=Counter)
    results: Counter[str] = field(default_factory=Counter)
    acting_seconds: float = 0.0
    taints: int = 0
    most_tainted: int = 0
    named: dict[PodRef, LandingChance] = field(default_factory=dict)
    _tainted: set[str] = field(default_factory=set)

    def add(self, report: CycleReport) -> CycleReport:
        """Count one cycle; returns its report."""
        self._count_stays(report)
        self.results.update(r.result for r in report.settled if r.result is not None)
        self.acting_seconds = max(self.acting_seconds, report.duration_seconds)
        self._count_taints(report.taints)
        self.named.update(named_first(report))
        return report

    def _count_taints(self, changes: Iterable[TaintChange]) -> None:
        for change in changes:
            if change.done and change.tainted:
                self.taints += change.node not in self._tainted
                self._tainted.add(change.node)
            elif change.done:
                self._tainted.discard(change.node)
            self.most_tainted = max(self.most_tainted, len(self._tainted))

    def _count_stays(self, report: CycleReport) -> None:
        refused: dict[str, Counter[str]] = {}
        for refusal in report.plan.refusals:
            refused.setdefault(refusal.node, Counter())[refusal.reason] += 1
        for verdict in report.plan.nodes:
            if any(level > p.target_ratio for p in verdict.pressures for _, level in p.measured):
                why = _acted_on(verdict.node, report) or _left(verdict, report.plan)
                self.stays[why or _most_of(refused.get(verdict.node))] += 1


def _acted_on(node: str, report: CycleReport) -> str:
    if any(o.node == node and o.verdict is EvictionVerdict.EVICTED for o in report.outcomes):
        return "evicted from"
    if any(eviction.node == node for eviction in report.plan.evictions):
        return f"planned, but not done ({report.not_acting or 'not confirmed'})"
    return ""


def _left(verdict: NodeVerdict, plan: Plan) -> str:
    if verdict.node_class is not NodeClass.OVERLOADED:
        return f"not classified as overloaded ({verdict.reason or 'corrected'})"
    if plan.hold is not None:
        return f"cycle held: {plan.hold}"
    return f"node: {verdict.reason}" if verdict.reason is not None else ""


def _most_of(reasons: Counter[str] | None) -> str:
    return f"pods: mostly {reasons.most_common(1)[0][0]}" if reasons else "no pods"
