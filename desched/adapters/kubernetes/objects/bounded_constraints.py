"""Bounds for the constraints of a pod, so that no tenant fills the memory or slows planning.

Of a pod beyond the bounds, only its requests, its host ports and a coarse anti-affinity are kept.
The anti-affinity keeps away more pods than the pod's own terms, never fewer.
"""

from collections.abc import Iterable
from itertools import chain

from desched.model.cluster import PodAffinityTerm, SchedulingClass
from desched.model.selectors import LabelSelector

LARGEST_CONSTRAINTS_BYTES = 64 * 2**10
"""The JSON of everything in a pod that decides where it may run."""

MOST_TERMS = 64
"""The terms of the affinity and anti-affinity of a pod for other pods; its spread constraints."""

MOST_REQUIREMENTS = 256
"""The requirements of the affinity of a pod for nodes."""

LARGEST_LABELS_BYTES = 64 * 2**10
MOST_VOLUMES = 1_000

MOST_TERMS_OF_NAMESPACE = 10_000
"""The terms of all different pods of a namespace together."""

FOREIGN_TERM_COST = 20
"""A term that may be about pods of other namespaces counts as this many, for each of those pods is
compared with it."""

WHOLE_CLUSTER = "kubernetes.io/os"
"""The kubelet gives each node this label; nearly all nodes have the same value."""

_EVERYTHING = LabelSelector()


def bounded(found: SchedulingClass) -> SchedulingClass:
    """The class, without its constraints if it has too many."""
    for count, most, what in (
        (len(list(_terms(found))), MOST_TERMS, "affinity terms"),
        (len(found.spread), MOST_TERMS, "spread constraints"),
        (_node_requirements(found), MOST_REQUIREMENTS, "requirements for nodes"),
    ):
        if count > most:
            return without_constraints(found, f"{count} {what}, more than {most}")
    return found


def has_terms(found: SchedulingClass) -> bool:
    """Whether the class has terms about other pods."""
    return any(True for _ in _terms(found))


def cost_of_terms(found: SchedulingClass, namespace: str) -> int:
    """What the terms of a pod of this namespace count."""
    return sum(FOREIGN_TERM_COST if _is_foreign(t, namespace) else 1 for t in _terms(found))


def _is_foreign(term: PodAffinityTerm, namespace: str) -> bool:
    return term.namespace_selector is not None or bool({*term.namespaces} - {namespace})


def _terms(found: SchedulingClass) -> Iterable[PodAffinityTerm]:
    return chain(found.pod_affinity, found.pod_anti_affinity, found.preferred_pod_affinity)


def _node_requirements(found: SchedulingClass) -> int:
    required = found.required_node_affinity or ()
    terms = chain(required, (term for _, term in found.preferred_node_affinity))
    return sum(1 + len(term.labels) + len(term.fields) for term in terms)


def without_constraints(found: SchedulingClass, why: str) -> SchedulingClass:
    """What is kept of a class beyond the bounds; `why` becomes the constraint not evaluated."""
    return SchedulingClass(
        requests=found.requests,
        unevaluated=(why,),
        scored_cpu_millicores=found.scored_cpu_millicores,
        scored_memory_bytes=found.scored_memory_bytes,
        pod_anti_affinity=_coarse(found.pod_anti_affinity),
        host_ports=found.host_ports[:MOST_TERMS],
    )


def _coarse(terms: Iterable[PodAffinityTerm]) -> tuple[PodAffinityTerm, ...]:
    """For each topology key, one term about all pods that the terms may be about."""
    elsewhere: dict[str, bool] = {}
    for term in terms:
        if term.selector is not None:
            other = bool(term.namespaces) or term.namespace_selector is not None
            elsewhere[term.topology_key] = elsewhere.get(term.topology_key, False) or other
    if len(elsewhere) > MOST_TERMS:
        elsewhere = {WHOLE_CLUSTER: any(elsewhere.values())}
    return tuple(
        PodAffinityTerm(key, _EVERYTHING, namespace_selector=_EVERYTHING if other else None)
        for key, other in sorted(elsewhere.items())
    )
