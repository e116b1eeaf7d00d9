"""Relieved nodes that would attract new pods, although they have no room for what those use.

kube-scheduler sees requests. A node that lost pods has the fewest, and gets what comes next until
its requests are like those of other nodes. Where the use of so many pods would bring it above its
target, it needs a soft taint.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from desched.model.plan import PlannedTaint
from desched.model.resources import Resource
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.overload.classification import Pressure
from desched.planning.overload.node_load import LoadedNode

USE_OF_REQUESTS = 3.0
"""New pods may use so many times what they request: which ones come is not known, and a soft taint
costs little."""

ONE_POD_SHARE = 0.03
"""A node with the fewest requests gets at least one more pod, of about so much of a node."""

_SCORED = (Resource.CPU, Resource.MEMORY)
"""The resources whose requests kube-scheduler compares."""


def taints_for_traps(
    context: EligibilityContext, pressure: Pressure, tainted: Iterable[str]
) -> Iterator[PlannedTaint]:
    """The taints of nodes that desched relieved, or that have its taint already."""
    state = context.state
    relieved = {move.node for move in state.moves} | {each.node for each in state.evictions}
    names = sorted((relieved | set(tainted)) & pressure.known.keys())
    if not names:
        return
    shares = {name: _requested_share(name, context, pressure) for name in pressure.known}
    usual = float(np.median(list(shares.values())))
    for name in names:
        missing = usual - shares[name]
        if missing <= 0:
            continue
        loaded = pressure.known[name]
        if resource := _would_exceed(loaded, max(missing, ONE_POD_SHARE), pressure):
            yield PlannedTaint(
                name,
                f"it requests {100 * missing:.0f} points less than other nodes, and what new pods "
                f"use would bring its {resource.value} above the target",
            )


def _would_exceed(loaded: LoadedNode, missing_share: float, pressure: Pressure) -> Resource | None:
    """The resource that would exceed its target with that many more requests."""
    outlook = pressure.outlook
    levels = outlook.level_of(loaded.node.name)
    for resource, level in zip(outlook.pasts.resources, levels, strict=True):
        if resource in _SCORED:
            more = USE_OF_REQUESTS * missing_share
            if level + more > loaded.source(resource).thresholds.target_ratio:
                return resource
    return None


def _requested_share(name: str, context: EligibilityContext, pressure: Pressure) -> float:
    """The mean of the requested shares of CPU and memory, as kube-scheduler scores them."""
    node = pressure.known[name].node
    pods = context.cluster.pods_by_node.get(name, ())
    requests = [pod.scheduling.requests for pod in pods if not pod.finished]
    cpu = sum(each.cpu_millicores for each in requests) / max(1, node.allocatable.cpu_millicores)
    memory = sum(each.memory_bytes for each in requests) / max(1, node.allocatable.memory_bytes)
    return (cpu + memory) / 2
