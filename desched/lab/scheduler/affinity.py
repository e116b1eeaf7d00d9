"""Pod affinity: filter and score of the simulated scheduler.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity at v1.36. Terminating
pods count until they are deleted.
"""

from collections.abc import Iterable

import numpy as np

from desched.lab.scheduler.view import BEST, ClusterView, Integers, Mask
from desched.model.cluster import ClusterState, Pod, PodAffinityTerm

REQUIRED_WEIGHT = 1
"""The weight with which a required affinity attracts the pods that it selects."""


def affinity_mask(pod: Pod, view: ClusterView) -> Mask:
    """The nodes that required affinity, and anti-affinity in both directions, allow."""
    allowed = _near_wanted(pod, view)
    for other, count in _concerned(pod, view):
        for term in (
            *_terms_about(pod, other.scheduling.pod_anti_affinity, other, view.cluster),
            *_terms_about(other, pod.scheduling.pod_anti_affinity, pod, view.cluster),
        ):
            allowed = allowed & (view.in_domain(term.topology_key, count) == 0)
    return allowed


def affinity_scores(pod: Pod, feasible: Mask, view: ClusterView) -> Integers:
    """From 0 to 100, more where pods attract this one; all 0 if they make no difference."""
    pull = np.zeros(len(view.nodes), dtype=np.int64)
    for other, count in _concerned(pod, view):
        theirs = (*other.scheduling.preferred_pod_affinity, *other.scheduling.pod_affinity)
        for term in (
            *_terms_about(other, pod.scheduling.preferred_pod_affinity, pod, view.cluster),
            *_terms_about(pod, theirs, other, view.cluster),
        ):
            weight = term.weight or REQUIRED_WEIGHT
            pull += weight * view.in_domain(term.topology_key, count)
    least, most = pull[feasible].min(), pull[feasible].max()
    if least == most:
        return np.zeros_like(pull)
    scores: Integers = (BEST * ((pull - least) / (most - least))).astype(np.int64)
    return scores


def _concerned(pod: Pod, view: ClusterView) -> Iterable[tuple[Pod, Integers]]:
    """The pods that may attract or repel this one: those with terms, or all if it has terms."""
    own = pod.scheduling
    if own.pod_anti_affinity or own.preferred_pod_affinity:
        return zip(view.kinds, view.placed, strict=True)
    return view.attracting


def _near_wanted(pod: Pod, view: ClusterView) -> Mask:
    """The nodes near pods that all required terms select; all nodes for the first of a group."""
    terms = pod.scheduling.pod_affinity
    if not terms:
        return view.everywhere
    wanted = [_terms_about(other, terms, pod, view.cluster) == terms for other in view.kinds]
    count = view.total(np.array(wanted, dtype=np.int64))
    near = [view.in_domain(term.topology_key, count) > 0 for term in terms]
    alone = not np.any(near)
    if alone and _terms_about(pod, terms, pod, view.cluster) == terms:
        near = [view.domain(term.topology_key) >= 0 for term in terms]
    allowed: Mask = np.logical_and.reduce(near)
    return allowed


def _terms_about(
    pod: Pod, terms: tuple[PodAffinityTerm, ...], carrier: Pod, cluster: ClusterState
) -> tuple[PodAffinityTerm, ...]:
    """The carrier's terms that select the pod."""
    return tuple(
        term
        for term in terms
        if term.selector is not None
        and term.selector.matches(pod.labels)
        and _covers_namespace(term, pod.namespace, carrier, cluster)
    )


def _covers_namespace(
    term: PodAffinityTerm, namespace: str, carrier: Pod, cluster: ClusterState
) -> bool:
    selector = term.namespace_selector
    if not term.namespaces and selector is None:
        return namespace == carrier.namespace
    return namespace in term.namespaces or (
        selector is not None and selector.matches(cluster.namespaces.get(namespace, {}))
    )
