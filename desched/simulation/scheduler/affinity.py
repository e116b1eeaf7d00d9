"""Affinity between pods as the simulated scheduler filters and scores by it.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity at v1.36. Terminating
pods count until they are gone.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from desched.model.cluster import ClusterState, Pod, PodAffinityTerm
from desched.simulation.scheduler.view import BEST, ClusterView, Integers, Mask

REQUIRED_WEIGHT = 1
"""How strongly a pod with a required affinity attracts the pods that the affinity selects."""


def affinity_mask(pod: Pod, view: ClusterView) -> Mask:
    """Where required affinity and anti-affinity, in both directions, allow the pod."""
    allowed = _near_wanted(pod, view)
    for other, count in _concerned(pod, view):
        for term in (
            *_terms_about(pod, other.scheduling.pod_anti_affinity, other, view.cluster),
            *_terms_about(other, pod.scheduling.pod_anti_affinity, pod, view.cluster),
        ):
            allowed = allowed & (view.in_domain(term.topology_key, count) == 0)
    return allowed


def affinity_scores(pod: Pod, feasible: Mask, view: ClusterView) -> Integers:
    """How strongly pods attract or repel this one, from 0 to 100; 0 everywhere if none does."""
    pull = np.zeros(len(view.nodes), dtype=np.int64)
    for other, count in _concerned(pod, view):
        for key, weight in _pulls(pod, other, view.cluster):
            pull += weight * view.in_domain(key, count)
    least, most = pull[feasible].min(), pull[feasible].max()
    if least == most:
        return np.zeros_like(pull)
    scores: Integers = (BEST * ((pull - least) / (most - least))).astype(np.int64)
    return scores


def _concerned(pod: Pod, view: ClusterView) -> Iterable[tuple[Pod, Integers]]:
    """Pods that may attract or repel this one: those with terms, or all if it has some itself."""
    own = pod.scheduling
    if own.pod_anti_affinity or own.preferred_pod_affinity:
        return zip(view.kinds, view.placed, strict=True)
    return view.attracting


def _near_wanted(pod: Pod, view: ClusterView) -> Mask:
    """Where pods are that all required terms select; the first pod of a group may go anywhere."""
    terms = pod.scheduling.pod_affinity
    if not terms:
        return view.everywhere
    wanted = [
        len(list(_terms_about(other, terms, pod, view.cluster))) == len(terms)
        for other in view.kinds
    ]
    count: Integers = view.placed[np.array(wanted, dtype=bool)].sum(axis=0)
    near = [view.in_domain(term.topology_key, count) > 0 for term in terms]
    alone = not np.any(near)
    if alone and len(list(_terms_about(pod, terms, pod, view.cluster))) == len(terms):
        near = [view.domain(term.topology_key) >= 0 for term in terms]
    allowed: Mask = np.logical_and.reduce(near)
    return allowed


def _pulls(pod: Pod, other: Pod, cluster: ClusterState) -> Iterator[tuple[str, int]]:
    """The label and the weight of each term by which the two pods attract or repel each other."""
    for term in (
        *_terms_about(other, pod.scheduling.preferred_pod_affinity, pod, cluster),
        *_terms_about(pod, other.scheduling.preferred_pod_affinity, other, cluster),
    ):
        yield term.topology_key, term.weight
    for term in _terms_about(pod, other.scheduling.pod_affinity, other, cluster):
        yield term.topology_key, REQUIRED_WEIGHT


def _terms_about(
    pod: Pod, terms: tuple[PodAffinityTerm, ...], carrier: Pod, cluster: ClusterState
) -> Iterator[PodAffinityTerm]:
    """Those of the carrier's terms that select the pod."""
    for term in terms:
        if term.selector is not None and term.selector.matches(pod.labels):
            if not term.namespaces and term.namespace_selector is None:
                chosen = pod.namespace == carrier.namespace
            else:
                labels = cluster.namespaces.get(pod.namespace, {})
                by_labels = term.namespace_selector
                chosen = pod.namespace in term.namespaces or (
                    by_labels is not None and by_labels.matches(labels)
                )
            if chosen:
                yield term
