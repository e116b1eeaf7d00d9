"""Which pods are where: by namespace and label, with what a plan adds and takes away."""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from itertools import chain

import msgspec
import numpy as np

from desched.model.cluster import ClusterState, Pod, PodAffinityTerm, SchedulingClass
from desched.model.resources import Amounts
from desched.model.selectors import LabelSelector
from desched.planning.arrays import Ints, Mask, Positions
from desched.planning.kube_scheduler.label_index import Label, LabelIndex, asked_for
from desched.planning.kube_scheduler.node_arrays import Domains, NodeArrays

Labels = Mapping[str, str]

Resident = tuple[Pod, int]
"""A pod that holds resources, and the position of its node."""

Group = tuple[Labels, list[Resident]]
"""Pods of a namespace that share one labels object, as those of a workload mostly do."""


class PodMatch(msgspec.Struct, frozen=True, gc=False):
    """Pods of these namespaces (None: of all of them) that the selector selects."""

    namespaces: frozenset[str] | None
    selector: LabelSelector

    def matches(self, pod: Pod) -> bool:
        """Whether the pod is one of them."""
        return self.selects(pod.namespace, pod.labels)

    def selects(self, namespace: str, labels: Labels) -> bool:
        """Whether a pod of this namespace with these labels would be one of them."""
        if self.namespaces is not None and namespace not in self.namespaces:
            return False
        return self.selector.matches(labels)


class Change(msgspec.Struct, frozen=True, gc=False):
    """A pod that a plan puts on a node (sign 1) or takes off it (-1)."""

    pod: Pod
    position: int
    sign: int


class PodIndex:
    """The pods of a cluster as it was seen; each part is built when it is first asked for."""

    def __init__(self, cluster: ClusterState, arrays: NodeArrays) -> None:
        self._cluster = cluster
        self.arrays = arrays
        self._found: dict[tuple[tuple[PodMatch, ...], bool], Positions] = {}

    @cached_property
    def residents(self) -> tuple[Resident, ...]:
        """All pods on known nodes, node by node."""
        by_node = self._cluster.pods_by_node
        return tuple(
            (pod, i) for i, name in enumerate(self.arrays.names) for pod in by_node.get(name, ())
        )

    def totals(self, amounts: Callable[[SchedulingClass], tuple[int, ...]]) -> Ints:
        """Sums over the pods of each node, shape (nodes, amounts); asked once for each class."""
        classes, kinds, positions = self._kinds
        width = len(amounts(SchedulingClass(Amounts())))
        table = np.array([amounts(c) for c in classes], dtype=np.int64).reshape(-1, width)
        found = np.zeros((len(self.arrays), width), dtype=np.int64)
        if len(kinds):
            np.add.at(found, positions, table[kinds])
        return found

    def residents_of(self, wanted: Callable[[SchedulingClass], object]) -> Iterable[Resident]:
        """The pods of the scheduling classes that are wanted; each class is asked about once."""
        classes, kinds, _ = self._kinds
        numbers = [n for n, scheduling in enumerate(classes) if wanted(scheduling)]
        if not numbers:
            return ()
        return [self.residents[i] for i in np.flatnonzero(np.isin(kinds, numbers))]

    @cached_property
    def _kinds(self) -> tuple[list[SchedulingClass], Positions, Positions]:
        """The scheduling classes, and for each pod which one it is of and where it is."""
        numbers: dict[int, int] = {}
        classes: list[SchedulingClass] = []
        kinds, positions = [], []
        for pod, i in self.residents:
            scheduling = pod.scheduling
            number = numbers.get(id(scheduling))
            if number is None:
                number = numbers[id(scheduling)] = len(classes)
                classes.append(scheduling)
            kinds.append(number)
            positions.append(i)
        return classes, np.array(kinds, dtype=np.intp), np.array(positions, dtype=np.intp)

    @cached_property
    def _alike(self) -> Mapping[str, list[Group]]:
        """By namespace."""
        found: dict[str, list[Group]] = {}
        groups: dict[tuple[str, int], list[Resident]] = {}
        for resident in self.residents:
            pod = resident[0]
            key = pod.namespace, id(pod.labels)
            group = groups.get(key)
            if group is None:
                group = groups[key] = []
                found.setdefault(pod.namespace, []).append((pod.labels, group))
            group.append(resident)
        return found

    @cached_property
    def _labelled(self) -> Mapping[tuple[str, Label], list[Group]]:
        """By namespace and each of their labels."""
        found: dict[tuple[str, Label], list[Group]] = {}
        for namespace, groups in self._alike.items():
            for group in groups:
                for label in group[0].items():
                    found.setdefault((namespace, label), []).append(group)
        return found

    def positions(self, wanted: tuple[PodMatch, ...], *, terminating: bool) -> Positions:
        """The nodes of the pods that every one of `wanted` matches, one element for each pod."""
        key = (wanted, terminating)
        found = self._found.get(key)
        if found is None:
            matching = [
                i
                for namespace in self._namespaces(wanted[0])
                for labels, group in self._groups(namespace, wanted[0].selector)
                if all(w.selects(namespace, labels) for w in wanted)
                for pod, i in group
                if terminating or not pod.deleting
            ]
            found = self._found[key] = np.array(matching, dtype=np.intp)
        return found

    def _groups(self, namespace: str, selector: LabelSelector) -> Iterable[Group]:
        """All that the selector selects, and perhaps others."""
        asked = asked_for(selector)
        if asked is None:
            return self._alike.get(namespace, ())
        return chain.from_iterable(self._labelled.get((namespace, label), ()) for label in asked)

    def _namespaces(self, wanted: PodMatch) -> Iterable[str]:
        return self._alike if wanted.namespaces is None else wanted.namespaces


class PodChanges:
    """The pods as a plan leaves them so far: the index, which copies share, and the changes."""

    def __init__(self, index: PodIndex) -> None:
        self._index = index
        self._changes: LabelIndex[Change] = LabelIndex()
        self._avoiding: dict[tuple[PodAffinityTerm, str], tuple[Change, ...]] = {}

    @property
    def changes(self) -> tuple[Change, ...]:
        """What the plan has changed so far, in its order."""
        return self._changes.entries

    def copy(self) -> "PodChanges":
        """A census that changes alone."""
        copied = PodChanges(self._index)
        copied._changes = self._changes
        copied._avoiding = self._avoiding
        return copied

    def change(self, pod: Pod, position: int, sign: int) -> None:
        """Count the pod as being on the node from now on (1), or no more (-1)."""
        change = Change(pod, position, sign)
        self._changes = self._changes.having(pod.labels, change)
        if pod.scheduling.pod_anti_affinity:
            self._avoiding = dict(self._avoiding)  # a new one, for copies share it
        for term in pod.scheduling.pod_anti_affinity:
            key = (term, pod.namespace)
            self._avoiding[key] = (*self._avoiding.get(key, ()), change)

    def avoiding(self, term: PodAffinityTerm, namespace: str) -> tuple[Change, ...]:
        """Changes of pods of the namespace that carry this anti-affinity term."""
        return self._avoiding.get((term, namespace), ())

    def without(self, pod: Pod, position: int) -> "PodChanges":
        """The census once the pod has left its node."""
        copied = self.copy()
        copied.change(pod, position, -1)
        return copied

    def with_deleting(self, pod: Pod, position: int) -> "PodChanges":
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
    ) -> Ints:
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
        for change in self._changes.selected(wanted[0].selector):
            domain = domains.of[change.position]
            if domain < 0 or not (among is None or among[change.position]):
                continue
            if (terminating or not change.pod.deleting) and all(
                w.matches(change.pod) for w in wanted
            ):
                counts[domain] += change.sign
        return counts
