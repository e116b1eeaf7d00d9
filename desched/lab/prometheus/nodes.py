"""The nodes of the past: their sizes, labels, and when they were Ready, cordoned or tainted."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from desched.lab.prometheus.block import Block, Labels
from desched.lab.prometheus.pods import amounts_of, label
from desched.lab.recorded_past import NodeChange, PastNode
from desched.model.cluster import STEERING_TAINT, Effect, Node, Taint

HOSTNAME = "kubernetes.io/hostname"
WELL_KNOWN_LABELS = (
    HOSTNAME,
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "eks.amazonaws.com/compute-type",
    "type",
)

GONE_AFTER_STEPS = 2
"""A node that is not seen for longer, while others are, has left."""

State = tuple[bool, bool, tuple[Taint, ...]]
"""Ready, cordoned, and the taints."""


@dataclass
class SeenNode:
    """What is recorded of a node; the changes are by Unix seconds."""

    capacity: dict[str, float] = field(default_factory=dict)
    allocatable: dict[str, float] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    address: str = ""
    os_image: str = ""
    created: float | None = None
    ready: dict[float, bool] = field(default_factory=dict)
    cordoned: dict[float, bool] = field(default_factory=dict)
    taints: dict[float, set[Taint]] = field(default_factory=dict)


class SeenNodes:
    """All nodes by name; `keys` are the label keys that the policies read."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._keys = {sanitized(key): key for key in (*WELL_KNOWN_LABELS, *keys)}
        self.found: dict[str, SeenNode] = {}

    def add_amounts(self, blocks: Iterable[Block], *, allocatable: bool = False) -> None:
        """Record what nodes have, of which the newest counts."""
        for node, labels, amount in self._newest(blocks):
            amounts = node.allocatable if allocatable else node.capacity
            amounts[labels.get("resource", "")] = amount

    def add_info(self, blocks: Iterable[Block]) -> None:
        """Record addresses and operating systems."""
        for node, labels, _ in self._newest(blocks):
            node.address = labels.get("internal_ip", "")
            node.os_image = labels.get("os_image", "")

    def add_created(self, blocks: Iterable[Block]) -> None:
        """Record when nodes were created."""
        for node, _, at in self._newest(blocks):
            node.created = at

    def add_labels(self, blocks: Iterable[Block]) -> None:
        """Record the labels whose keys are known; kube-state-metrics shows keys in another form."""
        for node, labels, _ in self._newest(blocks):
            for name, value in labels.items():
                if key := self._keys.get(name):
                    node.labels[key] = value

    def add_ready(self, blocks: Iterable[Block]) -> None:
        """Record when nodes were Ready; this also shows when they were there."""
        for node, _, at, value in self._points(blocks):
            node.ready[at] = value > 0

    def add_cordoned(self, blocks: Iterable[Block]) -> None:
        """Record when nodes were cordoned."""
        for node, _, at, value in self._points(blocks):
            node.cordoned[at] = value > 0

    def add_taints(self, blocks: Iterable[Block]) -> None:
        """Record when nodes had which taints; desched's own taint is that of another run."""
        for node, labels, at, _ in self._points(blocks):
            taint = _taint(labels)
            if taint is not None:
                node.taints.setdefault(at, set()).add(taint)

    def _newest(self, blocks: Iterable[Block]) -> Iterator[tuple[SeenNode, Labels, float]]:
        for block in blocks:
            for labels, value in zip(block.labels, block.newest.tolist(), strict=True):
                yield self._node(labels), labels, value

    def _points(self, blocks: Iterable[Block]) -> Iterator[tuple[SeenNode, Labels, float, float]]:
        for block in blocks:
            begin, step = block.grid.begin, block.grid.step_seconds
            for labels, first, values in block.rows():
                node = self._node(labels)
                for i, value in enumerate(values.tolist(), start=first):
                    if not math.isnan(value):
                        yield node, labels, float(begin + i * step), value

    def _node(self, labels: Labels) -> SeenNode:
        return self.found.setdefault(label(labels, "node"), SeenNode())

    def past_nodes(self, begin: float, step_seconds: int) -> Iterator[PastNode]:
        """The nodes with a known size since a time, by name."""
        newest = max((max(node.ready) for node in self.found.values() if node.ready), default=0.0)
        for name, seen in sorted(self.found.items()):
            capacity = amounts_of(seen.capacity)
            if name and capacity.cpu_millicores and capacity.memory_bytes:
                times = sorted(seen.ready) or [begin + step_seconds]
                # The whole of kube-state-metrics may have been away at the end.
                ended = bool(seen.ready) and times[-1] + GONE_AFTER_STEPS * step_seconds < newest
                node = _node(name, seen, times, step_seconds)
                began = times[0] - step_seconds  # a value is that at the end of its step
                changes = [
                    NodeChange(_time(at - step_seconds), *state)
                    for at, state in _changes(seen, times[1:], _state(seen, times[0]))
                ]
                yield PastNode(
                    node,
                    _time(max(began, begin)),
                    _time(times[-1]) if ended else None,
                    tuple(changes),
                )


def sanitized(key: str) -> str:
    """A label key as kube-state-metrics writes it."""
    return "label_" + re.sub(r"[^a-zA-Z0-9_]", "_", key)


def _node(name: str, seen: SeenNode, times: list[float], step_seconds: int) -> Node:
    ready, unschedulable, taints = _state(seen, times[0])
    return Node(
        name=name,
        uid=name,
        created_at=_time(min(seen.created or math.inf, times[0] - step_seconds)),
        labels={HOSTNAME: name, "kubernetes.io/os": "linux", **seen.labels},
        capacity=amounts_of(seen.capacity),
        allocatable=amounts_of({**seen.capacity, **seen.allocatable}),
        ready=ready,
        unschedulable=unschedulable,
        taints=taints,
        addresses=(seen.address,) if seen.address else (),
        operating_system="windows" if seen.os_image.startswith("Windows") else "linux",
    )


def _state(seen: SeenNode, at: float) -> State:
    taints = sorted(seen.taints.get(at, ()), key=lambda t: (t.key, t.effect, t.value))
    return seen.ready.get(at, True), seen.cordoned.get(at, False), tuple(taints)


def _changes(seen: SeenNode, times: list[float], before: State) -> Iterator[tuple[float, State]]:
    for at in times:
        state = _state(seen, at)
        if state != before:
            yield at, state
        before = state


def _taint(labels: Mapping[str, str]) -> Taint | None:
    key, effect = labels.get("key", ""), labels.get("effect", "")
    if effect not in set(Effect) or (key, effect) == (STEERING_TAINT.key, STEERING_TAINT.effect):
        return None
    return Taint(key, Effect(effect), labels.get("value", ""))


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
