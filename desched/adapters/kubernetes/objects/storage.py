"""Volume claims, volumes, storage classes and attach limits, in the model's terms."""

from desched.adapters.kubernetes.client import access
from desched.adapters.kubernetes.client.api_types import storage
from desched.adapters.kubernetes.objects.metadata import texts_of
from desched.api_objects.kinds import Kind
from desched.api_objects.selectors import node_selector_terms
from desched.model.cluster import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from desched.model.selectors import NodeSelectorTerm, Operator, Requirement
from desched.planning.eligibility.controllers import LONGEST_NAME

_TOPOLOGY_LABELS = frozenset(
    f"{prefix}/{level}"
    for prefix in ("topology.kubernetes.io", "failure-domain.beta.kubernetes.io")
    for level in ("zone", "region")
)
"""The scheduler matches these labels of a volume with the node's (VolumeZone)."""

_FOR_ONE_POD = "ReadWriteOncePod"
_FOR_SEVERAL_NODES = frozenset({"ReadWriteMany", "ReadOnlyMany"})


def claim(item: storage.PersistentVolumeClaim) -> PersistentVolumeClaim:
    """The claim."""
    modes = frozenset(item.spec.access_modes or ())
    return PersistentVolumeClaim(
        namespace=item.metadata.namespace,
        name=item.metadata.name,
        storage_class=item.spec.storage_class_name or "",
        volume=(item.spec.volume_name or "")[: LONGEST_NAME + 1],
        for_one_pod=_FOR_ONE_POD in modes,
        for_one_node=not modes & _FOR_SEVERAL_NODES,
    )


def volume(item: storage.PersistentVolume) -> PersistentVolume:
    """The volume."""
    spec = item.spec
    required = spec.node_affinity.required if spec.node_affinity is not None else None
    return PersistentVolume(
        name=item.metadata.name,
        storage_class=spec.storage_class_name or "",
        node_affinity=None if required is None else node_selector_terms(required),
        local=spec.local is not None or spec.host_path is not None,
        csi_driver=spec.csi.driver if spec.csi is not None else "",
        csi_handle=spec.csi.volume_handle if spec.csi is not None else "",
        labels={k: v for k, v in texts_of(item.metadata.labels).items() if k in _TOPOLOGY_LABELS},
    )


def storage_class(item: storage.StorageClass) -> StorageClass:
    """The storage class."""
    return StorageClass(
        name=item.metadata.name,
        provisioner=item.provisioner,
        waits_for_consumer=item.volume_binding_mode == "WaitForFirstConsumer",
        topologies=tuple(map(_topology, item.allowed_topologies or ())) or None,
    )


def _topology(term: storage.TopologyTerm) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        tuple(
            Requirement(expression.key, Operator.IN, tuple(expression.values or ()))
            for expression in term.match_label_expressions or ()
        )
    )


def csi_node(item: storage.CSINode) -> CSINode:
    """The attach limits of a node; a driver without a count has no limit."""
    limits = {
        driver.name: driver.allocatable.count
        for driver in item.spec.drivers or ()
        if driver.allocatable is not None and driver.allocatable.count is not None
    }
    return CSINode(item.metadata.name, limits)


CLAIMS = Kind(access.LIST_CLAIMS, storage.PersistentVolumeClaim, claim)
VOLUMES = Kind(access.LIST_VOLUMES, storage.PersistentVolume, volume)
STORAGE_CLASSES = Kind(
    access.LIST_STORAGE_CLASSES, storage.StorageClass, storage_class, may_be_absent=True
)
CSI_NODES = Kind(access.LIST_CSI_NODES, storage.CSINode, csi_node, may_be_absent=True)
