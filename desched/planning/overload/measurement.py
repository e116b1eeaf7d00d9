"""The load of one node in each window, corrected for changes that the windows do not show yet."""

import math
from collections.abc import Sequence

from desched.model.cluster import Node, Pod
from desched.model.load import Measured, Unknown, UnknownReason
from desched.model.resources import Resource
from desched.planning.overload.departed_load import DepartedLoad
from desched.planning.overload.node_load import Basis, NodeLoad
from desched.planning.overload.pod_usage import UsageBook
from desched.policy.policy import ResourceRule

RESOURCE_ORDER = tuple(Resource)


def measure(
    node: Node, rules: Sequence[ResourceRule], book: UsageBook, departed_load: DepartedLoad
) -> tuple[NodeLoad, ...] | Unknown:
    """The load of each watched resource in the order of relief, or the reason why it is unknown."""
    snapshot = book.snapshot
    pods = snapshot.cluster.pods_by_node.get(node.name, ())
    loads = snapshot.load.nodes.get(node.name, {})
    found: list[NodeLoad] = []
    for rule in sorted(rules, key=lambda rule: RESOURCE_ORDER.index(rule.resource)):
        resource = rule.resource
        if resource is Resource.PODS:
            if node.allocatable.pods <= 0:
                return Unknown(UnknownReason.ABSENT, "the node allows no pods")
            ratio = sum(not pod.deleting for pod in pods) / node.allocatable.pods
            basis = Basis(float(node.allocatable.pods), (ratio,))
            found.append(NodeLoad(rule, ((0, ratio),), (basis,), ratio))
            continue
        load = loads.get(resource, Unknown(UnknownReason.ABSENT, f"no {resource.value} load"))
        if isinstance(load, Unknown):
            return load
        bases = _bases(node, resource, load, pods, book)
        if isinstance(bases, Unknown):
            return bases
        # Arrivals count against the smaller base, which gives the higher ratio.
        base = bases[-1].denominator
        arrived = book.unseen_on(node.name, resource, rule.windows_seconds[-1]) / base
        further = _further_highest(node, rule, book, base)
        found.append(
            NodeLoad(
                rule,
                tuple((level.window_seconds, level.ratio) for level in load.levels),
                departed_load.leave(node.name, resource, bases),
                max(_highest(bases) + arrived, further or 0.0),
                receives=further is not None,
            )
        )
    return tuple(found)


def _bases(
    node: Node, resource: Resource, load: Measured, pods: tuple[Pod, ...], book: UsageBook
) -> tuple[Basis, ...] | Unknown:
    ratios = tuple(level.ratio for level in load.levels)
    if resource is Resource.CPU:
        if node.capacity.cpu_millicores <= 0:
            return Unknown(UnknownReason.ABSENT, "the node states no CPU capacity")
        return (Basis(float(node.capacity.cpu_millicores), ratios),)
    if min(node.capacity.memory_bytes, node.allocatable.memory_bytes) <= 0:
        return Unknown(UnknownReason.ABSENT, "the node states no memory capacity")
    # fsum, here and below: the result must not depend on the order of the pods.
    seen = book.snapshot.load.pods
    usages = (seen.get((pod.namespace, pod.name)) for pod in pods)
    of_pods = [usage.memory_bytes for usage in usages if usage and usage.memory_bytes]
    sums = [math.fsum(by_window) for by_window in zip(*of_pods, strict=True)] or [0.0] * len(ratios)
    allocatable = float(node.allocatable.memory_bytes)
    return (
        Basis(float(node.capacity.memory_bytes), ratios),
        Basis(allocatable, tuple(sums[i] / allocatable for i in range(len(ratios)))),
    )


def _highest(bases: tuple[Basis, ...]) -> float:
    return max(max(basis.ratios) for basis in bases)


def _further_highest(node: Node, rule: ResourceRule, book: UsageBook, base: float) -> float | None:
    """The highest of the destination windows, 0 without any, None if one is not known."""
    if not rule.destination_windows:
        return 0.0
    of_node = book.snapshot.load.destination_ratios.get(node.name, {})
    known = of_node.get(rule.resource, ())
    ratios = [ratio for ratio in known if ratio is not None]
    if len(ratios) < len(rule.destination_windows):
        return None
    # A maximum shows a pod as soon as the shortest window does.
    shortest = rule.windows_seconds[0]
    windows = (shortest if w.quantile == 1 else w.window_seconds for w in rule.destination_windows)
    return max(
        ratio + book.unseen_on(node.name, rule.resource, window) / base
        for window, ratio in zip(windows, ratios, strict=True)
    )
