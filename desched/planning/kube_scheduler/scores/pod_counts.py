"""The pods on each node that match a selector or carry a term, as kube-scheduler's scores count.

Results are cached; callers must not modify them.
"""

from collections.abc import Mapping
from functools import cached_property

import msgspec
import numpy as np

from desched.model.cache import cached
from desched.model.cluster import Pod, PodAffinityTerm
from desched.model.groups import grouped
from desched.planning.arrays import Ints
from desched.planning.kube_scheduler.label_index import SelectorIndex
from desched.planning.kube_scheduler.pod_index import PodIndex, PodMatch

REQUIRED_TERM_WEIGHT = 1
"""The weight of a required affinity for other pods (the default of hardPodAffinityWeight)."""


class CarriedTerm(msgspec.Struct, frozen=True, gc=False):
    """An affinity term that pods of a namespace carry, with its weight for matching pods."""

    namespace: str
    term: PodAffinityTerm
    weight: int


class Attraction(msgspec.Struct, frozen=True):
    """The terms of existing pods that match a pod, and their weights by topology key and node."""

    terms: tuple[CarriedTerm, ...]
    weights: Mapping[str, Ints]


def carried_terms(pod: Pod) -> tuple[CarriedTerm, ...]:
    """The terms with which a pod attracts or repels later pods."""
    required = [(term, REQUIRED_TERM_WEIGHT) for term in pod.scheduling.pod_affinity]
    preferred = [(term, term.weight) for term in pod.scheduling.preferred_pod_affinity]
    return tuple(CarriedTerm(pod.namespace, term, weight) for term, weight in required + preferred)


class PodCounts:
    """Counts the pods that hold resources, by matching selectors and by carried terms."""

    def __init__(self, index: PodIndex) -> None:
        self._arrays = index.arrays
        self.index = index

    @cached
    def per_node(self, wanted: PodMatch, *, terminating: bool) -> Ints:
        """Count the matching pods on each node; `terminating` pods count or do not."""
        positions = self.index.positions((wanted,), terminating=terminating)
        return np.bincount(positions, minlength=len(self._arrays))

    @cached_property
    def carried(self) -> Mapping[CarriedTerm, list[int]]:
        """The node of each pod that carries a term, including pods that are being deleted."""
        carrying = self.index.residents_of(lambda s: s.pod_affinity or s.preferred_pod_affinity)
        return grouped((term, i) for pod, i in carrying for term in carried_terms(pod))

    def carrying(self, carried: CarriedTerm) -> Ints:
        """Count the pods on each node that carry the term."""
        positions = np.array(self.carried[carried], dtype=np.intp)
        return np.bincount(positions, minlength=len(self._arrays))

    @cached
    def attraction(self, namespace: str, labels: tuple[tuple[str, str], ...]) -> Attraction:
        """How existing pods attract a pod of this namespace with these labels."""
        own = dict(labels)
        terms_found = self._by_selector.about(namespace, own)
        terms = tuple(term for term in terms_found if self._match(term).selects(namespace, own))
        weights: dict[str, Ints] = {}
        for carried in terms:
            topology = carried.term.topology_key
            counts = carried.weight * self.carrying(carried)
            weights[topology] = weights.get(topology, 0) + counts
        return Attraction(terms, weights)

    @cached_property
    def _by_selector(self) -> SelectorIndex[CarriedTerm]:
        index: SelectorIndex[CarriedTerm] = SelectorIndex()
        for carried in self.carried:
            if carried.term.selector is not None:
                index.add(self._match(carried).namespaces, carried.term.selector, carried)
        return index

    def _match(self, carried: CarriedTerm) -> PodMatch:
        """The pods that a term refers to."""
        return self.index.match_of(carried.term, carried.namespace)
