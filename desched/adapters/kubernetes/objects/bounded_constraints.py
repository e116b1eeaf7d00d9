"""Bounds for the constraints of a pod, so that no tenant fills the memory or slows planning.

Of a pod beyond the bounds, only its requests, its host ports and a coarse anti-affinity are kept.
The anti-affinity keeps away more pods than the pod's own terms, never fewer.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from desched.api_objects.memory_bounds import BEYOND_SHARE, ORDINARY_BYTES, has_room, kept_bytes
from desched.model.cluster import Node, Pod, PodAffinityTerm, PodVolume, SchedulingClass
from desched.model.selectors import LabelSelector

LARGEST_CONSTRAINTS_BYTES = 64 * 2**10
"""The JSON of everything in a pod that decides where it may run."""

MOST_TERMS = 64
"""The terms of the affinity and anti-affinity of a pod for other pods; its spread constraints."""

MOST_REQUIREMENTS = 256
"""The requirements of the affinity of a pod for nodes."""

MOST_VOLUMES = 1_000

MOST_CLAIMS = 256
"""More than a node attaches."""

MOST_RESOURCES = 64
"""With as many extended resources, a pod is too large."""

TOO_LARGE = "too large: "

MOST_TERMS_OF_NAMESPACE = 10_000
"""The terms of all different pods of a namespace together."""

FOREIGN_TERM_COST = 20
"""A term that may be about pods of other namespaces counts as this many, for each of those pods is
compared with it."""

WHOLE_CLUSTER = "kubernetes.io/os"
"""The kubelet gives each node this label; nearly all nodes have the same value."""

FEW = 20
"""So many labels or volumes are no large part: their JSON has less than 10 KiB."""

_RESOURCES = "extended resources"
_EVERYTHING = LabelSelector()


def bounded(scheduling: SchedulingClass) -> SchedulingClass:
    """The class, without its constraints if it has too many."""
    resources = len(scheduling.requests.extended)
    if resources >= MOST_RESOURCES:
        return without_constraints(
            scheduling, f"{resources} {_RESOURCES}, more than {MOST_RESOURCES}"
        )
    for count, most, what in (
        (number_of_terms(scheduling), MOST_TERMS, "affinity terms"),
        (len(scheduling.spread), MOST_TERMS, "spread constraints"),
        (_node_requirements(scheduling), MOST_REQUIREMENTS, "requirements for nodes"),
    ):
        if count > most:
            return without_constraints(scheduling, f"{count} {what}, more than {most}")
    return scheduling


def is_reduced(scheduling: SchedulingClass) -> bool:
    """Whether only what `without_constraints` returns is known of the class."""
    return any(doubt.startswith(TOO_LARGE) for doubt in scheduling.unevaluated)


def without_uncounted(nodes: Sequence[Node], pods: Iterable[Pod]) -> Sequence[Node]:
    """The nodes; those of pods with too many extended resources have none, for some may be taken.

    A kubelet also admits pods that request resources that its node lacks.
    """
    unclear = {pod.node for pod in pods if len(pod.scheduling.requests.extended) >= MOST_RESOURCES}
    if not unclear:
        return nodes
    return tuple(
        replace(node, allocatable=replace(node.allocatable, extended=()))
        if node.name in unclear
        else node
        for node in nodes
    )


def number_of_terms(scheduling: SchedulingClass) -> int:
    """The number of terms about other pods."""
    return len(_terms(scheduling))


def _cost_of_terms(scheduling: SchedulingClass, namespace: str) -> int:
    """What the terms of a pod of this namespace count."""
    return sum(FOREIGN_TERM_COST if _is_foreign(t, namespace) else 1 for t in _terms(scheduling))


def _is_foreign(term: PodAffinityTerm, namespace: str) -> bool:
    return term.namespace_selector is not None or bool({*term.namespaces} - {namespace})


def _terms(scheduling: SchedulingClass) -> tuple[PodAffinityTerm, ...]:
    return (
        *scheduling.pod_affinity,
        *scheduling.pod_anti_affinity,
        *scheduling.preferred_pod_affinity,
    )


def _node_requirements(scheduling: SchedulingClass) -> int:
    required = scheduling.required_node_affinity or ()
    terms = (*required, *(term for _, term in scheduling.preferred_node_affinity))
    return sum(1 + len(term.labels) + len(term.fields) for term in terms)


def without_constraints(scheduling: SchedulingClass, excess: str) -> SchedulingClass:
    """What is kept of a class beyond the bounds, and why no more is."""
    return SchedulingClass(
        unevaluated=(TOO_LARGE + excess,),
        requests=replace(
            scheduling.requests, extended=scheduling.requests.extended[:MOST_RESOURCES]
        ),
        scored_cpu_millicores=scheduling.scored_cpu_millicores,
        scored_memory_bytes=scheduling.scored_memory_bytes,
        pod_anti_affinity=_coarse(scheduling.pod_anti_affinity),
        host_ports=scheduling.host_ports[:MOST_TERMS],
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


def has_many(labels: Mapping[str, str], volumes: tuple[PodVolume, ...]) -> bool:
    """Whether labels or volumes of a pod may be a large part."""
    return len(labels) > FEW or len(volumes) > FEW


class NamespaceParts:
    """Counts the terms and the large parts of the different pods of each namespace.

    `refused_bytes` is the memory of those that were not admitted.
    """

    def __init__(self) -> None:
        self._classes: dict[tuple[str, int], str] = {}
        self._parts: set[tuple[str, int]] = set()
        self._terms = Counter[str]()
        self._bytes = Counter[str]()
        self.refused_bytes = 0

    def refusal_of(self, namespace: str, scheduling: SchedulingClass) -> str:
        """Why the namespace has too much already to keep the class; empty if it has not.

        The caller keeps the class, so that no other one gets its id.
        """
        key = namespace, id(scheduling)
        refusal = self._classes.get(key)
        if refusal is None:
            refusal = self._classes[key] = self._refusal(namespace, scheduling)
        return refusal

    def _refusal(self, namespace: str, scheduling: SchedulingClass) -> str:
        self._terms[namespace] += _cost_of_terms(scheduling, namespace)
        if number_of_terms(scheduling) and self._terms[namespace] > MOST_TERMS_OF_NAMESPACE:
            return f"affinity terms beyond {MOST_TERMS_OF_NAMESPACE} of its namespace"
        return "" if self._has_room(namespace, kept_bytes(scheduling)) else BEYOND_SHARE

    def admits_parts(
        self, namespace: str, labels: Mapping[str, str], volumes: tuple[PodVolume, ...]
    ) -> bool:
        """Whether labels and volumes of a pod may be kept; equal ones count once."""
        admitted = True
        if len(labels) > FEW:
            admitted = self._admits(namespace, labels, hash(frozenset(labels.items())))
        if len(volumes) > FEW:
            admitted = admitted and self._admits(namespace, volumes, hash(volumes))
        return admitted

    def _admits(self, namespace: str, part: object, digest: int) -> bool:
        key = namespace, digest
        if key not in self._parts and self._has_room(namespace, kept_bytes(part)):
            self._parts.add(key)
        return key in self._parts

    def _has_room(self, namespace: str, size_bytes: int) -> bool:
        if size_bytes <= ORDINARY_BYTES:
            return True
        if not has_room(self._bytes, namespace, size_bytes):
            self.refused_bytes += size_bytes
            return False
        self._bytes[namespace] += size_bytes
        return True
