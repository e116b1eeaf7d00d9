"""On which nodes a pod fits: the scheduler's hard constraints and room under the ceiling.

Nodes are columns of arrays, in the order of their names. The static part (selectors, affinity,
taints) is computed once for each scheduling class; requests and projected load change with each
reservation.

Still to come, and until then a refusal (`SchedulingClass.unevaluated`): pod affinity, topology
spread, host ports and attach limits.
"""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from desched.model.cluster import (
    ClusterState,
    Effect,
    Node,
    Pod,
    SchedulingClass,
    Taint,
    Toleration,
    VolumeKind,
)
from desched.model.resources import Amounts, Resource
from desched.model.selectors import NodeSelectorTerm
from desched.planning.pressure import NodeLoadState
from desched.planning.usage import UsageBook

Mask = NDArray[np.bool_]

_BASIC = ("cpu", "memory", "ephemeral-storage", "pods")


def _columns(amounts: Amounts) -> tuple[int, int, int, int]:
    return (
        amounts.cpu_millicores,
        amounts.memory_bytes,
        amounts.ephemeral_storage_bytes,
        amounts.pods,
    )


class Fit(msgspec.Struct, frozen=True):
    """Where a pod fits: `requests` by the scheduler's rules, `under_ceiling` also by load.

    `explanation` says, as `kubectl describe` does, what keeps it from the other nodes.
    """

    requests: Mask
    under_ceiling: Mask
    explanation: str


class Room:
    """Free requests and projected load of every node, with what this plan already sends there.

    Load columns hold the highest ratio over the windows; a node that is no destination (out of
    scope, unknown, overloaded, not selected) is never under the ceiling.
    """

    def __init__(
        self,
        cluster: ClusterState,
        destinations: Mapping[str, NodeLoadState],
        ceilings: Mapping[Resource, float],
    ) -> None:
        self._cluster = cluster
        self._nodes = tuple(sorted(cluster.nodes, key=lambda node: node.name))
        self.names = tuple(node.name for node in self._nodes)
        self._index = {name: i for i, name in enumerate(self.names)}
        self._static = StaticFit(self._nodes, cluster)
        self._allocatable, self._free = self._requests()
        self._extended = self._extended_free()
        self._is_destination = np.array([name in destinations for name in self.names], dtype=bool)
        self._ceilings = ceilings
        self._enough: dict[Amounts, Mask] = {}
        self._load = {
            resource: np.array(
                [destinations[n].highest[resource] if n in destinations else 0 for n in self.names],
                dtype=float,
            )
            for resource in ceilings
        }
        self._denominator = {
            resource: np.array([_denominator(node, resource) for node in self._nodes], dtype=float)
            for resource in ceilings
        }

    def _requests(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        allocatable = np.array([_columns(n.allocatable) for n in self._nodes], dtype=np.int64)
        allocatable = allocatable.reshape(len(self._nodes), len(_BASIC)).T.copy()
        by_class: dict[int, tuple[int, int, int, int]] = {}
        positions: list[int] = []
        requested: list[tuple[int, int, int, int]] = []
        for i, name in enumerate(self.names):
            for pod in self._cluster.pods_by_node.get(name, ()):
                key = id(pod.scheduling)
                columns = by_class.get(key)
                if columns is None:
                    columns = by_class[key] = _columns(pod.scheduling.requests)
                positions.append(i)
                requested.append(columns)
        free = allocatable.copy()
        if positions:
            taken = np.array(requested, dtype=np.int64)
            where = np.array(positions, dtype=np.intp)
            for row in range(len(_BASIC)):
                np.subtract.at(free[row], where, taken[:, row])
        return allocatable, free

    def _extended_free(self) -> dict[str, NDArray[np.int64]]:
        free: dict[str, NDArray[np.int64]] = {}
        for i, node in enumerate(self._nodes):
            for name, count in node.allocatable.extended:
                column = free.setdefault(name, np.zeros(len(self._nodes), dtype=np.int64))
                column[i] += count
        for i, node_name in enumerate(self.names):
            for pod in self._cluster.pods_by_node.get(node_name, ()):
                for name, count in pod.scheduling.requests.extended:
                    if name in free:
                        free[name][i] -= count
        return free

    def copy(self) -> "Room":
        """A trial that can be thrown away; static parts are shared."""
        trial = object.__new__(Room)
        trial.__dict__.update(self.__dict__)
        trial._free = self._free.copy()
        trial._enough = dict(self._enough)
        trial._extended = {name: column.copy() for name, column in self._extended.items()}
        trial._load = {resource: column.copy() for resource, column in self._load.items()}
        return trial

    def schedulable(self, pod: Pod) -> Mask:
        """Nodes that the scheduler's filters let the pod onto, by requests and constraints."""
        return self._static.mask(pod) & self._has_free(pod.scheduling.requests)

    def fit(self, pod: Pod, source: str, usage: Mapping[Resource, float]) -> Fit:
        """Where the pod could live instead.

        Args:
            pod: the pod that would move.
            source: the node that it is on; never a place.
            usage: its usage for each watched resource, in the resource's own unit.
        """
        static = self._static.mask(pod)
        requests = static & self._has_free(pod.scheduling.requests)
        requests[self._index[source]] = False
        under = requests & self._is_destination
        for resource, ceiling in self._ceilings.items():
            if not under.any():
                break
            after = self._load[resource] + usage[resource] / self._denominator[resource]
            under &= after <= ceiling
        explanation = "" if under.any() else self._explain(static, requests, source)
        return Fit(requests, under, explanation)

    def reserve(self, node: str, requests: Amounts, usage: Mapping[Resource, float]) -> None:
        """Count a pod as being on the node from now on."""
        i = self._index[node]
        self._enough.clear()
        for row, amount in enumerate(_columns(requests)):
            self._free[row][i] -= amount
        for name, count in requests.extended:
            if name in self._extended:
                self._extended[name][i] -= count
        for resource, column in self._load.items():
            column[i] += usage[resource] / self._denominator[resource][i]

    def load_ratio(self, node: str, resource: Resource) -> float:
        """The projected highest load of a destination."""
        return float(self._load[resource][self._index[node]])

    def requested_share(self, requests: Amounts) -> NDArray[np.float64]:
        """For each node the mean share of CPU and memory requested once the pod is there."""
        used = self._allocatable[:2] - self._free[:2]
        asked = np.array([[requests.cpu_millicores], [requests.memory_bytes]], dtype=np.int64)
        allocatable = np.maximum(self._allocatable[:2], 1)
        share: NDArray[np.float64] = ((used + asked) / allocatable).mean(axis=0)
        return share

    def _has_free(self, requests: Amounts) -> Mask:
        """Nodes with so much left; not to be changed, for it is kept until the next reservation."""
        if requests not in self._enough:
            self._enough[requests] = self._compare(requests)
        return self._enough[requests]

    def _compare(self, requests: Amounts) -> Mask:
        free: Mask = np.ones(len(self.names), dtype=bool)
        for row, amount in enumerate(_columns(requests)):
            if amount:
                free &= self._free[row] >= amount
        for name, count in requests.extended:
            if name not in self._extended:
                return np.zeros(len(self.names), dtype=bool)
            free &= self._extended[name] >= count
        return free

    def _explain(self, static: Mask, requests: Mask, source: str) -> str:
        total, on_source = len(self.names), int(static[self._index[source]])
        matching, fitting = int(static.sum()) - on_source, int(requests.sum())
        destinations = int((requests & self._is_destination).sum())
        counts = (
            (total - 1 - int(static.sum()) + on_source, "do not match selector, taints or volumes"),
            (matching - fitting, "lack requested resources"),
            (fitting - destinations, "are no destination"),
            (destinations, "would rise above their ceiling"),
        )
        found = ", ".join(f"{count} {what}" for count, what in counts if count)
        return f"0/{total - 1} other nodes: {found}"


class StaticFit:
    """Selectors, affinity, taints and volumes: what reservations do not change."""

    def __init__(self, nodes: Sequence[Node], cluster: ClusterState) -> None:
        self._nodes = nodes
        self._cluster = cluster
        self._by_class: dict[tuple[object, ...], Mask] = {}
        self._by_taints: dict[tuple[Taint, ...], list[int]] = {}
        for i, node in enumerate(nodes):
            hard = tuple(t for t in node.taints if t.effect != Effect.PREFER_NO_SCHEDULE)
            self._by_taints.setdefault(hard, []).append(i)
        self._open = np.array(
            [n.ready and not n.unschedulable and not n.deleting for n in nodes], dtype=bool
        )

    def mask(self, pod: Pod) -> Mask:
        """Nodes whose labels, taints and volumes the pod accepts."""
        scheduling = pod.scheduling
        volumes = self._volume_terms(pod)
        key = (
            scheduling.node_selector,
            scheduling.required_node_affinity,
            scheduling.tolerations,
            volumes,
        )
        found = self._by_class.get(key)
        if found is None:
            found = self._by_class[key] = self._compute(scheduling, volumes)
        return found

    def _compute(
        self,
        scheduling: SchedulingClass,
        volumes: tuple[tuple[NodeSelectorTerm, ...] | None, ...],
    ) -> Mask:
        mask: Mask = self._open & self._tolerated(scheduling.tolerations)
        for key, value in scheduling.node_selector:
            mask &= np.array([node.labels.get(key) == value for node in self._nodes], dtype=bool)
        for terms in (scheduling.required_node_affinity, *volumes):
            if terms is not None:
                mask &= np.array([_matches_any(terms, node) for node in self._nodes], dtype=bool)
        return mask

    def _tolerated(self, tolerations: tuple[Toleration, ...]) -> Mask:
        mask = np.zeros(len(self._nodes), dtype=bool)
        for taints, positions in self._by_taints.items():
            if all(any(t.tolerates(taint) for t in tolerations) for taint in taints):
                mask[positions] = True
        return mask

    def _volume_terms(self, pod: Pod) -> tuple[tuple[NodeSelectorTerm, ...] | None, ...]:
        """The node affinity of each bound volume; an unknown one fits nowhere (empty terms)."""
        terms: list[tuple[NodeSelectorTerm, ...] | None] = []
        for volume in pod.volumes:
            if volume.kind not in {VolumeKind.CLAIM, VolumeKind.EPHEMERAL_CLAIM}:
                continue
            claim = self._cluster.claims.get((pod.namespace, volume.claim))
            bound = self._cluster.volumes.get(claim.volume) if claim else None
            terms.append(bound.node_affinity if bound else ())
        return tuple(terms)


def usage_of(pod: Pod, book: UsageBook) -> dict[Resource, float]:
    """What a pod is charged at a destination: its highest usage over the windows."""
    return {
        rule.resource: max(book.measured(pod, rule.resource), default=0.0)
        for rule in book.policy.rules
    }


def _matches_any(terms: tuple[NodeSelectorTerm, ...], node: Node) -> bool:
    return any(term.matches(node.name, node.labels) for term in terms)


def _denominator(node: Node, resource: Resource) -> float:
    """What a usage is divided by at a destination; the smaller base, so that it counts more."""
    amounts = {
        Resource.CPU: node.capacity.cpu_millicores,
        Resource.MEMORY: node.allocatable.memory_bytes,
        Resource.PODS: node.allocatable.pods,
    }
    return float(max(amounts[resource], 1))
