"""The plan's moves as values of the report: projected loads, and evictions with reasons."""

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from desched.model.chain import Chain
from desched.model.groups import grouped
from desched.model.plan import (
    Finding,
    NodeReason,
    NodeVerdict,
    PlannedEviction,
    ResourceRelief,
)
from desched.model.resources import Resource
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.overload.classification import Pressure
from desched.planning.overload.node_load import LoadedNode, SourceLoad
from desched.planning.selection.all_nodes import Selection
from desched.planning.selection.excess import Candidate, Excess
from desched.planning.selection.one_node import Gang, Move, OverloadedNode


def with_projected_load(
    pressure: Pressure, moves: Sequence[tuple[OverloadedNode, Move]], selection: Selection
) -> tuple[NodeVerdict, ...]:
    """Add the projected load to the verdicts of nodes that lose a pod or may receive one.

    Each replacement counts with its usage times the probability of the node. `moves` are those of
    the plan; probing may leave out some moves of the selection.
    """
    leaving = grouped((node.name, move.candidate) for node, move in moves)
    likely = {chance.node for _, move in moves for chance in move.destination.likely}
    before = selection.before.free
    found = []
    for verdict in pressure.verdicts:
        after: dict[Resource, float] = {}
        loaded = pressure.known.get(verdict.node)
        if loaded is not None and verdict.node in leaving.keys() | likely:
            position = before.arrays.index[verdict.node]
            for load in loaded.sources:
                if gone := leaving.get(verdict.node):
                    ratio = _relieved(load, gone)
                else:
                    ratio = before.load_ratio(verdict.node, load.resource)
                after[load.resource] = ratio + _arriving(load, position, moves)
        chosen = selection.by_node.get(verdict.node)
        found.append(_projected(verdict, after, chosen.stuck if chosen else None))
    return tuple(found)


def _relieved(load: SourceLoad, gone: Iterable[Candidate]) -> float:
    """The load in the highest window without these pods."""
    removed = [sum(used) for used in zip(*(c.usage[load.resource] for c in gone), strict=True)]
    return load.highest_without(removed)


def _arriving(
    load: SourceLoad, position: int, moves: Iterable[tuple[OverloadedNode, Move]]
) -> float:
    """The load that the forecast brings to the node at this position of the arrays."""
    usage = math.fsum(
        float(move.destination.shares[position]) * move.candidate.charge[load.resource]
        for _, move in moves
    )
    return usage / load.bases[-1].denominator


def _projected(
    verdict: NodeVerdict, after: Mapping[Resource, float], stuck: Finding[NodeReason] | None
) -> NodeVerdict:
    if stuck is not None:
        return msgspec.structs.replace(verdict, reason=stuck.reason, detail=stuck.detail)
    if not after:
        return verdict
    pressures = tuple(
        msgspec.structs.replace(p, after_ratio=after.get(p.resource)) for p in verdict.pressures
    )
    return msgspec.structs.replace(verdict, pressures=pressures)


def of_gang(gang: Gang, evictions: Iterable[PlannedEviction]) -> Iterable[PlannedEviction]:
    """The evictions, of which those of the gang say that it moves whole."""
    members = {candidate.pod.ref for candidate in gang.members}
    for each in evictions:
        if each.pod not in members:
            yield each
            continue
        reason = "; ".join(filter(None, (each.reason, f"moves whole: {gang}")))
        yield msgspec.structs.replace(each, gang=gang.name, reason=reason)


def planned_eviction(
    move: Move,
    loaded: LoadedNode,
    context: EligibilityContext,
    chain: Chain | None,
    *,
    probe: bool,
) -> PlannedEviction:
    """The move with its reasons and numbers, for the plan; `chain` if it begins or ends one."""
    pod = move.candidate.pod
    workload = context.cluster.workload_of(pod)
    reason = "; ".join(
        f"node {loaded.node.name} {p.resource.value} {p.lowest_ratio:.1%} > "
        f"{loaded.source(p.resource).thresholds.target_ratio:.1%}"
        for p in loaded.above_target
    )
    if loaded.is_levelled:
        reason += "; levelled, because its pool is saturated"
    if chain is not None and chain.first == pod.ref:
        reason = f"makes room on {chain.room_on} for {chain.second} of {chain.source}"
    return PlannedEviction(
        pod=pod.ref,
        node=loaded.node.name,
        workload=str(workload) if workload else "",
        workload_uid=workload.uid if workload else "",
        priority=pod.priority,
        cpu_millicores=max(context.book.measured(pod, Resource.CPU), default=0.0),
        memory_bytes=max(context.book.measured(pod, Resource.MEMORY), default=0.0),
        relief=Excess(loaded).relief(move.candidate),
        landing=move.destination.likely,
        destinations=move.destination.count,
        reason=reason,
        landing_nodes=move.destination.possible,
        landing_risk=move.destination.risk,
        pool=loaded.verdict.pool,
        replicas=workload.desired_replicas if workload else 0,
        grace_period_seconds=pod.grace_period_seconds,
        probe=probe,
        cost=move.candidate.cost,
        steered=move.destination.steered,
        scheduler=pod.scheduler if move.destination.landing.any_fit else "",
        chain=chain,
        levelled_to=tuple(
            ResourceRelief(resource, ratio) for resource, ratio in move.destination.at_most.items()
        ),
        gpus=max(context.book.measured(pod, Resource.GPU), default=0.0),
    )
