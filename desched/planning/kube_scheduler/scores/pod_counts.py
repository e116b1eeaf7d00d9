"""How many pods of each kind every node has, as kube-scheduler's scores count them.

Counts are kept, so they must not be changed by who asks.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np

from desched.model.cluster import ClusterState, Pod, PodAffinityTerm
from desched.planning.arrays import Ints
from desched.planning.kube_scheduler.label_index import SelectorIndex
from desched.planning.kube_scheduler.pod_index import PodIndex, PodMatch

REQUIRED_TERM_WEIGHT = 1
"""What a pod's required affinity attracts others with (hardPodAffinityWeight's default)."""


class CarriedTerm(msgspec.Struct, frozen=True, gc=False):
    """An affinity term that pods of a namespace carry, with its weight for pods that it selects."""

    namespace: str
    term: PodAffinityTerm
    weight: int


def carried_terms(pod: Pod) -> tuple[CarriedTerm, ...]:
    """The terms by which a pod attracts or repels those that come later."""
    required = [(term, REQUIRED_TERM_WEIGHT) for term in pod.scheduling.pod_affinity]
    preferred = [(term, term.weight) for term in pod.scheduling.preferred_pod_affinity]
    return tuple(CarriedTerm(pod.namespace, term, weight) for term, weight in required + preferred)


class PodCounts:
    """Counts pods that hold resources, by what selects them and by what they select."""

    def __init__(self, cluster: ClusterState, index: PodIndex) -> None:
        self._cluster = cluster
        self._arrays = index.arrays
        self.index = index
        self._counted: dict[tuple[PodMatch, bool], Ints] = {}
        self._matches: dict[CarriedTerm, PodMatch | None] = {}

    def per_node(self, wanted: PodMatch, *, terminating: bool) -> Ints:
        """How many pods that match each node has; `terminating` ones count or do not."""
        key = (wanted, terminating)
        found = self._counted.get(key)
        if found is None:
            positions = self.index.positions((wanted,), terminating=terminating)
            found = self._counted[key] = np.bincount(positions, minlength=len(self._arrays))
        return found

    @cached_property
    def carried(self) -> Mapping[CarriedTerm, Ints]:
        """How many pods carry each affinity term, by node; those being deleted still do."""
        positions: dict[CarriedTerm, list[int]] = {}
        carrying = self.index.residents_of(lambda s: s.pod_affinity or s.preferred_pod_affinity)
        for pod, i in carrying:
            for carried in carried_terms(pod):
                positions.setdefault(carried, []).append(i)
        return {carried: self._count(where) for carried, where in positions.items()}

    def about(self, pod: Pod) -> list[CarriedTerm]:
        """The terms of existing pods that are about this pod."""
        return [
            carried for carried in self._by_selector.about(pod.labels) if self.selects(carried, pod)
        ]

    @cached_property
    def _by_selector(self) -> SelectorIndex[CarriedTerm]:
        found: SelectorIndex[CarriedTerm] = SelectorIndex()
        for carried in self.carried:
            if carried.term.selector is not None:
                found.add(carried.term.selector, carried)
        return found

    def match(self, carried: CarriedTerm) -> PodMatch | None:
        """The pods that a term is about, None if there can be none."""
        if carried not in self._matches:
            selector = carried.term.selector
            self._matches[carried] = (
                None if selector is None else PodMatch(self._namespaces(carried), selector)
            )
        return self._matches[carried]

    def selects(self, carried: CarriedTerm, pod: Pod) -> bool:
        """Whether the term is about this pod."""
        match = self.match(carried)
        return match is not None and match.matches(pod)

    def _namespaces(self, carried: CarriedTerm) -> frozenset[str]:
        term = carried.term
        if not term.namespaces and term.namespace_selector is None:
            return frozenset({carried.namespace})
        selected = {
            name
            for name, labels in self._cluster.namespaces.items()
            if term.namespace_selector is not None and term.namespace_selector.matches(labels)
        }
        return frozenset(selected.union(term.namespaces))

    def _count(self, positions: Sequence[int]) -> Ints:
        return np.bincount(np.array(positions, dtype=np.intp), minlength=len(self._arrays))

    @property
    def residents(self) -> Sequence[tuple[Pod, int]]:
        """All pods on known nodes, with the position of their node."""
        return self.index.residents
