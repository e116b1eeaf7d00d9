"""How loaded each node is, corrected for what the windows have not seen, and its class.

A source is judged by the lowest of its windows, less what has left since; a destination by the
highest, plus what has come. Both lean to fewer evictions.
"""

import math
from collections.abc import Mapping, Sequence

import msgspec

from desched.model.cluster import Node, Pod
from desched.model.load import Measured, Unknown, UnknownReason
from desched.model.memory import EvictionRecord, Memory
from desched.model.plan import NodeClass, NodeReason, NodeVerdict, ResourcePressure
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.planning.scope import out_of_scope
from desched.planning.usage import UsageBook
from desched.policy.policy import Policy, ResourceRule

RESOURCE_ORDER = tuple(Resource)


class Lines(msgspec.Struct, frozen=True, gc=False):
    """The lines of one resource, as shares of capacity."""

    low_ratio: float
    trigger_ratio: float
    stop_ratio: float
    ceiling_ratio: float


class Basis(msgspec.Struct, frozen=True, gc=False):
    """Load over each window as a share of one denominator (in the resource's own unit)."""

    denominator: float
    ratios: tuple[float, ...]


class SourceLoad(msgspec.Struct, frozen=True, gc=False):
    """The load of one resource of a node as a source.

    Memory is watched on two bases, capacity and allocatable; the higher one counts.
    """

    resource: Resource
    lines: Lines
    bases: tuple[Basis, ...]

    def lowest_without(self, removed: Sequence[float]) -> float:
        """The lowest ratio over the windows once this much usage (one value a window) is gone."""
        return min(
            max(basis.ratios[i] - gone / basis.denominator for basis in self.bases)
            for i, gone in enumerate(removed)
        )

    @property
    def nothing(self) -> tuple[float, ...]:
        """No usage, for each window."""
        return (0.0,) * len(self.bases[0].ratios)


class NodeLoadState(msgspec.Struct, frozen=True, gc=False):
    """A node in scope whose load is known."""

    node: Node
    sources: tuple[SourceLoad, ...]
    highest: Mapping[Resource, float]
    verdict: NodeVerdict

    @property
    def excess_ratio(self) -> float:
        """The dominant excess over the stop line among overloaded resources."""
        hot = [p for p in self.verdict.pressures if p.overloaded]
        return max(p.lowest_ratio - p.stop_ratio for p in hot)


class Pressure(msgspec.Struct, frozen=True, gc=False):
    """Every node's class; `known` holds the states of the nodes in scope with trusted load.

    `resting` names nodes that lost a pod less than their shortest window ago.
    """

    known: Mapping[str, NodeLoadState]
    verdicts: tuple[NodeVerdict, ...]
    resting: frozenset[str]

    def of_class(self, node_class: NodeClass) -> list[NodeLoadState]:
        """The known nodes of a class, by name."""
        return [s for s in self.known.values() if s.verdict.node_class is node_class]


def classify(snapshot: Snapshot, policy: Policy, memory: Memory, book: UsageBook) -> Pressure:
    """Class every node by its load."""
    raw: dict[str, tuple[Node, tuple[_Raw, ...]]] = {}
    verdicts: dict[str, NodeVerdict] = {}
    departures = Departures(memory, book)
    for node in snapshot.cluster.nodes:
        excluded = out_of_scope(node, policy, book.now)
        if excluded:
            verdicts[node.name] = NodeVerdict(node.name, NodeClass.OUT_OF_SCOPE, (), *excluded)
            continue
        loads = _measure(node, snapshot, policy, book, departures)
        if isinstance(loads, Unknown):
            verdicts[node.name] = NodeVerdict(
                node.name, NodeClass.UNKNOWN, (), loads.reason, loads.detail
            )
        else:
            raw[node.name] = (node, loads)
    lines = _lines(policy, [loads for _, loads in raw.values()])
    resting = departures.resting(policy.shortest_window_seconds)
    known = {
        name: _state(node, loads, lines, resting=name in resting)
        for name, (node, loads) in sorted(raw.items())
    }
    verdicts |= {name: state.verdict for name, state in known.items()}
    return Pressure(known, tuple(verdicts[name] for name in sorted(verdicts)), resting)


class _Raw(msgspec.Struct, frozen=True, gc=False):
    """One resource of one node before it is held against any line."""

    rule: ResourceRule
    measured: tuple[tuple[int, float], ...]
    bases: tuple[Basis, ...]
    highest: float

    @property
    def lowest(self) -> float:
        windows = range(len(self.bases[0].ratios))
        return min(max(basis.ratios[i] for basis in self.bases) for i in windows)


def _measure(
    node: Node, snapshot: Snapshot, policy: Policy, book: UsageBook, departures: "Departures"
) -> tuple[_Raw, ...] | Unknown:
    pods = snapshot.cluster.pods_by_node.get(node.name, ())
    loads = snapshot.load.nodes.get(node.name, {})
    found: list[_Raw] = []
    for rule in sorted(policy.rules, key=lambda rule: RESOURCE_ORDER.index(rule.resource)):
        resource = rule.resource
        if resource is Resource.PODS:
            if node.allocatable.pods <= 0:
                return Unknown(UnknownReason.ABSENT, "the node allows no pods")
            ratio = len(pods) / node.allocatable.pods
            basis = Basis(float(node.allocatable.pods), (ratio,))
            found.append(_Raw(rule, ((0, ratio),), (basis,), ratio))
            continue
        load = loads.get(resource, Unknown(UnknownReason.ABSENT, f"no {resource.value} load"))
        if isinstance(load, Unknown):
            return load
        bases = _bases(node, resource, load, pods, book)
        if isinstance(bases, Unknown):
            return bases
        found.append(
            _Raw(
                rule,
                tuple((level.window_seconds, level.ratio) for level in load.levels),
                departures.leave(node.name, resource, bases),
                _highest(bases) + _arrived(node, resource, book) / bases[-1].denominator,
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
    # fsum, here and below: the order of the pods must not decide anything.
    of_pods = [used for pod in pods if (used := book.measured(pod, Resource.MEMORY))]
    sums = [math.fsum(by_window) for by_window in zip(*of_pods, strict=True)] or [0.0] * len(ratios)
    allocatable = float(node.allocatable.memory_bytes)
    return (
        Basis(float(node.capacity.memory_bytes), ratios),
        Basis(allocatable, tuple(sums[i] / allocatable for i in range(len(ratios)))),
    )


def _highest(bases: tuple[Basis, ...]) -> float:
    return max(max(basis.ratios) for basis in bases)


def _arrived(node: Node, resource: Resource, book: UsageBook) -> float:
    """Usage of pods that the longest window has not fully seen, times the unseen share."""
    longest = book.windows[resource][-1]
    return math.fsum(
        book.expected(pod, resource) * (1.0 - share)
        for pod in book.young_by_node.get(node.name, ())
        if not pod.deleting and (share := book.seen_share(pod, longest)) < 1.0
    )


def _lines(policy: Policy, nodes: list[tuple[_Raw, ...]]) -> Mapping[Resource, Lines]:
    lines = {}
    for rule in policy.rules:
        low, trigger = rule.low_ratio, rule.trigger_ratio
        stop_margin, ceiling_margin = rule.stop_margin_ratio, rule.ceiling_margin_ratio
        if policy.deviation:
            levels = [raw.lowest for loads in nodes for raw in loads if raw.rule is rule]
            mean = math.fsum(levels) / len(levels) if levels else 0.0
            # Relief must not go below the middle of the band, nor a destination above the mean.
            stop_margin = min(stop_margin, trigger / 2)
            ceiling_margin = min(ceiling_margin, trigger)
            low, trigger = max(0.0, mean - low), min(1.0, mean + trigger)
        lines[rule.resource] = Lines(low, trigger, trigger - stop_margin, trigger - ceiling_margin)
    return lines


def _state(
    node: Node, loads: tuple[_Raw, ...], lines: Mapping[Resource, Lines], *, resting: bool
) -> NodeLoadState:
    pressures = tuple(_pressure(raw, lines[raw.rule.resource]) for raw in loads)
    if any(p.overloaded for p in pressures):
        node_class = NodeClass.OVERLOADED
    elif all(p.highest_ratio <= p.low_ratio for p in pressures):
        node_class = NodeClass.UNDERLOADED
    else:
        node_class = NodeClass.BALANCED
    reason = NodeReason.RESTING if resting and node_class is NodeClass.OVERLOADED else None
    return NodeLoadState(
        node,
        tuple(SourceLoad(raw.rule.resource, lines[raw.rule.resource], raw.bases) for raw in loads),
        {raw.rule.resource: raw.highest for raw in loads},
        NodeVerdict(node.name, node_class, pressures, reason),
    )


def _pressure(raw: _Raw, lines: Lines) -> ResourcePressure:
    lowest = raw.lowest
    return ResourcePressure(
        raw.rule.resource,
        raw.measured,
        lowest,
        raw.highest,
        lines.low_ratio,
        lines.trigger_ratio,
        lines.stop_ratio,
        lines.ceiling_ratio,
        overloaded=lowest > lines.trigger_ratio,
    )


class Departures:
    """Pods that have left a node, or are leaving it, and that its windows still show."""

    def __init__(self, memory: Memory, book: UsageBook) -> None:
        self._book = book
        self._leaving: dict[str, list[Pod]] = {}
        present = set()
        for pod in book.snapshot.cluster.pods:
            if pod.deleting and pod.node:
                self._leaving.setdefault(pod.node, []).append(pod)
                present.add(pod.uid)
        self._gone: dict[str, list[EvictionRecord]] = {}
        self._still_here = {r.node for r in memory.evictions if r.pod.uid in present}
        for record in memory.evictions:
            if record.pod.uid not in present:
                self._gone.setdefault(record.node, []).append(record)

    def leave(self, node: str, resource: Resource, bases: tuple[Basis, ...]) -> tuple[Basis, ...]:
        """The bases without the usage that has left or is leaving."""
        if node not in self._leaving and node not in self._gone:
            return bases
        leaving = [
            used
            for pod in self._leaving.get(node, ())
            if (used := self._book.measured(pod, resource))
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

    def resting(self, shortest_window_seconds: int) -> frozenset[str]:
        """Nodes from which a pod was evicted less than the shortest window ago."""
        return frozenset(self._still_here) | {
            node
            for node, records in self._gone.items()
            if any(self._unseen(record, shortest_window_seconds) > 0 for record in records)
        }

    def _unseen(self, record: EvictionRecord, window_seconds: int) -> float:
        if window_seconds <= 0:
            return 0.0
        since_seconds = (self._book.now - record.left_at).total_seconds()
        return min(1.0, max(0.0, 1.0 - since_seconds / window_seconds))
