"""Memory without what a node keeps for huge pages: nobody else can use it, used or not.

Exporters and kubelets report it as used, so a node that keeps much of it would be overloaded
without any load. A kubelet with cgroup v1 does not report it; its figure may be smaller.
"""

import msgspec

from desched.model.cluster import Node
from desched.model.load import Level, Measured

_PREFIX = "hugepages-"


def huge_page_bytes(node: Node) -> int:
    """Return what the node keeps for huge pages of all sizes, or 0 if it states no other memory."""
    kept = sum(n for name, n in node.capacity.extended if name.startswith(_PREFIX))
    return kept if kept < node.capacity.memory_bytes else 0


def ordinary_bytes(node: Node) -> int:
    """Return the memory of the node without huge pages."""
    return node.capacity.memory_bytes - huge_page_bytes(node)


def ordinary_ratio(node: Node, ratio: float) -> float:
    """Return the used share of ordinary memory, from the used share of all memory."""
    kept = huge_page_bytes(node)
    if not kept:
        return ratio
    used = ratio * node.capacity.memory_bytes
    return (used - kept if used >= kept else used) / ordinary_bytes(node)


def ordinary(node: Node, load: Measured) -> Measured:
    """Return the load of ordinary memory, from the load of all memory."""
    if not huge_page_bytes(node):
        return load
    shown = load.kubelet_ratio
    return msgspec.structs.replace(
        load,
        levels=tuple(
            Level(level.window_seconds, ordinary_ratio(node, level.ratio)) for level in load.levels
        ),
        pods_ratios=tuple(ordinary_ratio(node, ratio) for ratio in load.pods_ratios),
        kubelet_ratio=ordinary_ratio(node, shown) if shown else shown,
    )
