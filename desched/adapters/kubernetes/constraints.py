"""What ties a pod to nodes: read once for all pods that say the same."""

from msgspec import Raw

from desched.adapters.kubernetes import wire
from desched.adapters.kubernetes.amounts import pod_requests
from desched.adapters.kubernetes.raw import RawDecoder
from desched.adapters.kubernetes.selectors import node_selector_terms
from desched.model.cluster import SchedulingClass, Toleration
from desched.model.selectors import NodeSelectorTerm, Operator

_LABELS = RawDecoder(dict[str, str])
_AFFINITY = RawDecoder(wire.Affinity)
_TOLERATIONS = RawDecoder(list[wire.Toleration])
_SPREAD = RawDecoder(list[wire.TopologySpreadConstraint])
_PORTS = RawDecoder(list[wire.ContainerPort])
_PRESENCE = RawDecoder(list[wire.Present])

_OPERATORS = frozenset(Operator)

Fingerprint = tuple[bytes | str | None, ...]
"""Equal for pods of equal constraints and requests."""


def fingerprint(spec: wire.PodSpec, status: wire.PodStatus) -> Fingerprint:
    """Everything that `scheduling_class` looks at, as the bytes that the server sent."""
    parts: list[bytes | str | None] = [
        bytes(spec.node_selector),
        bytes(spec.affinity),
        bytes(spec.tolerations),
        bytes(spec.topology_spread_constraints),
        bytes(spec.resource_claims),
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


def scheduling_class(spec: wire.PodSpec, status: wire.PodStatus) -> SchedulingClass:
    """The pod's requests and hard constraints.

    Raises:
        ValueError: a quantity cannot be read, or a part is of another shape.
    """
    affinity = _AFFINITY(spec.affinity) or wire.Affinity()
    return SchedulingClass(
        requests=pod_requests(spec, status),
        node_selector=tuple(sorted((_LABELS(spec.node_selector) or {}).items())),
        required_node_affinity=_required_nodes(affinity),
        tolerations=_tolerations(spec.tolerations),
        unevaluated=tuple(_unevaluated(spec, affinity)),
    )


def _required_nodes(affinity: wire.Affinity) -> tuple[NodeSelectorTerm, ...] | None:
    if affinity.node_affinity is None or affinity.node_affinity.required is None:
        return None
    if _unknown_operators(affinity.node_affinity.required):
        return ()
    return node_selector_terms(affinity.node_affinity.required)


def _unknown_operators(selector: wire.NodeSelector) -> list[str]:
    """Operators of servers newer than this code: the pod stays, the rest of the cluster is read."""
    return [
        each.operator
        for term in selector.node_selector_terms or ()
        for each in (*(term.match_expressions or ()), *(term.match_fields or ()))
        if each.operator not in _OPERATORS
    ]


def _tolerations(raw: Raw) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(each.key or "", each.operator or "Equal", each.value or "", each.effect or "")
        for each in _TOLERATIONS(raw) or ()
    )


def _unevaluated(spec: wire.PodSpec, affinity: wire.Affinity) -> list[str]:
    found = []
    node_affinity = affinity.node_affinity
    if node_affinity and node_affinity.required:
        found += [f"node affinity {name}" for name in _unknown_operators(node_affinity.required)]
    if affinity.pod_affinity and affinity.pod_affinity.required:
        found.append("required pod affinity")
    if affinity.pod_anti_affinity and affinity.pod_anti_affinity.required:
        found.append("required pod anti-affinity")
    spread = _SPREAD(spec.topology_spread_constraints) or ()
    if any(constraint.when_unsatisfiable != "ScheduleAnyway" for constraint in spread):
        found.append("topology spread (DoNotSchedule)")
    containers = [*spec.containers, *(spec.init_containers or ())]
    if any(port.host_port for c in containers for port in _PORTS(c.ports) or ()):
        found.append("host ports")
    if has_entries(spec.resource_claims):
        found.append("resource claims")
    if has_entries(spec.scheduling_gates):
        found.append("scheduling gates")
    return found


def has_entries(raw: Raw) -> bool:
    """Whether a list is there and is not empty."""
    return bool(_PRESENCE(raw))
