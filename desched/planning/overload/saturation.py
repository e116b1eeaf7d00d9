"""Decides whether a pool of nodes needs capacity, because moves cannot relieve enough nodes."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from desched.model.groups import grouped
from desched.model.plan import Finding, HoldReason, ResourcePressure
from desched.model.resources import Resource
from desched.model.selectors import LabelSelector
from desched.planning.overload.node_load import LoadedNode, weighted_mean

NEEDED_HEADROOM_SHARE = 0.5
"""The share of the excess that must have room; with less, most nodes would stay overloaded."""

Saturated = Mapping[tuple[str, Resource], str]
"""Saturated resources by pool and resource, with the numbers."""


def saturation(loaded_nodes: Iterable[LoadedNode], destinations: LabelSelector) -> Saturated:
    """The saturated resources of pools with overloaded nodes, given all nodes with known load."""
    found = {}
    for pool, nodes in grouped((each.verdict.pool, each) for each in loaded_nodes).items():
        for resource in sorted({p.resource for loaded in nodes for p in loaded.overloaded}):
            if why := _why(nodes, resource, destinations):
                of_pool = f"pool {pool}: " if pool else ""
                found[pool, resource] = f"{of_pool}{resource.value} {why}"
    return found


def why_saturated(loaded: LoadedNode, saturated: Saturated) -> str:
    """Why moves cannot relieve the node, empty if they can."""
    keys = ((loaded.verdict.pool, pressure.resource) for pressure in loaded.overloaded)
    return next((saturated[key] for key in keys if key in saturated), "")


def saturation_hold(
    overloaded: Collection[LoadedNode], saturated: Saturated
) -> Finding[HoldReason] | None:
    """The hold of the cycle if moves can relieve no overloaded node."""
    reasons = [why_saturated(loaded, saturated) for loaded in overloaded]
    if not reasons or not all(reasons):
        return None
    return Finding(HoldReason.CLUSTER_SATURATED, "; ".join(sorted(set(reasons))))


def _why(nodes: Sequence[LoadedNode], resource: Resource, destinations: LabelSelector) -> str:
    # The size of a node is its capacity in the resource's own unit.
    found = [
        (loaded, _pressure(loaded, resource), loaded.source(resource).bases[0].denominator)
        for loaded in nodes
        if resource in loaded.highest
    ]
    stop = found[0][1].stop_ratio
    mean = weighted_mean([(pressure.lowest_ratio, size) for _, pressure, size in found])
    if mean > stop:
        return f"{mean:.1%} on average, above the stop line of {stop:.1%}"
    total = math.fsum(size for _, _, size in found)
    excess = math.fsum(
        (pressure.lowest_ratio - stop) * size for _, pressure, size in found if pressure.overloaded
    )
    free = math.fsum(
        max(0.0, pressure.ceiling_ratio - pressure.highest_ratio) * size
        for loaded, pressure, size in found
        if loaded.receives and destinations.matches(loaded.node.labels)
    )
    if free < NEEDED_HEADROOM_SHARE * excess:
        return (
            f"has room for {free / total:.1%} of the capacity under the ceilings, less than half "
            f"of the excess of {excess / total:.1%}"
        )
    return ""


def _pressure(loaded: LoadedNode, resource: Resource) -> ResourcePressure:
    return next(p for p in loaded.verdict.pressures if p.resource is resource)
