"""The nodes of a report as rows of a table: a bar for each resource, with its lines."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from desched.model.plan import NodeClass, NodeVerdict, ResourcePressure
from desched.model.report import CycleReport
from desched.model.resources import Resource
from desched.policy.durations import duration_text
from desched.service.reports.formatting import percent
from desched.service.reports.node_table import COLUMN_ORDER, RESOURCE_NAMES
from desched.service.reports.reason_texts import describe


class LoadBar(NamedTuple):
    """The load of one resource of one node, in percent of its capacity.

    `kept` is load that stays, `leaving` what the plan takes away, `arriving` what it adds; they lie
    side by side. `levels` has the level of each window as text.
    """

    resource: str
    now: float
    after: float | None
    target: float
    stop: float
    ceiling: float
    overloaded: bool
    levels: str

    @property
    def kept(self) -> float:
        """The length of the part that neither comes nor goes."""
        return self.now if self.after is None else min(self.now, self.after)

    @property
    def leaving(self) -> float:
        """The length of the part that the plan takes away."""
        return 0.0 if self.after is None else max(0.0, self.now - self.after)

    @property
    def arriving(self) -> float:
        """The length of the part that the plan adds."""
        return 0.0 if self.after is None else max(0.0, self.after - self.now)


class NodeRow(NamedTuple):
    """A node; `bars` has an entry for each resource of the table, None if the load is unknown."""

    name: str
    node_class: str
    pool: str
    bars: Sequence[LoadBar | None]
    why: str


class NodeRows(NamedTuple):
    """The nodes to show, those with the highest load first; `left` describes the others."""

    resources: Sequence[str]
    rows: Sequence[NodeRow]
    left: str

    @property
    def pools(self) -> bool:
        """Whether any of them is in a pool."""
        return any(row.pool for row in self.rows)

    @property
    def reasons(self) -> bool:
        """Whether any of them is left alone for a reason."""
        return any(row.why for row in self.rows)


def node_rows(report: CycleReport, most: int) -> NodeRows:
    """At most this many nodes; sources and destinations of the plan are always among them."""
    evictions = report.plan.evictions
    involved = {e.node for e in evictions} | {e.expected_node for e in evictions}
    ranked = sorted(report.plan.nodes, key=lambda v: (-_excess(v), v.node))
    first = sorted(ranked, key=lambda v: v.node not in involved)[:most]
    names = {verdict.node for verdict in first}
    resources = [
        resource
        for resource in COLUMN_ORDER
        if any(p.resource is resource for verdict in ranked for p in verdict.pressures)
    ]
    shown = [verdict for verdict in ranked if verdict.node in names]
    return NodeRows(
        [RESOURCE_NAMES[resource] for resource in resources],
        [_row(verdict, resources) for verdict in shown],
        _left([verdict for verdict in ranked if verdict.node not in names]),
    )


def class_name(node_class: NodeClass) -> str:
    """The class as words."""
    return node_class.value.replace("_", " ")


def _row(verdict: NodeVerdict, resources: Sequence[Resource]) -> NodeRow:
    bars = {pressure.resource: _bar(pressure) for pressure in verdict.pressures}
    return NodeRow(
        verdict.node,
        class_name(verdict.node_class),
        verdict.pool,
        [bars.get(resource) for resource in resources],
        describe(verdict.reason, verdict.detail),
    )


def _bar(pressure: ResourcePressure) -> LoadBar:
    after = pressure.after_ratio
    return LoadBar(
        RESOURCE_NAMES[pressure.resource],
        max((ratio for _, ratio in pressure.measured), default=pressure.highest_ratio) * 100,
        None if after is None else after * 100,
        pressure.target_ratio * 100,
        pressure.stop_ratio * 100,
        pressure.ceiling_ratio * 100,
        pressure.overloaded,
        " · ".join(f"{duration_text(w)} {percent(ratio)} %" for w, ratio in pressure.measured),
    )


def _excess(verdict: NodeVerdict) -> float:
    """The largest distance of a resource above its target; nodes without numbers come last."""
    return max(
        (pressure.highest_ratio - pressure.target_ratio for pressure in verdict.pressures),
        default=float("-inf"),
    )


def _left(verdicts: Sequence[NodeVerdict]) -> str:
    kinds = Counter(class_name(verdict.node_class) for verdict in verdicts)
    return ", ".join(f"{number} more {kind}" for kind, number in sorted(kinds.items()))
