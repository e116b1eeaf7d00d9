"""The load of one node in each window, corrected for changes that the windows do not show yet."""

import math
from collections.abc import Sequence
from datetime import datetime, timedelta

from desched.model.cluster import Node
from desched.model.groups import grouped
from desched.model.load import Measured, PodUsage, Unknown, UnknownReason
from desched.model.resources import Resource
from desched.model.state import EvictionRecord, State
from desched.planning.overload.huge_pages import ordinary, ordinary_bytes, ordinary_ratio
from desched.planning.overload.node_load import Basis, NodeLoad
from desched.planning.overload.pod_usage import UsageBook
from desched.policy.policy import ResourceRule

RESOURCE_ORDER = tuple(Resource)

PODS_ABOVE_NODE_FACTOR = 1.25
PODS_ABOVE_NODE_RATIO = 0.05
"""The pods' usage is a part of the node's, so their sum can exceed it only because the two are not
scraped at the same time: by a quarter of it in a burst, and by a little more on an idle node."""

KUBELET_DIFFERENCE_RATIO = 0.1
"""Of the CPU: a node's exporter and its kubelet are not scraped at the same time."""

HOST_RATIO = 0.25
"""Of the capacity, beside what a node keeps for its host: load of no pod. Of memory, kubelets do
not count parts of the kernel's."""


class DepartedLoad:
    """Pods that have left a node, or are leaving it, while its windows still include them."""

    def __init__(self, state: State, book: UsageBook) -> None:
        self._book = book
        leaving = book.snapshot.cluster.leaving_pods
        present = {pod.uid: pod for pod in leaving if not pod.finished}
        self._leaving = grouped((pod.node, pod) for pod in leaving if not pod.lingers(book.now))
        self._still_here = {
            record.node
            for record in state.evictions
            if (pod := present.get(record.pod.uid)) and not pod.is_overdue(book.now)
        }
        self._gone = grouped((r.node, r) for r in state.evictions if r.pod.uid not in present)

    def leave(self, node: str, resource: Resource, bases: tuple[Basis, ...]) -> tuple[Basis, ...]:
        """The bases without the usage that has left the node or is leaving it.

        A pod that is leaving it still counts if its usage has not been read.
        """
        if node not in self._leaving and node not in self._gone:
            return bases
        leaving = [
            used
            for pod in self._leaving.get(node, ())
            if self._book.has_read_of(pod) and (used := self._book.measured(pod, resource))
        ]
        records = self._gone.get(node, ())
        gone = [
            math.fsum(used[i] for used in leaving)
            + math.fsum(r.usage(resource) * self._unseen(r, window) for r in records)
            for i, window in enumerate(self._book.windows[resource])
        ]
        return tuple(
            Basis(
                basis.denominator,
                tuple(
                    max(0.0, ratio - left / basis.denominator)
                    for ratio, left in zip(basis.ratios, gone, strict=True)
                ),
            )
            for basis in bases
        )

    def settling(self, shortest_window_seconds: int) -> dict[str, datetime | None]:
        """Return the nodes that lost a pod within the shortest window, and until when they settle.

        The time is None while the pod is still there, unless it is overdue.
        """
        window = timedelta(seconds=shortest_window_seconds)
        since: dict[str, datetime | None] = {
            node: max(record.left_at or self._book.now for record in records) + window
            for node, records in self._gone.items()
            if any(self._unseen(record, shortest_window_seconds) > 0 for record in records)
        }
        return since | dict.fromkeys(self._still_here)

    def _unseen(self, record: EvictionRecord, window_seconds: int) -> float:
        if window_seconds <= 0:
            return 0.0
        since_seconds = (self._book.now - (record.left_at or self._book.now)).total_seconds()
        return min(1.0, max(0.0, 1.0 - since_seconds / window_seconds))


def measure(
    node: Node, rules: Sequence[ResourceRule], book: UsageBook, departed_load: DepartedLoad
) -> tuple[NodeLoad, ...] | Unknown:
    """The load of each watched resource in the order of relief, or the reason why it is unknown.

    A node without devices that pods may share, or with devices of unknown load, is judged without
    them.
    """
    snapshot = book.snapshot
    pods = snapshot.cluster.pods_by_node.get(node.name, ())
    usages = book.usages(pods) if book.has_read(node.name) else None
    loads = snapshot.load.nodes.get(node.name, {})
    found: list[NodeLoad] = []
    for rule in sorted(rules, key=lambda rule: RESOURCE_ORDER.index(rule.resource)):
        resource = rule.resource
        if resource is Resource.PODS:
            if node.allocatable.pods <= 0:
                return Unknown(UnknownReason.ABSENT, "the node allows no pods")
            stay = sum(not pod.deleting or pod.lingers(book.now) for pod in pods)
            ratio = stay / node.allocatable.pods
            basis = Basis(float(node.allocatable.pods), (ratio,))
            found.append(NodeLoad(rule, ((0, ratio),), (basis,), ratio, (basis,)))
            continue
        if resource in book.device_loads and resource not in loads:
            continue
        load = loads.get(resource, Unknown(UnknownReason.ABSENT, f"no {resource.value} load"))
        if isinstance(load, Unknown):
            return load
        if resource is Resource.MEMORY:
            load = ordinary(node, load)
        bases = _bases(node, resource, load, usages, book)
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
                bases,
                receives=further is not None,
                shown=_shown(node, resource, load, usages, book),
            )
        )
    return tuple(found)


def _bases(
    node: Node,
    resource: Resource,
    load: Measured,
    usages: Sequence[PodUsage] | None,
    book: UsageBook,
) -> tuple[Basis, ...] | Unknown:
    """Return the bases of a resource; `usages` of the node's pods is None if they are not read."""
    ratios = tuple(level.ratio for level in load.levels)
    if resource in book.device_loads:
        return (Basis(float(load.devices), ratios),)
    sums = _sums(node, resource, usages, book) or [0.0] * len(ratios)
    if resource is Resource.CPU:
        if node.capacity.cpu_millicores <= 0:
            return Unknown(UnknownReason.ABSENT, "the node states no CPU capacity")
        own = Basis(float(node.capacity.cpu_millicores), ratios)
        return _exceeds(load, sums, own.denominator) or (own,)
    if min(node.capacity.memory_bytes, node.allocatable.memory_bytes) <= 0:
        return Unknown(UnknownReason.ABSENT, "the node states no memory capacity")
    own = Basis(float(ordinary_bytes(node)), ratios)
    if exceeds := _exceeds(load, _seen_memory(sums, node, load, book), own.denominator):
        return exceeds
    if load.pods_ratios:  # no pod's series can raise the load above what the node bears out
        sums = [min(used, most) for used, most in zip(sums, _most_memory(node, load), strict=True)]
    allocatable = float(node.allocatable.memory_bytes)
    return own, Basis(allocatable, tuple(used / allocatable for used in sums))


def may_exceed_by_pods(node: Node, load: Measured, ratio: float) -> bool:
    """Whether the pods may use more than this share of the node's allocatable memory."""
    limit, load = ratio * node.allocatable.memory_bytes, ordinary(node, load)
    return not load.pods_ratios or min(_most_memory(node, load)) > limit


def _most_memory(node: Node, load: Measured) -> list[float]:
    """The most memory that the pods can use in each window by the node's own figures, in bytes."""
    capacity = float(ordinary_bytes(node))
    levels = zip(load.pods_ratios, load.levels, strict=True)
    return [max(ratio, level.ratio) * capacity for ratio, level in levels]


def _sums(
    node: Node, resource: Resource, usages: Sequence[PodUsage] | None, book: UsageBook
) -> Sequence[float]:
    """What the pods use together in each window, empty if none was measured."""
    if usages is None:
        return book.snapshot.load.pod_sums.get(node.name, {}).get(resource, ())
    if resource is Resource.CPU:
        amounts = [usage.cpu_millicores for usage in usages if usage.cpu_millicores]
    else:
        amounts = [usage.memory_bytes for usage in usages if usage.memory_bytes]
    # fsum, here and below: the result must not depend on the order of the pods.
    return [math.fsum(by_window) for by_window in zip(*amounts, strict=True)]


def _shown(
    node: Node,
    resource: Resource,
    load: Measured,
    usages: Sequence[PodUsage] | None,
    book: UsageBook,
) -> tuple[float, float] | None:
    """Return a second figure for the load over the shortest window, and how far it may be too low.

    It is the kubelet's figure for the node, else the sum of its pods, including pods that ended.
    None means that nothing else is read.
    """
    if load.kubelet_ratio is None:
        return None
    allocatable, capacity = node.allocatable.memory_bytes, ordinary_bytes(node)
    if resource is Resource.CPU:
        if load.kubelet_ratio:
            return load.kubelet_ratio, KUBELET_DIFFERENCE_RATIO
        allocatable, capacity = node.allocatable.cpu_millicores, node.capacity.cpu_millicores
    shown = load.kubelet_ratio
    if not shown:
        if usages is None:
            return None
        both = _sums(node, resource, usages, book), _sums(node, resource, None, book)
        totals = (sums[0] for sums in both if sums and math.isfinite(sums[0]))
        shown = max(totals, default=0.0) / capacity
    return shown, HOST_RATIO + max(0.0, 1.0 - allocatable / capacity)


def _seen_memory(
    sums: Sequence[float], node: Node, load: Measured, book: UsageBook
) -> Sequence[float]:
    """The pods' memory as means over whole windows; a young pod's mean is over its own time."""
    if not book.has_read(node.name):
        return sums
    young = [
        (pod, usage)
        for pod in book.young_by_node.get(node.name, ())
        if (usage := book.measured(pod, Resource.MEMORY))
    ]
    return [
        used
        - math.fsum(
            usage[i] * (1.0 - book.seen_share(pod, level.window_seconds)) for pod, usage in young
        )
        for i, (used, level) in enumerate(zip(sums, load.levels, strict=True))
    ]


def _exceeds(load: Measured, of_pods: Sequence[float], capacity: float) -> Unknown | None:
    """The contradiction if the pods use far more than the node by its own figure."""
    if not load.pods_ratios:
        return None
    for level, ratio, used in zip(load.levels, load.pods_ratios, of_pods, strict=True):
        own, share = max(ratio, level.ratio), used / capacity
        if share > own * PODS_ABOVE_NODE_FACTOR + PODS_ABOVE_NODE_RATIO:
            detail = f"its pods would use {share:.1%} of its capacity, the node reports {own:.1%}"
            return Unknown(UnknownReason.PODS_ABOVE_NODE, detail)
    return None


def _highest(bases: tuple[Basis, ...]) -> float:
    return max(max(basis.ratios) for basis in bases)


def _further_highest(node: Node, rule: ResourceRule, book: UsageBook, base: float) -> float | None:
    """Return the highest of the destination windows: 0 without any, None if one is unknown."""
    if not rule.destination_windows:
        return 0.0
    of_node = book.snapshot.load.destination_ratios.get(node.name, {})
    ratios_before = of_node.get(rule.resource, ())
    ratios = [ratio for ratio in ratios_before if ratio is not None]
    if rule.resource is Resource.MEMORY:
        ratios = [ordinary_ratio(node, ratio) for ratio in ratios]
    if len(ratios) < len(rule.destination_windows):
        return None
    # A maximum shows a pod as soon as the shortest window does.
    shortest = rule.windows_seconds[0]
    windows = (shortest if w.quantile == 1 else w.window_seconds for w in rule.destination_windows)
    return max(
        ratio + book.unseen_on(node.name, rule.resource, window) / base
        for window, ratio in zip(windows, ratios, strict=True)
    )
