"""The timelines of a simulated cluster: with desched, and without it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from desched.history.timeline import Lines, LoadOverTime, Timeline, TimelineEviction
from desched.lab.closed_loop import LoopResult
from desched.lab.cycle_counts import CycleCounts
from desched.lab.load import MEASURED
from desched.model.cluster import Node
from desched.model.resources import Resource

LinesByResource = Mapping[Resource, Sequence[Lines | None]]
"""The lines of each node, in the order of the nodes."""


def timeline_of(
    name: str,
    result: LoopResult,
    nodes: Sequence[Node],
    counts: CycleCounts,
    started_at: datetime,
    lines: LinesByResource,
) -> Timeline:
    """What happened to the nodes, and the load of the resources that have lines."""
    loads = []
    for number, resource in enumerate(MEASURED):
        if resource in lines:
            rows = result.load[:, :, number].round(4).tolist()
            measured = tuple(tuple(None if math.isnan(x) else x for x in row) for row in rows)
            loads.append(LoadOverTime(resource, tuple(lines[resource]), measured))
    return Timeline(
        name=name,
        started_at=started_at,
        step_seconds=result.step_seconds,
        nodes=tuple(node.name for node in nodes),
        loads=tuple(loads),
        evictions=tuple(_evictions(result, counts, started_at)),
        refusals=counts.refusals,
        idle=counts.idle,
    )


def lines_by(counts: CycleCounts, nodes: Sequence[Node]) -> LinesByResource:
    """The lines of the policy whose cycles were counted, for resources with any."""
    lines_of = {resource: counts.lines(nodes, resource) for resource in MEASURED}
    return {resource: lines for resource, lines in lines_of.items() if any(lines)}


def _evictions(
    result: LoopResult, counts: CycleCounts, started_at: datetime
) -> Iterator[TimelineEviction]:
    """The moves of a run, each with its result and reason as far as cycles counted it."""
    for move in result.moves:
        landed_at = move.landed_at
        yield TimelineEviction(
            at=started_at + timedelta(seconds=move.at),
            pod=move.ref,
            node=move.node,
            workload=counts.workloads.get(move.pod, ""),
            landed_at=None if landed_at is None else started_at + timedelta(seconds=landed_at),
            landed_on=move.landed_on,
            result=counts.results.get(move.pod),
            reason=counts.reasons.get(move.pod, ""),
        )
