"""Required affinity and anti-affinity between pods, in both directions."""

from collections.abc import Iterable
from functools import cached_property

import msgspec
import numpy as np

from desched.model.cluster import ClusterState, Pod, PodAffinityTerm
from desched.model.selectors import LabelSelector, Operator
from desched.planning.filters.census import Census, Change, PodIndex, PodMatch
from desched.planning.filters.columns import Mask, NodeColumns, Positions


class _Carried(msgspec.Struct, frozen=True):
    """An anti-affinity term of existing pods of one namespace, and the nodes of those pods."""

    term: PodAffinityTerm
    namespace: str
    wanted: PodMatch
    positions: Positions

    def is_of(self, pod: Pod) -> bool:
        """Whether the pod carries the term."""
        return pod.namespace == self.namespace and self.term in pod.scheduling.pod_anti_affinity


class AffinityFilter:
    """Plugin InterPodAffinity, its required part; pods that are being deleted count."""

    def __init__(self, cluster: ClusterState, columns: NodeColumns, index: PodIndex) -> None:
        self._cluster = cluster
        self._columns = columns
        self._index = index
        self._resolved: dict[tuple[PodAffinityTerm, str], PodMatch] = {}

    def near(self, pod: Pod, census: Census) -> Mask:
        """Nodes whose domains have pods that the affinity terms ask for, all terms in one pod.

        The first pod of a group that asks for itself may go wherever the labels are.
        """
        terms = pod.scheduling.pod_affinity
        wanted = tuple(self.wanted(term, pod.namespace) for term in terms)
        labelled, near, anywhere = self._columns.all(), self._columns.all(), False
        for term in terms:
            domains = self._columns.domains(term.topology_key)
            counts = census.tally(wanted, domains)
            labelled &= domains.labelled
            near &= counts[domains.of] > 0
            anywhere = anywhere or bool(counts.any())
        if not anywhere and all(each.matches(pod) for each in wanted):
            return labelled
        return labelled & near

    def apart(self, pod: Pod, census: Census) -> Mask:
        """Nodes whose domains have none of the pods that the anti-affinity terms avoid."""
        mask = self._columns.all()
        for term in pod.scheduling.pod_anti_affinity:
            domains = self._columns.domains(term.topology_key)
            wanted = self.wanted(term, pod.namespace)
            if term.namespace_selector is not None and term.namespace_selector.matches({}):
                # Since 1.34 the scheduler takes such a selector for one of all namespaces when it
                # compares with existing pods (interpodaffinity.mergeAffinityTermNamespaces…).
                wanted = PodMatch(None, wanted.selector)
            mask &= census.tally((wanted,), domains)[domains.of] <= 0
        return mask

    def welcome(self, pod: Pod, census: Census) -> Mask:
        """Nodes whose domains have no pod with an anti-affinity against this one."""
        mask = self._columns.all()
        changed = [change for change in census.changes if change.pod.scheduling.pod_anti_affinity]
        for carried in self._terms_about(pod):
            domains = self._columns.domains(carried.term.topology_key)
            counts = domains.tally(carried.positions)
            for change in changed:
                if change.sign < 0 and carried.is_of(change.pod):
                    counts[domains.of[change.position]] -= 1
            mask &= counts[domains.of] <= 0
        for change in changed:
            if change.sign > 0:
                self._keep_away(pod, change, mask)
        return mask

    def concerns(self, pod: Pod, census: Census) -> bool:
        """Whether any other pod may have an anti-affinity against this one."""
        return bool(self._terms_about(pod)) or any(
            change.sign > 0 and change.pod.scheduling.pod_anti_affinity for change in census.changes
        )

    def _keep_away(self, pod: Pod, change: Change, mask: Mask) -> None:
        for term in change.pod.scheduling.pod_anti_affinity:
            domains = self._columns.domains(term.topology_key)
            domain = domains.of[change.position]
            if domain >= 0 and self.wanted(term, change.pod.namespace).matches(pod):
                mask &= domains.of != domain

    def wanted(self, term: PodAffinityTerm, namespace: str) -> PodMatch:
        """The pods that a term means when a pod of this namespace carries it."""
        key = (term, namespace)
        found = self._resolved.get(key)
        if found is None:
            found = self._resolved[key] = self._resolve(term, namespace)
        return found

    def _resolve(self, term: PodAffinityTerm, namespace: str) -> PodMatch:
        if term.selector is None:
            return PodMatch(frozenset(), LabelSelector())
        if term.namespace_selector is None:
            return PodMatch(frozenset(term.namespaces or (namespace,)), term.selector)
        if not term.namespace_selector.requirements:
            return PodMatch(None, term.selector)
        selected = {
            name
            for name, labels in self._cluster.namespaces.items()
            if term.namespace_selector.matches(labels)
        }
        return PodMatch(frozenset(selected | set(term.namespaces)), term.selector)

    # Terms of existing pods: one entry for each term and namespace, found by a label that they ask
    # for, so that a pod is not compared with the terms of all others.

    def _terms_about(self, pod: Pod) -> list[_Carried]:
        if not self._carried:
            return []
        by_label = self._by_label
        candidates = [c for item in pod.labels.items() for c in by_label.get(item, ())]
        candidates += by_label.get(None, ())
        return [carried for carried in candidates if carried.wanted.matches(pod)]

    @cached_property
    def _carried(self) -> list[_Carried]:
        by_class: dict[tuple[int, str], tuple[Pod, list[int]]] = {}
        for pod, position in self._index.residents_of(lambda s: s.pod_anti_affinity):
            key = (id(pod.scheduling), pod.namespace)
            by_class.setdefault(key, (pod, []))[1].append(position)
        by_term: dict[tuple[PodAffinityTerm, str], list[int]] = {}
        for pod, positions in by_class.values():
            for term in pod.scheduling.pod_anti_affinity:
                by_term.setdefault((term, pod.namespace), []).extend(positions)
        return [
            _Carried(term, namespace, self.wanted(term, namespace), np.array(found, dtype=np.intp))
            for (term, namespace), found in by_term.items()
        ]

    @cached_property
    def _by_label(self) -> dict[tuple[str, str] | None, list[_Carried]]:
        found: dict[tuple[str, str] | None, list[_Carried]] = {}
        for carried in self._carried:
            for key in _asked_for(carried.wanted.selector):
                found.setdefault(key, []).append(carried)
        return found


def _asked_for(selector: LabelSelector) -> Iterable[tuple[str, str] | None]:
    """Labels of which every pod that the selector selects has one; None if there are none."""
    for requirement in selector.requirements:
        if requirement.operator is Operator.IN:
            return [(requirement.key, value) for value in set(requirement.values)]
    return [None]
