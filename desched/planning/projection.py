"""The load that each node will have after the moves of a plan."""

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from desched.model.groups import grouped
from desched.model.plan import Finding, NodeReason, NodeVerdict
from desched.model.resources import Resource
from desched.planning.overload.classification import Pressure
from desched.planning.overload.node_load import SourceLoad
from desched.planning.placement.projected_load import ProjectedLoad
from desched.planning.selection.all_nodes import Selection
from desched.planning.selection.candidates import Candidate
from desched.planning.selection.outcomes import Chosen


def with_projected_load(
    pressure: Pressure, moves: Sequence[Chosen], selection: Selection
) -> tuple[NodeVerdict, ...]:
    """Add the projected load and overload to the verdicts of nodes that lose or may receive a pod.

    Each replacement counts with its usage times the probability of the node. `moves` are those of
    the plan; probing may leave out some moves of the selection.
    """
    leaving = grouped((source.node.name, move.candidate) for source, move in moves)
    likely = {chance.node for _, move in moves for chance in move.destination.likely}
    before = selection.before.free
    later = _forecast_after(before.load, moves)
    projected_nodes = []
    for verdict in pressure.verdicts:
        after: dict[Resource, float] = {}
        loaded = pressure.known.get(verdict.node)
        if loaded is not None and verdict.node in leaving.keys() | likely:
            position = before.arrays.index[verdict.node]
            for load in loaded.sources:
                if gone := leaving.get(verdict.node):
                    ratio = _relieved(load, gone)
                else:
                    ratio = before.load.ratio(verdict.node, load.resource)
                after[load.resource] = ratio + _arriving(load, position, moves)
        chosen = selection.by_node.get(verdict.node)
        projected = _projected(verdict, after, chosen.stuck if chosen else None)
        projected_nodes.append(_with_outlook(projected, later) if after else projected)
    return tuple(projected_nodes)


def _with_outlook(verdict: NodeVerdict, later: ProjectedLoad) -> NodeVerdict:
    """The verdict with the expected overload after the plan, if it has one before."""
    if verdict.outlook is None:
        return verdict
    minutes = later.expected_minutes(verdict.node)
    outlook = msgspec.structs.replace(verdict.outlook, overload_after=minutes)
    return msgspec.structs.replace(verdict, outlook=outlook)


def _forecast_after(load: ProjectedLoad, moves: Iterable[Chosen]) -> ProjectedLoad:
    """The forecast with the moves, each replacement by the probability that it lands there."""
    later = load.copy()
    for source, move in moves:
        candidate, shares = move.candidate, move.destination.shares
        later.remove(source.node.name, candidate.past)
        later.forecast_shares(candidate.pod, candidate.charge, shares)
    return later


def _relieved(load: SourceLoad, gone: Iterable[Candidate]) -> float:
    """The load in the highest window without these pods."""
    removed = [sum(used) for used in zip(*(c.usage[load.resource] for c in gone), strict=True)]
    return load.highest_without(removed)


def _arriving(load: SourceLoad, position: int, moves: Iterable[Chosen]) -> float:
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
