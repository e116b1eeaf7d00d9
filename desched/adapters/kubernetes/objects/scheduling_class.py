"""The constraints and preferences of a pod, read once for all pods that have the same."""

from collections.abc import Iterable

from msgspec import Raw
from msgspec.structs import replace

from desched.adapters.kubernetes.client.api_types import pods, scheduling
from desched.adapters.kubernetes.objects.pod_affinity import (
    HARD,
    SOFT,
    preferred_pods,
    required_pods,
    spread_constraints,
)
from desched.adapters.kubernetes.objects.pod_requests import pod_requests, scored_requests
from desched.api_objects.decoding import RawDecoder
from desched.api_objects.selectors import (
    invalid_bounds,
    node_selector_term,
    node_selector_terms,
    unknown_operators,
)
from desched.model.cluster import HostPort, SchedulingClass, Toleration
from desched.model.selectors import NodeSelectorTerm

_LABELS = RawDecoder(dict[str, str])
_AFFINITY = RawDecoder(scheduling.Affinity)
_TOLERATIONS = RawDecoder(list[scheduling.Toleration])
_SPREAD = RawDecoder(list[scheduling.TopologySpreadConstraint])
_PORTS = RawDecoder(list[pods.ContainerPort])
_PRESENCE = RawDecoder(list[pods.Present])

_ALL_ADDRESSES = "0.0.0.0"  # noqa: S104  (nothing is bound to it here)

Fingerprint = tuple[bytes | str | None, ...]
"""Equal for pods of equal constraints and requests."""


def fingerprint(spec: pods.PodSpec, status: pods.PodStatus) -> Fingerprint:
    """Everything that `scheduling_class` reads, as the bytes that the server sent."""
    parts: list[bytes | str | None] = [
        bytes(spec.node_selector),
        bytes(spec.affinity),
        bytes(spec.tolerations),
        bytes(spec.topology_spread_constraints),
        bytes(spec.scheduling_gates),
        bytes(spec.overhead),
        bytes(spec.resources),
        bytes(status.resources),
        bytes(status.allocated_resources),
    ]
    for container in spec.containers:
        parts += (container.name, bytes(container.resources), bytes(container.ports))
    for container in spec.init_containers or ():
        parts += (None, container.name, container.restart_policy)
        parts += (bytes(container.resources), bytes(container.ports))
    for state in status.container_statuses or ():
        parts += (state.name, bytes(state.resources), bytes(state.allocated_resources))
    for state in status.init_container_statuses or ():
        parts += (None, state.name, bytes(state.resources), bytes(state.allocated_resources))
    for condition in status.conditions or ():
        if condition.type == "PodResizePending":
            parts.append(condition.reason)
    return tuple(parts)


def scheduling_class(spec: pods.PodSpec, status: pods.PodStatus) -> SchedulingClass:
    """The pod's requests, constraints and preferences, all but its images."""
    affinity = _AFFINITY(spec.affinity) or scheduling.Affinity()
    spread = _SPREAD(spec.topology_spread_constraints) or []
    scored = scored_requests(spec, status)
    return SchedulingClass(
        requests=pod_requests(spec, status),
        node_selector=tuple(sorted((_LABELS(spec.node_selector) or {}).items())),
        required_node_affinity=_required_nodes(affinity),
        tolerations=_tolerations(spec.tolerations),
        unevaluated=tuple(_unevaluated(spec, affinity, spread)),
        scored_cpu_millicores=scored.cpu_millicores,
        scored_memory_bytes=scored.memory_bytes,
        preferred_node_affinity=_preferred_nodes(affinity),
        pod_affinity=required_pods(affinity.pod_affinity),
        pod_anti_affinity=required_pods(affinity.pod_anti_affinity),
        preferred_pod_affinity=preferred_pods(affinity.pod_affinity, affinity.pod_anti_affinity),
        spread=spread_constraints(spread),
        host_ports=_host_ports(spec),
    )


def image_names(spec: pods.PodSpec) -> tuple[str, ...]:
    """The image of each container, as written."""
    containers = (*(spec.init_containers or ()), *spec.containers)
    return tuple([container.image or "" for container in containers])


def with_images(scheduling: SchedulingClass, names: Iterable[str]) -> SchedulingClass:
    """The class with these images, by the names that nodes use for them."""
    return replace(scheduling, images=tuple(_with_tag(name) for name in names))


def _required_nodes(affinity: scheduling.Affinity) -> tuple[NodeSelectorTerm, ...] | None:
    if affinity.node_affinity is None or affinity.node_affinity.required is None:
        return None
    required = affinity.node_affinity.required
    return () if unknown_operators(required) else node_selector_terms(required)


def _preferred_nodes(affinity: scheduling.Affinity) -> tuple[tuple[int, NodeSelectorTerm], ...]:
    preferred = affinity.node_affinity.preferred if affinity.node_affinity is not None else None
    return tuple(
        (term.weight, node_selector_term(term.preference))
        for term in preferred or ()
        if not unknown_operators(term.preference)
    )


def _tolerations(raw: Raw) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(
            toleration.key or "",
            toleration.operator or "Equal",
            toleration.value or "",
            toleration.effect or "",
        )
        for toleration in _TOLERATIONS(raw) or ()
    )


def _host_ports(spec: pods.PodSpec) -> tuple[HostPort, ...]:
    """Ports of all containers that run as long as the pod.

    With hostNetwork the API server has made every container port a host port.
    """
    sidecars = [c for c in spec.init_containers or () if c.restart_policy == "Always"]
    return tuple(
        HostPort(
            port=port.host_port,
            protocol=port.protocol or "TCP",
            address="" if port.host_ip in {None, _ALL_ADDRESSES} else port.host_ip,
        )
        for container in (*sidecars, *spec.containers)
        for port in _PORTS(container.ports) or ()
        if port.host_port
    )


def _with_tag(image: str) -> str:
    """Source: normalizedImageName in the scheduler's plugin ImageLocality."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def _unevaluated(
    spec: pods.PodSpec,
    affinity: scheduling.Affinity,
    spread: list[scheduling.TopologySpreadConstraint],
) -> list[str]:
    kinds = [constraint.when_unsatisfiable for constraint in spread]
    preferred = affinity.node_affinity.preferred if affinity.node_affinity is not None else None
    unknown = {
        "node affinity": unknown_operators(affinity.node_affinity),
        # With one such preference, kube-scheduler refuses the pod (NewPreferredSchedulingTerms).
        "preferred node affinity": invalid_bounds(term.preference for term in preferred or ()),
        "pod affinity": unknown_operators(affinity.pod_affinity),
        "pod anti-affinity": unknown_operators(affinity.pod_anti_affinity),
        "topology spread": [
            *(kind for kind in kinds if kind not in {HARD, SOFT}),
            *unknown_operators(spread),
        ],
    }
    doubts = [f"{what} {name}" for what, names in unknown.items() for name in names]
    if has_entries(spec.scheduling_gates):
        doubts.append("scheduling gates")
    return doubts


def has_entries(raw: Raw) -> bool:
    """Whether there is a list that is not empty."""
    return bool(_PRESENCE(raw))
