"""The load of pods that opt out of moves, as far as it is above their own requests.

Whoever may create pods may let one opt out, and let it use a whole node. The pods of
others do not leave their node for that, unless the policy says so.
"""

import math
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from desched.model.cluster import Pod
from desched.model.plan import NodeReason, RefusalReason
from desched.model.resources import Resource
from desched.planning.eligibility.eligibility import Eligibility
from desched.planning.overload.classification import Pressure, Wait
from desched.planning.overload.node_load import Basis, LoadedNode, SourceLoad
from desched.planning.selection.one_node import LEAST_SAVED_MINUTES

BY_OWN_CHOICE = frozenset({RefusalReason.OPTED_OUT, RefusalReason.PREFERS_NO_EVICTION})
"""Refusals that the owner of a pod has asked for. Other pods that stay are load like any other:
relief from a bare pod or a database is what desched is for."""

Excess = Mapping[Resource, tuple[float, ...]]
"""The usage above the request in each window of CPU and memory."""


def without_staying_excess(pressure: Pressure, eligibility: Eligibility) -> Pressure:
    """Judge overloaded nodes without the load of staying pods that is above their requests.

    A node that would not be overloaded without it waits.
    """
    judged_nodes, outlook = dict(pressure.known), pressure.outlook
    price = eligibility.context.policy.eviction_price_minutes
    waits: dict[str, Wait | None] = {}
    for loaded in pressure.sources:
        name = loaded.node.name
        excesses = () if name in pressure.waiting else tuple(_excesses(name, eligibility))
        if not excesses:
            continue
        judged = _without(loaded, [excess for _, excess in excesses])
        judged_nodes[name] = judged
        outlook = outlook.with_node(judged)
        if outlook.of(name) < max(price, LEAST_SAVED_MINUTES) or (
            loaded.overloaded
            and all(_lowest(judged, p.resource) <= p.target_ratio for p in loaded.overloaded)
        ):
            largest = max(excesses, key=lambda pair: (_share(loaded, pair[1]), pair[0].ref))[0]
            waits[name] = Wait(
                NodeReason.STAYING_EXCESS,
                RefusalReason.STAYING_EXCESS,
                f"{largest.ref} uses more than it requests"
                + (f", and {len(excesses) - 1} others do" if len(excesses) > 1 else ""),
            )
    return replace(pressure, known=judged_nodes, outlook=outlook).with_waits(waits)


def _excesses(node: str, eligibility: Eligibility) -> Iterator[tuple[Pod, Excess]]:
    """The pods of the node that stay and use more than they request."""
    context = eligibility.context
    for pod in context.cluster.pods_by_node.get(node, ()):
        if not eligibility.may_refuse_for(BY_OWN_CHOICE, pod):
            continue  # nearly all pods
        requests = pod.scheduling.requests
        limits = {Resource.CPU: requests.cpu_millicores, Resource.MEMORY: requests.memory_bytes}
        excess = {
            resource: tuple(max(0.0, used - limits[resource]) for used in amounts)
            for resource in limits.keys() & context.book.windows.keys()
            if (amounts := context.book.measured(pod, resource))
        }
        if any(map(any, excess.values())):
            finding = eligibility.refuse(pod)
            if finding is None or finding.reason not in BY_OWN_CHOICE:
                continue
            if not eligibility.waits_for_moves(pod):
                yield pod, excess


def _without(loaded: LoadedNode, excesses: list[Excess]) -> LoadedNode:
    sources = (_less(source, excesses) for source in loaded.sources)
    return replace(loaded, sources=tuple(sources))


def _less(source: SourceLoad, excesses: list[Excess]) -> SourceLoad:
    own = [excess[source.resource] for excess in excesses if source.resource in excess]
    if not own:
        return source
    total = [math.fsum(window) for window in zip(*own, strict=True)]
    bases = (
        Basis(
            basis.denominator,
            tuple(
                ratio - used / basis.denominator
                for ratio, used in zip(basis.ratios, total, strict=True)
            ),
        )
        for basis in source.bases
    )
    return replace(source, bases=tuple(bases))


def _lowest(loaded: LoadedNode, resource: Resource) -> float:
    source = loaded.source(resource)
    return source.lowest_without(source.nothing)


def _share(loaded: LoadedNode, excess: Excess) -> float:
    """The largest share of the node's capacity."""
    return max(
        max(used) / loaded.source(resource).bases[0].denominator
        for resource, used in excess.items()
    )
