"""The nodes of a report as rows of a table: a bar for each resource, with its lines."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from desched.model.plan import NodeClass, NodeVerdict, ResourcePressure, UnjudgedLoad
from desched.model.report import CycleReport, RecentLoad
from desched.model.resources import Resource
from desched.policy.durations import duration_text
from desched.views.formatting import percent
from desched.views.node_table import (
    COLUMN_ORDER,
    RESOURCE_NAMES,
    highest_load_first,
    node_detail,
)
from desched.views.reason_texts import describe


class LoadBar(NamedTuple):
    """The load of one resource of one node, in percent of its capacity.

    `kept` is load that stays, `leaving` what the plan takes away, `arriving` what it adds; they lie
    side by side. `levels` has the level of each window as text, `recent` the points of a line. A
    load that is not judged has no lines.
    """

    resource: str
    now: float
    levels: str
    recent: str
    after: float | None = None
    lines: Mapping[str, float] = {}
    overloaded: bool = False

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


Recent = Mapping[tuple[str, Resource], RecentLoad]


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
    recent = {(each.node, each.resource): each for each in report.recent_loads}
    evictions = report.plan.evictions
    involved = {e.node for e in evictions}.union(*(e.likely_nodes for e in evictions))
    ranked = highest_load_first(report.plan.nodes)
    first = sorted(ranked, key=lambda v: v.node not in involved)[:most]
    names = {verdict.node for verdict in first}
    resources = [
        resource
        for resource in COLUMN_ORDER
        if any(load.resource is resource for v in ranked for load in _loads(v))
    ]
    shown = [verdict for verdict in ranked if verdict.node in names]
    return NodeRows(
        [RESOURCE_NAMES[resource] for resource in resources],
        [_row(verdict, resources, recent, report.started_at) for verdict in shown],
        _left([verdict for verdict in ranked if verdict.node not in names]),
    )


def class_name(node_class: NodeClass) -> str:
    """The class as words."""
    return node_class.value.replace("_", " ")


def _row(
    verdict: NodeVerdict, resources: Sequence[Resource], recent: Recent, now: datetime
) -> NodeRow:
    bars = {
        load.resource: _bar(load, recent.get((verdict.node, load.resource)))
        for load in _loads(verdict)
        if load.measured or isinstance(load, ResourcePressure)
    }
    return NodeRow(
        verdict.node,
        class_name(verdict.node_class),
        verdict.pool,
        [bars.get(resource) for resource in resources],
        describe(verdict.reason, node_detail(verdict, now)),
    )


def _loads(verdict: NodeVerdict) -> tuple[ResourcePressure | UnjudgedLoad, ...]:
    """The loads of a node, also of one that is not judged."""
    return (*verdict.pressures, *verdict.unjudged)


def _bar(load: ResourcePressure | UnjudgedLoad, recent: RecentLoad | None) -> LoadBar:
    levels = " · ".join(f"{duration_text(w)} {percent(ratio)} %" for w, ratio in load.measured)
    name, line = RESOURCE_NAMES[load.resource], _line(recent)
    now = max((ratio for _, ratio in load.measured), default=0.0) * 100
    if isinstance(load, UnjudgedLoad):
        return LoadBar(name, now, levels, line)
    return LoadBar(
        name,
        now if load.measured else load.highest_ratio * 100,
        levels,
        line,
        None if load.after_ratio is None else load.after_ratio * 100,
        {
            "ceiling": load.ceiling_ratio * 100,
            "stop": load.stop_ratio * 100,
            "target": load.target_ratio * 100,
        },
        load.overloaded,
    )


def _line(recent: RecentLoad | None) -> str:
    """The points of a polyline in a box of 100 x 100; unknown ones are left out."""
    ratios = recent.ratios if recent else ()
    width = 100 / max(1, len(ratios) - 1)
    points = ((i * width, 100 - 100 * r) for i, r in enumerate(ratios) if r is not None)
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _left(verdicts: Sequence[NodeVerdict]) -> str:
    kinds = Counter(class_name(verdict.node_class) for verdict in verdicts)
    return ", ".join(f"{number} more {kind}" for kind, number in sorted(kinds.items()))
