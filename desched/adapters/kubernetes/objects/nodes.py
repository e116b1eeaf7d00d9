"""Nodes, in the model's terms."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from sys import intern

from desched.adapters.kubernetes.client.access import LIST_NODES
from desched.adapters.kubernetes.client.api_types import nodes
from desched.adapters.kubernetes.objects.metadata import texts_of
from desched.adapters.kubernetes.objects.pod_requests import node_amounts
from desched.api_objects.kinds import Kind
from desched.model.cluster import Node, Taint

STEERED_UNTIL = "desched.io/overloaded-until"
"""The annotation that marks a node as tainted by desched: a time as in RFC 3339."""

_LONG_PAST = datetime(2000, 1, 1, tzinfo=UTC)
_PRESSURES = frozenset({"MemoryPressure", "DiskPressure", "PIDPressure"})
_ADDRESS_TYPES = frozenset({"InternalIP", "ExternalIP", "Hostname", "InternalDNS"})


def node(item: nodes.Node) -> Node:
    """The node."""
    metadata, spec, status = item.metadata, item.spec, item.status
    if metadata.creation_timestamp is None:
        raise ValueError("no metadata.creationTimestamp")
    labels = texts_of(metadata.labels)
    info = status.node_info or nodes.NodeInfo()
    return Node(
        name=metadata.name,
        uid=metadata.uid,
        created_at=metadata.creation_timestamp,
        labels=labels,
        capacity=node_amounts(status.capacity),
        allocatable=node_amounts(status.allocatable),
        ready=any(c.type == "Ready" and c.status == "True" for c in status.conditions or ()),
        unschedulable=bool(spec.unschedulable),
        deleting=metadata.deletion_timestamp is not None,
        taints=tuple(Taint(t.key, t.effect, t.value or "") for t in spec.taints or ()),
        addresses=tuple(a.address for a in status.addresses or () if a.type in _ADDRESS_TYPES),
        operating_system=info.operating_system or labels.get("kubernetes.io/os") or "linux",
        images=_images(status.images or ()),
        steered_until=steered_until(texts_of(metadata.annotations)),
        troubled_since=_troubled_since(status.conditions or ()),
    )


def steered_until(annotations: Mapping[str, str] | None) -> datetime | None:
    """The expiry of desched's soft taint, None without the annotation.

    Long past if the annotation is unreadable, so that the taint is removed.
    """
    text = (annotations or {}).get(STEERED_UNTIL)
    if text is None:
        return None
    try:
        until = datetime.fromisoformat(text)
    except ValueError:
        return _LONG_PAST
    return until if until.tzinfo is not None else _LONG_PAST


def _troubled_since(conditions: Iterable[nodes.NodeCondition]) -> datetime | None:
    """The earliest beginning of what is wrong with the node."""
    times = [
        condition.last_transition_time
        for condition in conditions
        if condition.last_transition_time is not None
        and (
            (condition.type == "Ready" and condition.status != "True")
            or (condition.type in _PRESSURES and condition.status == "True")
        )
    ]
    return min(times, default=None)


def _images(images: Iterable[nodes.ContainerImage]) -> dict[str, int]:
    """Sizes by name; nodes share the strings, which a large cluster repeats 100,000 times.

    The kubelet reports only its largest images, 50 by default.
    """
    return {intern(name): image.size_bytes or 0 for image in images for name in image.names or ()}


NODES = Kind(LIST_NODES, nodes.Node, node)
