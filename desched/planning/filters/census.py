"""Which pods are where: by namespace and label, with what a plan adds and takes away."""

from collections.abc import Iterable, Iterator
from functools import cached_property

import msgspec
import numpy as np

from desched.model.cluster import ClusterState, Pod
from desched.model.selectors import LabelSelector, Operator
from desched.planning.filters.columns import Counts, Domains, Mask, NodeColumns, Positions

Resident = tuple[Pod, int]
"""A pod that holds resources, and the position of its node."""


class PodMatch(msgspec.Struct, frozen=True, gc=False):
    """Pods of these namespaces (None: of all of them) that the selector selects."""

    namespaces: frozenset[str] | None
    selector: LabelSelector

    def matches(self, pod: Pod) -> bool:
        """Whether the pod is one of them."""
        if self.namespaces is not None and pod.namespace not in self.namespaces:
            return False
        return self.selector.matches(pod.labels)


class Change(msgspec.Struct, frozen=True, gc=False):
    """A pod that a plan puts on a node (sign 1) or takes off it (-1)."""

    pod: Pod
    position: int
    sign: int


class PodIndex:
    """The pods of a cluster as it was seen; each part is built when it is first asked for."""

    def __init__(self, cluster: ClusterState, columns: NodeColumns) -> None:
        self._cluster = cluster
        self._columns = columns
        self._labelled: dict[tuple[str, str], dict[str, list[Resident]]] = {}
        self._found: dict[tuple[tuple[PodMatch, ...], bool], Positions] = {}

    @cached_property
    def residents(self) -> tuple[Resident, ...]:
        """All pods on known nodes, node by node."""
        by_node = self._cluster.pods_by_node
        return tuple(
            (pod, i) for i, name in enumerate(self._columns.names) for pod in by_node.get(name, ())
        )

    @cached_property
    def _by_namespace(self) -> dict[str, list[Resident]]:
        found: dict[str, list[Resident]] = {}
        for resident in self.residents:
            found.setdefault(resident[0].namespace, []).append(resident)
        return found

    def positions(self, wanted: tuple[PodMatch, ...], *, terminating: bool) -> Positions:
        """The nodes of the pods that every one of `wanted` matches, one element for each pod."""
        key = (wanted, terminating)
        found = self._found.get(key)
        if found is None:
            matching = [
                i
                for pod, i in self._candidates(wanted[0])
                if (terminating or not pod.deleting) and all(w.matches(pod) for w in wanted)
            ]
            found = self._found[key] = np.array(matching, dtype=np.intp)
        return found

    def _candidates(self, wanted: PodMatch) -> Iterator[Resident]:
        """Few pods among which all that match are."""
        names = self._by_namespace.keys() if wanted.namespaces is None else wanted.namespaces
        narrow = next((r for r in wanted.selector.requirements if r.operator is Operator.IN), None)
        for namespace in names:
            if narrow is None:
                yield from self._by_namespace.get(namespace, ())
            else:
                by_value = self._with_label(namespace, narrow.key)
                for value in set(narrow.values):
                    yield from by_value.get(value, ())

    def _with_label(self, namespace: str, key: str) -> dict[str, list[Resident]]:
        found = self._labelled.get((namespace, key))
        if found is None:
            found = self._labelled[namespace, key] = {}
            for resident in self._by_namespace.get(namespace, ()):
                value = resident[0].labels.get(key)
                if value is not None:
                    found.setdefault(value, []).append(resident)
        return found


class Census:
    """The pods as a plan leaves them so far: the index, which copies share, and the changes."""

    def __init__(self, index: PodIndex) -> None:
        self._index = index
        self._by_namespace: dict[str, tuple[Change, ...]] = {}
        self.changes: tuple[Change, ...] = ()

    def copy(self) -> "Census":
        """A census that changes alone."""
        copied = Census(self._index)
        copied._by_namespace = dict(self._by_namespace)
        copied.changes = self.changes
        return copied

    def change(self, pod: Pod, position: int, sign: int) -> None:
        """Count the pod as being on the node from now on (1), or no more (-1)."""
        change = Change(pod, position, sign)
        self.changes = (*self.changes, change)
        self._by_namespace[pod.namespace] = (*self._by_namespace.get(pod.namespace, ()), change)

    def without(self, pod: Pod, position: int) -> "Census":
        """The census once the pod has left its node."""
        copied = self.copy()
        copied.change(pod, position, -1)
        return copied

    def with_deleting(self, pod: Pod, position: int) -> "Census":
        """The census while the pod is being deleted and still on its node."""
        copied = self.without(pod, position)
        copied.change(msgspec.structs.replace(pod, deleting=True), position, 1)
        return copied

    def tally(
        self,
        wanted: tuple[PodMatch, ...],
        domains: Domains,
        *,
        among: Mask | None = None,
        terminating: bool = True,
    ) -> Counts:
        """How many pods that all of `wanted` match are in each domain.

        Args:
            wanted: what the pods have to match.
            domains: the domains to count by.
            among: only pods on these nodes; None is all nodes.
            terminating: whether pods that are being deleted count.
        """
        positions = self._index.positions(wanted, terminating=terminating)
        if among is not None:
            positions = positions[among[positions]]
        counts = domains.tally(positions)
        for change in self._about(wanted[0].namespaces):
            domain = domains.of[change.position]
            if domain < 0 or not (among is None or among[change.position]):
                continue
            if (terminating or not change.pod.deleting) and all(
                w.matches(change.pod) for w in wanted
            ):
                counts[domain] += change.sign
        return counts

    def _about(self, namespaces: frozenset[str] | None) -> Iterable[Change]:
        if namespaces is None or not self.changes:
            return self.changes
        return (c for name in namespaces for c in self._by_namespace.get(name, ()))
