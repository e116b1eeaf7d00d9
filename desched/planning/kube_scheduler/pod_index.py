"""The pods of the cluster by namespace, label and node, with the changes that a plan makes.

A cluster may have 150,000 pods. Pods of one workload usually share their `SchedulingClass` and
labels as the same objects. Therefore the index works on distinct objects, by their id, and expands
the result to pods at the end.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from itertools import chain

import msgspec
import numpy as np

from desched.model.cache import cached
from desched.model.cluster import ClusterState, Pod, PodAffinityTerm, SchedulingClass
from desched.model.groups import grouped
from desched.model.resources import Amounts
from desched.model.selectors import LabelSelector
from desched.planning.arrays import Ints, Mask, Positions
from desched.planning.kube_scheduler.label_index import Label, LabelIndex
from desched.planning.kube_scheduler.node_arrays import Domains, NodeArrays

Labels = Mapping[str, str]

Resident = tuple[Pod, int]
"""A pod that holds resources, and the position of its node."""

Group = tuple[Labels, list[Resident]]
"""Pods of a namespace that share one labels object."""


class PodMatch(msgspec.Struct, frozen=True, gc=False):
    """Matches the pods of these namespaces (None means all) that the selector matches."""

    namespaces: frozenset[str] | None
    selector: LabelSelector

    @property
    def effort(self) -> int:
        """The number of comparisons for one pod; `in` compares many values in the time of one."""
        return (
            sum(1 + len(requirement.values) // 16 for requirement in self.selector.requirements) + 1
        )

    def matches(self, pod: Pod) -> bool:
        """Whether the pod matches."""
        return self.selects(pod.namespace, pod.labels)

    def selects(self, namespace: str, labels: Labels) -> bool:
        """Whether a pod of this namespace with these labels matches."""
        if self.namespaces is not None and namespace not in self.namespaces:
            return False
        return self.selector.matches(labels)


class PodChange(msgspec.Struct, frozen=True, gc=False):
    """A pod that a plan adds to a node (sign 1) or removes from it (sign -1)."""

    pod: Pod
    position: int
    sign: int


class PodIndex:
    """The pods of the snapshot; each part is built on first use."""

    def __init__(self, cluster: ClusterState, arrays: NodeArrays) -> None:
        self._cluster = cluster
        self.arrays = arrays

    @cached_property
    def residents(self) -> tuple[Resident, ...]:
        """All pods on known nodes, node by node, with pods that kube-scheduler assumes there."""
        by_node = self._cluster.pods_by_node
        assumed = grouped((pod.nominated_node, pod) for pod in self._cluster.assumed_pods)
        return tuple(
            (pod, i)
            for i, name in enumerate(self.arrays.names)
            for pod in (*by_node.get(name, ()), *assumed.get(name, ()))
        )

    @cached
    def match_of(self, term: PodAffinityTerm, namespace: str) -> PodMatch:
        """The pods that a term refers to if a pod of this namespace carries it."""
        if term.selector is None:
            return PodMatch(frozenset(), LabelSelector())
        if term.namespace_selector is None:
            return PodMatch(frozenset(term.namespaces or (namespace,)), term.selector)
        if not term.namespace_selector.requirements:
            return PodMatch(None, term.selector)
        namespaces = self._cluster.namespaces.items()
        selected = (name for name, own in namespaces if term.namespace_selector.matches(own))
        return PodMatch(frozenset((*selected, *term.namespaces)), term.selector)

    def match_of_incoming(self, term: PodAffinityTerm, namespace: str) -> PodMatch:
        """The existing pods that a term of a pod that is to be placed refers to.

        Since 1.34 the scheduler takes a namespace selector that matches a namespace without labels
        for one of all namespaces (interpodaffinity, mergeAffinityTermNamespacesIfNotEmpty).
        """
        namespaces = term.namespace_selector
        if term.selector is not None and namespaces is not None and namespaces.matches({}):
            return PodMatch(None, term.selector)
        return self.match_of(term, namespace)

    def totals(self, amounts: Callable[[SchedulingClass], tuple[int, ...]]) -> Ints:
        """Sum the amounts of the pods on each node, shape (nodes, amounts).

        `amounts` is called once for each scheduling class.
        """
        classes, kinds, positions = self._kinds
        width = len(amounts(SchedulingClass(Amounts())))
        table = np.array([amounts(c) for c in classes], dtype=np.int64).reshape(-1, width)
        sums = np.zeros((len(self.arrays), width), dtype=np.int64)
        if len(kinds):
            # A row of `table[kinds]` is a pod. Unlike `+=`, `add.at` adds repeated positions.
            np.add.at(sums, positions, table[kinds])
        return sums

    def residents_of(self, wanted: Callable[[SchedulingClass], object]) -> Iterable[Resident]:
        """The pods whose scheduling class satisfies `wanted`, called once for each class."""
        classes, kinds, _ = self._kinds
        numbers = [n for n, scheduling in enumerate(classes) if wanted(scheduling)]
        if not numbers:
            return ()
        return [self.residents[i] for i in np.flatnonzero(np.isin(kinds, numbers))]

    @cached_property
    def _kinds(self) -> tuple[list[SchedulingClass], Positions, Positions]:
        """The scheduling classes; the class and the node of each pod, both of shape (pods,)."""
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
        """The groups of each namespace."""
        groups = grouped(((r[0].namespace, id(r[0].labels)), r) for r in self.residents)
        return grouped((key[0], (group[0][0].labels, group)) for key, group in groups.items())

    @cached_property
    def _labelled(self) -> Mapping[tuple[str, Label], list[Group]]:
        """The groups by namespace and each of their labels."""
        return grouped(
            ((namespace, label), group)
            for namespace, groups in self._alike.items()
            for group in groups
            for label in group[0].items()
        )

    @cached
    def positions(self, wanted: tuple[PodMatch, ...], *, terminating: bool) -> Positions:
        """The nodes of the pods that match all of `wanted`, one position for each pod."""
        namespaces = self._alike if wanted[0].namespaces is None else wanted[0].namespaces
        effort, matching = sum(match.effort for match in wanted), list[int]()
        for namespace in namespaces:
            for labels, group in self._groups(namespace, wanted[0].selector):
                self.arrays.comparisons.add(effort)
                if all(w.selects(namespace, labels) for w in wanted):
                    matching.extend(i for pod, i in group if terminating or not pod.deleting)
        return np.array(matching, dtype=np.intp)

    def _groups(self, namespace: str, selector: LabelSelector) -> Iterable[Group]:
        """All groups that the selector matches, and perhaps some others."""
        one_of = selector.one_of_labels()
        if one_of is None:
            return self._alike.get(namespace, ())
        return chain.from_iterable(self._labelled.get((namespace, label), ()) for label in one_of)


class PodChanges:
    """The pods after a plan's moves so far: the index, which copies share, plus changes."""

    def __init__(self, index: PodIndex) -> None:
        self._index = index
        self._changes: LabelIndex[PodChange] = LabelIndex()
        self._avoiding: dict[tuple[PodAffinityTerm, str], tuple[PodChange, ...]] = {}

    @property
    def changes(self) -> tuple[PodChange, ...]:
        """All changes in order."""
        return self._changes.entries

    def copy(self) -> "PodChanges":
        """An independent copy."""
        copied = PodChanges(self._index)
        copied._changes = self._changes
        copied._avoiding = self._avoiding
        return copied

    def change(self, pod: Pod, position: int, sign: int) -> None:
        """Add the pod to the node (sign 1), or remove it (-1)."""
        change = PodChange(pod, position, sign)
        self._changes = self._changes.having(pod.labels, change)
        if pod.scheduling.pod_anti_affinity:
            self._avoiding = dict(self._avoiding)  # copies share the old one
        for term in pod.scheduling.pod_anti_affinity:
            key = (term, pod.namespace)
            self._avoiding[key] = (*self._avoiding.get(key, ()), change)

    def avoiding(self, term: PodAffinityTerm, namespace: str) -> tuple[PodChange, ...]:
        """The changes of pods of this namespace with this anti-affinity term."""
        return self._avoiding.get((term, namespace), ())

    def without(self, pod: Pod, position: int) -> "PodChanges":
        """A copy in which the pod has left its node."""
        copied = self.copy()
        copied.change(pod, position, -1)
        return copied

    def with_deleting(self, pod: Pod, position: int) -> "PodChanges":
        """A copy in which the pod is being deleted and still on its node."""
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
        """Count the pods in each domain that match all of `wanted`, shape (domains + 1,).

        Only pods on the nodes `among` count, None means all; `terminating` pods count or do not.
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
