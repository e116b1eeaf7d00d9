"""The objects beside nodes, pods and workloads, in the model's words."""

from desched.adapters.kubernetes import wire
from desched.adapters.kubernetes.selectors import label_selector, node_selector_terms
from desched.model.cluster import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    PodDisruptionBudget,
    Service,
    StorageClass,
)
from desched.model.selectors import NodeSelectorTerm, Operator, Requirement

_TOPOLOGY_LABELS = frozenset(
    f"{prefix}/{level}"
    for prefix in ("topology.kubernetes.io", "failure-domain.beta.kubernetes.io")
    for level in ("zone", "region")
)
"""The scheduler matches these labels of a volume with the node's (VolumeZone)."""

_FOR_ONE_POD = "ReadWriteOncePod"


def budget(item: wire.PodDisruptionBudget) -> PodDisruptionBudget:
    """The budget; without a selector it covers no pod, with an empty one all of its namespace.

    Raises:
        ValueError: its selector cannot be read.
    """
    selector, status = item.spec.selector, item.status
    return PodDisruptionBudget(
        namespace=item.metadata.namespace,
        name=item.metadata.name,
        selector=None if selector is None else label_selector(selector),
        disruptions_allowed=status.disruptions_allowed or 0,
        up_to_date=(status.observed_generation or 0) >= (item.metadata.generation or 0),
        always_allows_unhealthy=item.spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
    )


def claim(item: wire.PersistentVolumeClaim) -> PersistentVolumeClaim:
    """The claim."""
    return PersistentVolumeClaim(
        namespace=item.metadata.namespace,
        name=item.metadata.name,
        storage_class=item.spec.storage_class_name or "",
        volume=item.spec.volume_name or "",
        for_one_pod=_FOR_ONE_POD in (item.spec.access_modes or ()),
    )


def volume(item: wire.PersistentVolume) -> PersistentVolume:
    """The volume.

    Raises:
        ValueError: its node affinity cannot be read.
    """
    spec = item.spec
    required = spec.node_affinity.required if spec.node_affinity is not None else None
    return PersistentVolume(
        name=item.metadata.name,
        storage_class=spec.storage_class_name or "",
        node_affinity=None if required is None else node_selector_terms(required),
        local=spec.local is not None or spec.host_path is not None,
        csi_driver=spec.csi.driver if spec.csi is not None else "",
        csi_handle=spec.csi.volume_handle if spec.csi is not None else "",
        labels={k: v for k, v in (item.metadata.labels or {}).items() if k in _TOPOLOGY_LABELS},
    )


def storage_class(item: wire.StorageClass) -> StorageClass:
    """The storage class."""
    return StorageClass(
        name=item.metadata.name,
        provisioner=item.provisioner,
        waits_for_consumer=item.volume_binding_mode == "WaitForFirstConsumer",
        topologies=tuple(map(_topology, item.allowed_topologies or ())) or None,
    )


def _topology(term: wire.TopologyTerm) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        tuple(
            Requirement(each.key, Operator.IN, tuple(each.values or ()))
            for each in term.match_label_expressions or ()
        )
    )


def csi_node(item: wire.CSINode) -> CSINode:
    """The attach limits of a node; a driver without a count has no limit."""
    limits = {
        driver.name: driver.allocatable.count
        for driver in item.spec.drivers or ()
        if driver.allocatable is not None and driver.allocatable.count is not None
    }
    return CSINode(item.metadata.name, limits)


def service(item: wire.Service) -> Service:
    """The Service; without a selector it selects no pod."""
    return Service(item.metadata.namespace, item.metadata.name, item.spec.selector or {})
