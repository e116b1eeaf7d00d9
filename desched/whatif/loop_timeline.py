"""The timelines of a simulated cluster: with desched, and without it."""

import math
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from desched.history.timeline import LoadOverTime, Timeline, TimelineEviction
from desched.model.cluster import Node
from desched.whatif.closed_loop import LoopResult
from desched.whatif.cycle_counts import CycleCounts
from desched.whatif.load import MEASURED


def timeline_of(
    name: str,
    result: LoopResult,
    nodes: Sequence[Node],
    counts: CycleCounts,
    started_at: datetime,
) -> Timeline:
    """What happened to the nodes, with the lines of the policy whose cycles were counted."""
    loads = []
    for number, resource in enumerate(MEASURED):
        lines = counts.lines(nodes, resource)
        if any(lines):
            rows = result.load[:, :, number].round(4).tolist()
            known = tuple(tuple(None if math.isnan(x) else x for x in row) for row in rows)
            loads.append(LoadOverTime(resource, lines, known))
    return Timeline(
        name=name,
        started_at=started_at,
        step_seconds=result.step_seconds,
        nodes=tuple(node.name for node in nodes),
        loads=tuple(loads),
        evictions=tuple(timeline_evictions(result, counts, started_at)),
        refusals=counts.refusals,
        idle=counts.idle,
    )


def timeline_evictions(
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
