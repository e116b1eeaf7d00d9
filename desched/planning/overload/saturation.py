"""Decides whether a pool of nodes needs capacity, because moves cannot relieve enough nodes.

In such a pool only the worst nodes are relieved, and only as long as the destination is no fuller
than the node is left: the load is levelled. Nodes are the worst if they are far above the mean.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from desched.model.groups import grouped
from desched.model.plan import Finding, HoldReason, ResourcePressure
from desched.model.resources import Resource
from desched.model.selectors import LabelSelector
from desched.planning.overload.node_load import LoadedNode, Thresholds, weighted_mean

NEEDED_HEADROOM_SHARE = 0.5
"""The share of the excess that must have room; with less, most nodes would stay overloaded."""

FAR_ABOVE_MEAN_RATIO = 0.10
SEVERE_RATIO = 0.90
"""A node of a saturated pool is levelled if its load is above the mean by the first, or above the
second."""


class Saturation(msgspec.Struct, frozen=True):
    """A resource of a pool that needs capacity: the numbers in words, and the mean load."""

    why: str
    mean_ratio: float

    def levelling(self, usual: Thresholds) -> Thresholds:
        """The thresholds that relieve only the worst nodes, and less far than usual."""
        worst = min(SEVERE_RATIO, self.mean_ratio + FAR_ABOVE_MEAN_RATIO)
        target = max(usual.target_ratio, worst)
        stop = target - (usual.target_ratio - usual.stop_ratio)
        return Thresholds(usual.low_ratio, target, stop, ceiling_ratio=stop)


Saturated = Mapping[tuple[str, Resource], Saturation]
"""Saturated resources by pool and resource."""


def saturation(loaded_nodes: Iterable[LoadedNode], destinations: LabelSelector) -> Saturated:
    """The saturated resources of pools with overloaded nodes, given all nodes with known load."""
    found = {}
    for pool, nodes in grouped((each.verdict.pool, each) for each in loaded_nodes).items():
        for resource in sorted({p.resource for loaded in nodes for p in loaded.overloaded}):
            if saturated := _saturation(nodes, resource, destinations):
                of_pool = f"pool {pool}: " if pool else ""
                why = f"{of_pool}{resource.value} {saturated.why}"
                found[pool, resource] = msgspec.structs.replace(saturated, why=why)
    return found


def with_levelling(loaded: LoadedNode, saturated: Saturated) -> LoadedNode:
    """The node with higher thresholds for the saturated resources of its pool."""
    if not saturated:
        return loaded
    sources = tuple(
        msgspec.structs.replace(source, thresholds=found.levelling(source.thresholds))
        if (found := saturated.get((loaded.verdict.pool, source.resource)))
        else source
        for source in loaded.sources
    )
    return msgspec.structs.replace(loaded, sources=sources)


def why_saturated(loaded: LoadedNode, saturated: Saturated) -> str:
    """Why moves cannot relieve the node down to its usual stop line, empty if they can."""
    keys = ((loaded.verdict.pool, pressure.resource) for pressure in loaded.overloaded)
    return next((saturated[key].why for key in keys if key in saturated), "")


def saturation_hold(
    overloaded: Collection[LoadedNode], saturated: Saturated
) -> Finding[HoldReason] | None:
    """The hold of a cycle that levels nothing, None if moves can relieve an overloaded node."""
    reasons = [why_saturated(loaded, saturated) for loaded in overloaded]
    if not reasons or not all(reasons):
        return None
    return Finding(HoldReason.CLUSTER_SATURATED, "; ".join(sorted(set(reasons))))


def _saturation(
    nodes: Sequence[LoadedNode], resource: Resource, destinations: LabelSelector
) -> Saturation | None:
    # The size of a node is its capacity in the resource's own unit.
    found = [
        (loaded, _pressure(loaded, resource), loaded.source(resource).bases[0].denominator)
        for loaded in nodes
        if resource in loaded.highest
    ]
    stop = found[0][1].stop_ratio
    mean = weighted_mean([(pressure.lowest_ratio, size) for _, pressure, size in found])
    if mean > stop:
        missing = math.ceil(len(found) * (mean / stop - 1))
        more = "1 more node" if missing == 1 else f"{missing} more nodes"
        why = f"{mean:.1%} on average, above the stop line of {stop:.1%}; {more} would end that"
        return Saturation(why, mean)
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
        why = (
            f"has room for {free / total:.1%} of the capacity under the ceilings, less than half "
            f"of the excess of {excess / total:.1%}"
        )
        return Saturation(why, mean)
    return None


def _pressure(loaded: LoadedNode, resource: Resource) -> ResourcePressure:
    return next(p for p in loaded.verdict.pressures if p.resource is resource)
