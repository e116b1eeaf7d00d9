"""How the plan's moves look from outside: projected load of nodes, and evictions with reasons."""

from collections.abc import Iterable, Mapping

import msgspec

from desched.model.plan import NodeReason, NodeVerdict, PlannedEviction
from desched.model.resources import Resource
from desched.planning.eligibility.context import Surroundings
from desched.planning.overload.node_load import NodeLoadState
from desched.planning.placement.room import Room
from desched.planning.selection.excess import Candidate, Excess
from desched.planning.selection.one_node import Move


def with_outlook(
    verdicts: Iterable[NodeVerdict],
    moves: list[tuple[NodeLoadState, Move]],
    stuck: Mapping[str, str],
    room: Room,
) -> tuple[NodeVerdict, ...]:
    """The verdicts with the load projected for nodes that the plan touches."""
    leaving: dict[str, tuple[NodeLoadState, list[Candidate]]] = {}
    for state, move in moves:
        leaving.setdefault(state.node.name, (state, []))[1].append(move.candidate)
    receiving = {move.place.expected_node for _, move in moves}
    found = []
    for verdict in verdicts:
        after: dict[Resource, float] = {}
        if verdict.node in leaving:
            after = _relieved(*leaving[verdict.node])
        elif verdict.node in receiving:
            resources = [p.resource for p in verdict.pressures]
            after = {resource: room.load_ratio(verdict.node, resource) for resource in resources}
        found.append(_seen_ahead(verdict, after, stuck.get(verdict.node)))
    return tuple(found)


def _relieved(state: NodeLoadState, gone: list[Candidate]) -> dict[Resource, float]:
    after = {}
    for source in state.sources:
        removed = [
            sum(used) for used in zip(*(c.usage[source.resource] for c in gone), strict=True)
        ]
        after[source.resource] = source.highest_without(removed)
    return after


def _seen_ahead(
    verdict: NodeVerdict, after: Mapping[Resource, float], stuck: str | None
) -> NodeVerdict:
    if stuck is not None:
        return msgspec.structs.replace(verdict, reason=NodeReason.EXCESS_NOT_MOVABLE, detail=stuck)
    if not after:
        return verdict
    pressures = tuple(
        msgspec.structs.replace(p, after_ratio=after.get(p.resource)) for p in verdict.pressures
    )
    return msgspec.structs.replace(verdict, pressures=pressures)


def planned_eviction(
    move: Move, state: NodeLoadState, around: Surroundings, *, probe: bool
) -> PlannedEviction:
    """The move as the plan states it, with the numbers behind it."""
    pod = move.candidate.pod
    workload = around.cluster.workload_of(pod)
    hot = [p for p in state.verdict.pressures if p.overloaded]
    reason = "; ".join(
        f"node {state.node.name} {p.resource.value} {p.lowest_ratio:.1%} > {p.trigger_ratio:.1%}"
        for p in hot
    )
    return PlannedEviction(
        pod=pod.ref,
        node=state.node.name,
        workload=str(workload) if workload else "",
        workload_uid=workload.uid if workload else "",
        priority=pod.priority,
        cpu_millicores=max(around.book.measured(pod, Resource.CPU), default=0.0),
        memory_bytes=max(around.book.measured(pod, Resource.MEMORY), default=0.0),
        relief=Excess(state).relief(move.candidate),
        expected_node=move.place.expected_node,
        places=move.place.count,
        reason=reason,
        landing=move.place.likely,
        landing_risk=move.place.risk,
        pool=state.verdict.pool,
        replicas=workload.desired_replicas if workload else 0,
        grace_period_seconds=pod.grace_period_seconds,
        probe=probe,
        cost=move.candidate.cost,
        steered=move.place.steered,
        scheduler=pod.scheduler if move.place.landing.any_fit else "",
    )
