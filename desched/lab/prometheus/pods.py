"""The pods of the past: when each was seen on which node, what it requested, and who owned it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from desched.lab.prometheus.block import Block, Labels
from desched.model.cluster import (
    SYSTEM_CRITICAL_PRIORITY,
    Owner,
    SchedulingClass,
    Toleration,
    Workload,
)
from desched.model.resources import Amounts

_NO_OWNER = frozenset({"", "<none>"})
_SYSTEM_CLASSES = {
    "system-cluster-critical": SYSTEM_CRITICAL_PRIORITY,
    "system-node-critical": SYSTEM_CRITICAL_PRIORITY + 1_000,
}
_SIZED_KINDS = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"})

_SCORED_CPU_MILLICORES = 100
_SCORED_MEMORY_BYTES = 200 * 1024**2
"""What kube-scheduler assumes of a container without requests; a pod is taken to have one."""

Name = tuple[str, str, str]
"""Namespace, name and uid of a pod; the uid is empty where a metric lacks it."""


def label(labels: Labels, name: str) -> str:
    """The label as kube-state-metrics sent it; Prometheus may have renamed it."""
    return labels.get(f"exported_{name}") or labels.get(name, "")


def name_of(labels: Labels) -> Name:
    """The pod that a series is about."""
    return label(labels, "namespace"), label(labels, "pod"), labels.get("uid", "")


@dataclass
class SeenPod:
    """A pod on its node; times are Unix seconds."""

    name: Name
    node: str
    owner_kind: str
    owner_name: str
    priority_class: str
    first_seen: float
    last_seen: float
    finished: float | None = None
    created: float | None = None
    requests: dict[str, float] = field(default_factory=dict)

    @property
    def owner(self) -> Owner | None:
        """The controller reference; the uid is made of the name, which is all that is recorded."""
        if self.owner_kind in _NO_OWNER:
            return None
        version = "v1" if self.owner_kind in {"Node", "ReplicationController"} else "apps/v1"
        uid = f"{self.name[0]}/{self.owner_kind}/{self.owner_name}"
        return Owner(self.owner_kind, self.owner_name, uid, version)

    @property
    def priority(self) -> int:
        """The priority, 0 unless the class is one of Kubernetes' own."""
        return _SYSTEM_CLASSES.get(self.priority_class, 0)

    @property
    def has_unknown_priority(self) -> bool:
        """Whether the value of its PriorityClass is not recorded."""
        return bool(self.priority_class) and self.priority_class not in _SYSTEM_CLASSES


def seen_pods(first: Iterable[Block], last: Iterable[Block]) -> dict[tuple[Name, str], SeenPod]:
    """The pods by name and node, from when they were first and last seen within each step."""
    found: dict[tuple[Name, str], SeenPod] = {}
    for labels, seen in _lowest(first):
        name, node = name_of(labels), label(labels, "node")
        pod = found.get((name, node))
        if pod is None:
            owner = labels.get("created_by_kind", ""), labels.get("created_by_name", "")
            priority_class = labels.get("priority_class", "")
            found[name, node] = SeenPod(name, node, *owner, priority_class, seen, seen)
        else:
            pod.first_seen = min(pod.first_seen, seen)
    for block in last:
        for labels, seen in zip(block.labels, block.highest.tolist(), strict=True):
            if pod := found.get((name_of(labels), label(labels, "node"))):
                pod.last_seen = max(pod.last_seen, seen)
    return found


def _lowest(blocks: Iterable[Block]) -> Iterator[tuple[Labels, float]]:
    for block in blocks:
        yield from zip(block.labels, block.lowest.tolist(), strict=True)


class ByName:
    """Pods by name; a metric without the uid is about all pods of the name."""

    def __init__(self, pods: Iterable[SeenPod]) -> None:
        self._exact: dict[Name, list[SeenPod]] = {}
        self._loose: dict[tuple[str, str], list[SeenPod]] = {}
        for pod in pods:
            self._exact.setdefault(pod.name, []).append(pod)
            self._loose.setdefault(pod.name[:2], []).append(pod)

    def of(self, labels: Labels) -> Sequence[SeenPod]:
        """The pods that a series is about."""
        name = name_of(labels)
        return self._exact.get(name, ()) if name[2] else self._loose.get(name[:2], ())


def add_finished(pods: ByName, blocks: Iterable[Block]) -> None:
    """Record when pods ended that still exist."""
    for labels, at in _lowest(blocks):
        for pod in pods.of(labels):
            pod.finished = at if pod.finished is None else min(at, pod.finished)


def add_created(pods: ByName, blocks: Iterable[Block]) -> None:
    """Record when pods were created."""
    for block in blocks:
        for labels, at in zip(block.labels, block.newest.tolist(), strict=True):
            for pod in pods.of(labels):
                pod.created = at


def add_requests(pods: ByName, blocks: Iterable[Block]) -> None:
    """Record the requests of pods, of which the newest count."""
    for block in blocks:
        for labels, amount in zip(block.labels, block.newest.tolist(), strict=True):
            for pod in pods.of(labels):
                pod.requests[labels.get("resource", "")] = amount


def amounts_of(recorded: Mapping[str, float], *, pods: int = 0) -> Amounts:
    """The amounts by the names that kube-state-metrics gives resources."""
    others = {"cpu", "memory", "ephemeral_storage", "pods"}
    extended = {name: round(x) for name, x in recorded.items() if name not in others and x >= 1}
    return Amounts(
        cpu_millicores=round(recorded.get("cpu", 0.0) * 1000),
        memory_bytes=round(recorded.get("memory", 0.0)),
        ephemeral_storage_bytes=round(recorded.get("ephemeral_storage", 0.0)),
        pods=pods or round(recorded.get("pods", 0.0)),
        extended=tuple(sorted(extended.items())),
    )


class Workloads:
    """The workloads of controllers.

    `declared_kinds` are further kinds whose pods the policies allow to move; how many replicas they
    need is not known.
    """

    def __init__(self, replica_sets: Iterable[Block], declared_kinds: Iterable[str]) -> None:
        self._declared = {declared_kind.rpartition("/")[2] for declared_kind in declared_kinds}
        self._owners: dict[tuple[str, str], tuple[str, str]] = {}
        for block in replica_sets:
            for labels in block.labels:
                owner = labels.get("owner_kind", ""), labels.get("owner_name", "")
                key = label(labels, "namespace"), labels.get("replicaset", "")
                if owner[0] not in _NO_OWNER:
                    self._owners[key] = owner

    def of(self, pod: SeenPod) -> Workload | None:
        """The workload of a pod, None without one that is understood."""
        kind, name = pod.owner_kind, pod.owner_name
        namespace = pod.name[0]
        if kind == "ReplicaSet":
            kind, name = self._owners.get((namespace, name), (kind, name))
        uid = f"{namespace}/{kind}/{name}"
        if kind in _SIZED_KINDS:
            return Workload(kind, namespace, name, uid, 0)
        if kind == "Job":  # whether its policy ignores evictions is not recorded
            return Workload(kind, namespace, name, uid, 0, survives_disruption=False)
        if kind in self._declared:
            return Workload(kind, namespace, name, uid, 0, sized=False)
        return None


class Classes:
    """Scheduling classes, one for all pods of a controller with the same requests."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, Amounts, tuple[Toleration, ...]], SchedulingClass] = {}

    def of(self, pod: SeenPod, tolerations: tuple[Toleration, ...]) -> SchedulingClass:
        """The class of a pod."""
        requests = amounts_of(pod.requests, pods=1)
        owner = pod.owner.uid if pod.owner else "/".join(pod.name)
        key = owner, requests, tolerations
        if key not in self._found:
            self._found[key] = SchedulingClass(
                requests,
                tolerations=tolerations,
                scored_cpu_millicores=requests.cpu_millicores or _SCORED_CPU_MILLICORES,
                scored_memory_bytes=requests.memory_bytes or _SCORED_MEMORY_BYTES,
            )
        return self._found[key]
