"""Volume claims, volumes, storage classes and attach limits."""

import msgspec

from desched.adapters.kubernetes.client.api_types.pods import Present
from desched.api_objects.metadata import Int32, Named, NodeSelector, Wire


class ClaimSpec(Wire):
    access_modes: list[str] | None = None
    storage_class_name: str | None = None
    volume_name: str | None = None


class PersistentVolumeClaim(Named):
    spec: ClaimSpec = msgspec.field(default_factory=ClaimSpec)


class VolumeNodeAffinity(Wire):
    required: NodeSelector | None = None


class CSISource(Wire):
    driver: str
    volume_handle: str = ""


class PersistentVolumeSpec(Wire):
    storage_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    local: Present | None = None
    host_path: Present | None = None
    csi: CSISource | None = None


class PersistentVolume(Named):
    spec: PersistentVolumeSpec = msgspec.field(default_factory=PersistentVolumeSpec)


class TopologyRequirement(Wire):
    key: str
    values: list[str] | None = None


class TopologyTerm(Wire):
    match_label_expressions: list[TopologyRequirement] | None = None


class StorageClass(Named):
    provisioner: str
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologyTerm] | None = None


class AttachLimit(Wire):
    count: Int32 | None = None


class CSINodeDriver(Wire):
    name: str
    allocatable: AttachLimit | None = None


class CSINodeSpec(Wire):
    drivers: list[CSINodeDriver] | None = None


class CSINode(Named):
    spec: CSINodeSpec = msgspec.field(default_factory=CSINodeSpec)
