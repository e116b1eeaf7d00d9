"""Affinity between pods as the simulated scheduler filters and scores by it.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity at v1.36. Pods that are
on their way out count until they are gone.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from desched.model.cluster import ClusterState, Node, Pod, PodAffinityTerm

BEST = 100
REQUIRED_WEIGHT = 1  # what a pod with a required affinity adds for those that it wants near

Domain = tuple[str, str]
"""A label of nodes and its value: all nodes with it are one place."""


def affinity_filter(pod: Pod, cluster: ClusterState) -> Callable[[Node], bool]:
    """Tells where required affinity and anti-affinity, in both directions, allow the pod."""
    forbidden = _forbidden(pod, cluster)
    terms = pod.scheduling.pod_affinity
    wanted = _wanted(pod, cluster)
    first_of_its_kind = not wanted and all(_selects(t, pod.namespace, pod, cluster) for t in terms)

    def allows(node: Node) -> bool:
        if not forbidden.isdisjoint(node.labels.items()):
            return False
        if any(term.topology_key not in node.labels for term in terms):
            return False
        here = {(term.topology_key, node.labels[term.topology_key]) for term in terms}
        return here <= wanted or first_of_its_kind

    return allows


def affinity_scores(pod: Pod, nodes: Sequence[Node], cluster: ClusterState) -> Mapping[str, int]:
    """How much pods draw this one near or push it away, from 0 to 100; all 0 if none does."""
    pull = _pull(pod, cluster)
    raw = {node.name: sum(pull[label] for label in node.labels.items()) for node in nodes}
    least, most = min(raw.values(), default=0), max(raw.values(), default=0)
    return {
        name: int(BEST * ((value - least) / (most - least))) if most > least else 0
        for name, value in raw.items()
    }


def _forbidden(pod: Pod, cluster: ClusterState) -> set[Domain]:
    """Where required anti-affinity, the pod's own or that of others, keeps it from."""
    found: set[Domain] = set()
    for other, node in _placed(cluster):
        terms = [
            *(t for t in other.scheduling.pod_anti_affinity if _about(t, other, pod, cluster)),
            *(t for t in pod.scheduling.pod_anti_affinity if _about(t, pod, other, cluster)),
        ]
        found.update(_domains(terms, node))
    return found


def _wanted(pod: Pod, cluster: ClusterState) -> set[Domain]:
    """Where pods are that all required affinity terms select."""
    terms = pod.scheduling.pod_affinity
    found: set[Domain] = set()
    if terms:
        for other, node in _placed(cluster):
            if all(_about(term, pod, other, cluster) for term in terms):
                found.update(_domains(terms, node))
    return found


def _pull(pod: Pod, cluster: ClusterState) -> Counter[Domain]:
    found = Counter[Domain]()
    for other, node in _placed(cluster):
        for term in pod.scheduling.preferred_pod_affinity:
            if _about(term, pod, other, cluster):
                _add(found, term, node, term.weight)
        for term in other.scheduling.pod_affinity:
            if _about(term, other, pod, cluster):
                _add(found, term, node, REQUIRED_WEIGHT)
        for term in other.scheduling.preferred_pod_affinity:
            if _about(term, other, pod, cluster):
                _add(found, term, node, term.weight)
    return found


def _add(found: Counter[Domain], term: PodAffinityTerm, node: Node, weight: int) -> None:
    for domain in _domains([term], node):
        found[domain] += weight


def _placed(cluster: ClusterState) -> Iterator[tuple[Pod, Node]]:
    for node in cluster.nodes:
        for pod in cluster.pods_by_node[node.name]:
            yield pod, node


def _domains(terms: Sequence[PodAffinityTerm], node: Node) -> Iterator[Domain]:
    for term in terms:
        if term.topology_key in node.labels:
            yield term.topology_key, node.labels[term.topology_key]


def _about(term: PodAffinityTerm, carrier: Pod, other: Pod, cluster: ClusterState) -> bool:
    return _selects(term, carrier.namespace, other, cluster)


def _selects(term: PodAffinityTerm, namespace: str, other: Pod, cluster: ClusterState) -> bool:
    """Whether a term that a pod of this namespace carries is about the other pod."""
    if term.selector is None or not term.selector.matches(other.labels):
        return False
    if not term.namespaces and term.namespace_selector is None:
        return other.namespace == namespace
    if other.namespace in term.namespaces:
        return True
    labels = cluster.namespaces.get(other.namespace, {})
    return term.namespace_selector is not None and term.namespace_selector.matches(labels)
