"""Decides whether a pool of nodes needs capacity, because moves cannot relieve enough nodes.

In such a pool there is no room under the ceilings. A destination may become as full as the source
is left; whether that is better is judged as everywhere, by the expected overload of both.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from desched.model.groups import grouped
from desched.model.plan import Finding, HoldReason, NodeReason, NodeVerdict, ResourcePressure
from desched.model.resources import Resource
from desched.model.selectors import LabelSelector
from desched.planning.overload.node_load import LoadedNode, weighted_mean

NEEDED_HEADROOM_SHARE = 0.5
"""The share of the excess that must have room; with less, most nodes would stay overloaded."""

Saturated = Mapping[tuple[str, Resource], str]
"""Why a resource of a pool is saturated, with the numbers, by pool and resource."""


WITHOUT_ROOM = frozenset(
    {
        NodeReason.NOT_READY,
        NodeReason.NOT_LINUX,
        NodeReason.VIRTUAL,
        NodeReason.BEING_REMOVED,
        NodeReason.UNDER_PRESSURE,
    }
)
"""Nodes that are left out for these reasons would be no place for pods either."""


def saturation(
    loaded_nodes: Iterable[LoadedNode],
    destinations: LabelSelector,
    left_out: Collection[NodeVerdict] = (),
) -> Saturated:
    """The saturated resources of pools with overloaded nodes, given all nodes with known load.

    The numbers name the nodes that are `left_out` of them although they may have room.
    """
    reasons = {}
    for pool, nodes in grouped(
        (loaded_node.verdict.pool, loaded_node) for loaded_node in loaded_nodes
    ).items():
        for resource in sorted({p.resource for loaded in nodes for p in loaded.overloaded}):
            if saturated := _saturation(nodes, resource, destinations):
                of_pool = f"pool {pool}: " if pool else ""
                beside = [v for v in left_out if v.pool == pool and v.reason not in WITHOUT_ROOM]
                reason = f"{of_pool}{resource.value} {saturated}{_not_counted(beside, resource)}"
                reasons[pool, resource] = reason
    return reasons


def in_saturated_pools(loaded: LoadedNode, saturated: Saturated) -> LoadedNode:
    """The node with the saturated resources of its pool."""
    reasons = {
        source.resource: reason
        for source in loaded.sources
        if (reason := saturated.get((loaded.verdict.pool, source.resource)))
    }
    return msgspec.structs.replace(loaded, saturated=reasons) if reasons else loaded


def saturation_hold(
    overloaded: Collection[LoadedNode],
) -> Finding[HoldReason] | None:
    """Return the hold of a cycle that moves nothing if all these nodes lack capacity."""
    reasons = [
        next(
            (
                loaded.saturated[p.resource]
                for p in loaded.overloaded
                if p.resource in loaded.saturated
            ),
            "",
        )
        for loaded in overloaded
    ]
    if not reasons or not all(reasons):
        return None
    return Finding(HoldReason.CLUSTER_SATURATED, "; ".join(sorted(set(reasons))))


def _saturation(
    nodes: Sequence[LoadedNode], resource: Resource, destinations: LabelSelector
) -> str | None:
    # The size of a node is its capacity in the resource's own unit.
    judged = [
        (loaded, _pressure(loaded, resource), loaded.source(resource).bases[0].denominator)
        for loaded in nodes
        if resource in loaded.highest
    ]
    stop = judged[0][1].stop_ratio
    mean = weighted_mean([(pressure.lowest_ratio, size) for _, pressure, size in judged])
    if mean > stop:
        missing = math.ceil(len(judged) * (mean / stop - 1))
        more = "1 more node" if missing == 1 else f"{missing} more nodes"
        return f"{mean:.1%} on average, above the stop line of {stop:.1%}; {more} would end that"
    total = math.fsum(size for _, _, size in judged)
    excess = math.fsum(
        (pressure.lowest_ratio - stop) * size for _, pressure, size in judged if pressure.overloaded
    )
    free = math.fsum(
        max(0.0, pressure.ceiling_ratio - pressure.highest_ratio) * size
        for loaded, pressure, size in judged
        if loaded.receives and destinations.matches(loaded.node.labels)
    )
    if free < NEEDED_HEADROOM_SHARE * excess:
        return (
            f"has room for {free / total:.1%} of the capacity under the ceilings, less than half "
            f"of the excess of {excess / total:.1%}"
        )
    return None


def _not_counted(left_out: Iterable[NodeVerdict], resource: Resource) -> str:
    """Name the nodes that are not counted, by reason, with their idle share."""
    parts = []
    for reason, nodes in grouped((v.reason, v) for v in left_out if v.reason).items():
        loads = [_highest(verdict, resource) for verdict in nodes]
        idle = math.fsum(1 - load for load in loads if load is not None) / len(nodes)
        words = "of unknown load" if None in loads else f"{idle:.1%} idle"
        parts.append(f"{len(nodes)} {reason.value} (such as {nodes[0].node}, {words})")
    return f"; not counted: {', '.join(parts)}" if parts else ""


def _highest(verdict: NodeVerdict, resource: Resource) -> float | None:
    levels = (load.measured for load in verdict.unjudged if load.resource is resource)
    return max((ratio for measured in levels for _, ratio in measured), default=None)


def _pressure(loaded: LoadedNode, resource: Resource) -> ResourcePressure:
    return next(p for p in loaded.verdict.pressures if p.resource is resource)
