"""A cycle as a page: what it saw, what moves, what stays and why."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from desched.model.plan import NodeClass
from desched.model.resources import Resource
from desched.plugins import HOUSE
from desched.policy.durations import duration_text
from desched.views.cycle import CycleView, LoadView, by_name
from desched.views.pages.document import document
from desched.wording.formatting import percent, resource_title

MOST_NODES = 1_000
MOST_REFUSALS = 2_000
"""Rows of a table, so that a page of a large cluster stays small; the JSON has them all."""


class LoadBar(NamedTuple):
    """The load of a resource of a node as a bar; lengths are in percent of its capacity.

    `now` is the level in the highest window, `after` the one after the plan, None if it does not
    change. What stays, what the plan takes away and what it adds lie side by side. `levels` are
    those of each window. `lines` judge it; none if it decides nothing. `recent` is the last hour as
    points of a polyline in a box of 100 x 100, without unknown ones.
    """

    resource: str
    now: float
    after: float | None
    kept: float
    leaving: float
    arriving: float
    overloaded: bool
    levels: str
    lines: Mapping[str, float]
    recent: str


def _bar(resource: Resource, load: LoadView) -> LoadBar:
    pressure, now = load.pressure, load.highest_ratio * 100
    planned = pressure.after_ratio if pressure else None
    after = now if planned is None else planned * 100
    ratios = load.recent.ratios if load.recent else ()
    width = 100 / max(1, len(ratios) - 1)
    points = ((i * width, 100 - 100 * r) for i, r in enumerate(ratios) if r is not None)
    lines = ("ceiling", "stop", "target") if pressure else ()
    return LoadBar(
        resource_title(resource),
        now,
        None if planned is None else after,
        min(now, after),
        max(0.0, now - after),
        max(0.0, after - now),
        pressure is not None and pressure.overloaded,
        " · ".join(f"{duration_text(w)} {percent(ratio)} %" for w, ratio in load.measured),
        {name: getattr(pressure, f"{name}_ratio") * 100 for name in lines},
        " ".join(f"{x:.1f},{y:.1f}" for x, y in points),
    )


def cycle_page(cycle: CycleView) -> str:
    """The page of a cycle."""
    values = {
        "title": f"{'Plan' if cycle.dry_run else 'Cycle'} for {cycle.report.target}",
        "refusals": sorted(cycle.refusals, key=by_name)[:MOST_REFUSALS],
        "refusals_left": max(0, len(cycle.refusals) - MOST_REFUSALS),
        **cycle_values(cycle, MOST_NODES),
    }
    return document("cycle.html", values).text


def cycle_values(cycle: CycleView, most_nodes: int) -> Mapping[str, object]:
    """What the templates show of a cycle."""
    nodes, left = cycle.most_important(most_nodes)
    bars = {
        node.name: [_bar(r, node.loads[r]) if r in node.loads else None for r in cycle.resources]
        for node in nodes
    }
    return {
        "cycle": cycle,
        "most_nodes": most_nodes,
        "tiles": list(_tiles(cycle)),
        "nodes": nodes,
        "nodes_left": left,
        "columns": cycle.columns(wide=True),
        "resources": [resource_title(resource) for resource in cycle.resources],
        "bars": bars,
    }


def _tiles(cycle: CycleView) -> Iterator[Sequence[str]]:
    """Numbers with their labels, and a tone for those that need attention."""
    overloaded = len(cycle.names_by_class[NodeClass.OVERLOADED])
    yield str(cycle.report.observed.nodes), "nodes", ""
    yield str(overloaded), "overloaded", "bad" if overloaded else "good"
    if unknown := len(cycle.names_by_class[NodeClass.UNKNOWN]):
        yield str(unknown), "with unknown load", "warn"
    yield str(len(cycle.evictions)), "evictions planned", ""
    yield str(len(cycle.refusals)), "pods on overloaded nodes stay", ""
    for plugin in HOUSE:
        yield from plugin.views.tiles(cycle.report)
    if in_flight := len(cycle.report.state.in_flight):
        yield str(in_flight), "evictions in flight", ""
