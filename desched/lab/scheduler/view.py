"""A cluster as arrays for the simulated scheduler: how many pods of each kind are on each node.

All arrays over nodes are in the order of the nodes' names.
"""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from desched.model.cluster import ClusterState, Effect, Node, Pod, Taint
from desched.model.resources import basic
from desched.model.selectors import NodeSelectorTerm

CORDON = Taint("node.kubernetes.io/unschedulable", Effect.NO_SCHEDULE)

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]

BEST = 100
"""The highest score of a plugin."""


class ClusterView:
    """One state of the cluster, for any number of decisions.

    Pods with the same namespace, labels and scheduling class are of one kind; `kinds` has a pod of
    each kind.
    """

    def __init__(self, cluster: ClusterState) -> None:
        self.cluster = cluster
        self.nodes = sorted(cluster.nodes, key=lambda node: node.name)
        self.index = {node.name: i for i, node in enumerate(self.nodes)}
        self._domains: dict[str, Integers] = {}
        # Pods of one template share these objects, and identity is compared faster than equality.
        kinds: dict[tuple[str, int, int], int] = {}
        self.kinds: list[Pod] = []
        places, staying = [], []
        for pod in cluster.pods:
            node = self.index.get(pod.node)
            if node is None or pod.finished:
                continue
            key = (pod.namespace, id(pod.labels), id(pod.scheduling))
            kind = kinds.get(key)
            if kind is None:
                kind = kinds[key] = len(kinds)
                self.kinds.append(pod)
            places.append((kind, node))
            staying.append(not pod.deleting)
        self._kind_of, self._node_of = np.array(places, dtype=np.int64).reshape(-1, 2).T
        self._stays = np.array(staying, dtype=bool)

    def total(self, of_kinds: Integers) -> Integers:
        """The sum over the pods on each node of amounts that each kind has."""
        totals = np.zeros((len(self.nodes), *of_kinds.shape[1:]), dtype=np.int64)
        np.add.at(totals, self._node_of, of_kinds[self._kind_of])
        return totals

    def staying(self, kinds: Mask) -> Integers:
        """The number of pods of these kinds on each node that do not terminate."""
        counted = self._stays & kinds[self._kind_of]
        return np.bincount(self._node_of[counted], minlength=len(self.nodes))

    @cached_property
    def placed(self) -> Integers:
        """The number of pods, kind x node."""
        counts = np.zeros((len(self.kinds), len(self.nodes)), dtype=np.int64)
        np.add.at(counts, (self._kind_of, self._node_of), 1)
        return counts

    def where(self, allows: Callable[[Node], bool]) -> Mask:
        """The nodes for which the predicate holds."""
        return np.array([allows(node) for node in self.nodes], dtype=bool)

    def matching(self, terms: Sequence[NodeSelectorTerm]) -> Mask:
        """The nodes that match one of the terms."""
        return self.where(lambda node: any(t.matches(node.name, node.labels) for t in terms))

    @cached_property
    def everywhere(self) -> Mask:
        """All nodes."""
        return np.ones(len(self.nodes), dtype=bool)

    @cached_property
    def ready(self) -> Mask:
        """Nodes that are Ready."""
        return self.where(lambda node: node.ready)

    @cached_property
    def taints(self) -> list[tuple[int, Taint]]:
        """All taints with the position of their node, including those of cordons."""
        cordons = [(i, CORDON) for i, node in enumerate(self.nodes) if node.unschedulable]
        return [(i, taint) for i, node in enumerate(self.nodes) for taint in node.taints] + cordons

    @cached_property
    def attracting(self) -> list[tuple[Pod, Integers]]:
        """The kinds of pods with affinity terms, and their number on each node."""
        return [
            (pod, self.placed[kind])
            for kind, pod in enumerate(self.kinds)
            if pod.scheduling.pod_affinity
            or pod.scheduling.pod_anti_affinity
            or pod.scheduling.preferred_pod_affinity
        ]

    @cached_property
    def allocatable(self) -> Integers:
        """The allocatable amounts of each node, as in `counted`."""
        rows = [basic(node.allocatable) for node in self.nodes]
        return np.array(rows, dtype=np.int64).reshape(-1, 4)

    @cached_property
    def requested(self) -> Integers:
        """The sum of requests on each node, as in `counted`."""
        rows = [basic(pod.scheduling.requests) for pod in self.kinds]
        return self.total(np.array(rows, dtype=np.int64).reshape(-1, 4))

    @cached_property
    def scored(self) -> Integers:
        """The sum of CPU and memory requests on each node, with defaults for pods without."""
        constraints_of = [pod.scheduling for pod in self.kinds]
        rows = [
            (scheduling.scored_cpu_millicores, scheduling.scored_memory_bytes)
            for scheduling in constraints_of
        ]
        return self.total(np.array(rows, dtype=np.int64).reshape(-1, 2))

    def domain(self, key: str) -> Integers:
        """A number for each value of a node label, -1 for nodes without the label."""
        if key not in self._domains:
            numbers: dict[str | None, int] = {None: -1}
            values = [node.labels.get(key) for node in self.nodes]
            numbers_of = [numbers.setdefault(value, len(numbers) - 1) for value in values]
            self._domains[key] = np.array(numbers_of, dtype=np.int64)
        return self._domains[key]

    def in_domain(self, key: str, amount: Integers) -> Integers:
        """The sum of an amount over the nodes with the same label value, 0 without the label."""
        domain = self.domain(key)
        totals = np.zeros(len(domain) + 1, dtype=np.int64)
        np.add.at(totals, domain, amount)
        totals[-1] = 0  # the element of nodes without the label
        return totals[domain]
