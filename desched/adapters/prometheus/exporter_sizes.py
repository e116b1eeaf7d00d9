"""The sizes that exporters report for their nodes, compared with what the nodes state.

Whoever writes further CPUs of a node changes its load. To count those of all modes reads every
counter, so that is done once in several cycles; in the others those that have been idle count.
"""

import math
from collections.abc import Iterable, Mapping

from desched.model.cluster import Node
from desched.model.load import Unknown, UnknownReason
from desched.model.resources import Resource

CYCLES_WITH_ONE_COUNT = 4
"""Of the CPUs of all modes."""

SIZE_TOLERANCE = 0.1
"""The capacity that a node states is what its kubelet found when it started: the memory and the
CPUs that its exporter reports, unless they have been changed since."""

Contradicted = Mapping[tuple[str, Resource], Unknown]
"""By node name and resource."""


class ExporterSizes:
    """Which nodes have exporters with another size, from cycle to cycle.

    Such a node stays unknown until all CPUs are counted again.
    """

    def __init__(self) -> None:
        self._cycles_left = 0
        self._scopes: Mapping[Resource, str] = {}
        self._contradicted: Contradicted = {}

    def count_all(self, scopes: Mapping[Resource, str]) -> bool:
        """Whether a cycle with these exporters counts the CPUs of all modes."""
        return not self._cycles_left or scopes != self._scopes

    def judge(self, contradicted: Contradicted, scopes: Mapping[Resource, str]) -> Contradicted:
        """The nodes that are contradicted, given those of this cycle, which thereby ends."""
        if self.count_all(scopes):
            self._cycles_left, self._scopes = CYCLES_WITH_ONE_COUNT, scopes
            self._contradicted = contradicted
        self._cycles_left -= 1
        return {**self._contradicted, **contradicted}


def contradiction(node: Node, resource: Resource, sizes: Iterable[float]) -> Unknown | None:
    """Why the load is unknown if an exporter has not found the capacity that the node states."""
    capacity = capacity_of(node, resource)
    for size in sizes:
        if capacity and not math.isclose(size, capacity, rel_tol=SIZE_TOLERANCE):
            unit = "cores" if resource is Resource.CPU else "bytes of memory"
            detail = f"its exporter reports {size:g} {unit}, its capacity is {capacity:g}"
            if size > capacity:  # as in LXC, and other nodes that are containers
                detail += "; it may read /proc of the host of this node"
            return Unknown(UnknownReason.CONTRADICTORY, detail)
    return None


def capacity_of(node: Node, resource: Resource) -> float:
    """In cores or bytes, as exporters report it."""
    if resource is Resource.CPU:
        return node.capacity.cpu_millicores / 1000
    return float(node.capacity.memory_bytes)
