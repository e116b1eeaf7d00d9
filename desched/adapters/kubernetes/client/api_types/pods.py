"""Pods; the parts that pods of a workload repeat are in `scheduling`."""

import msgspec
from msgspec import Raw

from desched.api_objects.metadata import Condition, Int32, Int64, Strings, Time, Wire, Word


class PodMetadata(Wire):
    name: Word
    namespace: Word
    uid: Word
    creation_timestamp: Time
    deletion_timestamp: Time | None = None
    labels: Raw = Raw()
    annotations: Raw = Raw()
    owner_references: Raw = Raw()


class Container(Wire):
    name: str
    image: str | None = None
    resources: Raw = Raw()
    ports: Raw = Raw()
    restart_policy: str | None = None


class ClaimSource(Wire):
    claim_name: str


class Present(Wire):
    """An object of which only its being there matters."""


class EmptyDirSource(Wire):
    medium: str | None = None


class HostPathSource(Wire):
    path: str = ""


class CSISource(Wire):
    driver: str = ""
    volume_attributes: Strings = None


class Volume(Wire):
    name: str
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: Present | None = None
    empty_dir: EmptyDirSource | None = None
    host_path: HostPathSource | None = None
    csi: CSISource | None = None


class SchedulingGroup(Wire):
    """The `schedulingGroup` of Kubernetes 1.36, or the `workloadRef` of 1.35."""

    pod_group_name: str | None = None
    name: str | None = None


class PodResourceClaim(Wire):
    """A ResourceClaim of a pod; made from a template, or any other."""

    name: str = ""
    resource_claim_template_name: str | None = None


class PodSpec(Wire):
    containers: list[Container]
    init_containers: list[Container] | None = None
    volumes: list[Volume] | None = None
    node_name: str | None = None
    scheduler_name: str | None = None
    priority: Int32 | None = None
    termination_grace_period_seconds: Int64 | None = None
    resources: Raw = Raw()
    overhead: Raw = Raw()
    node_selector: Raw = Raw()
    affinity: Raw = Raw()
    tolerations: Raw = Raw()
    topology_spread_constraints: Raw = Raw()
    resource_claims: Raw = Raw()
    scheduling_gates: Raw = Raw()
    scheduling_group: Raw = Raw()
    workload_ref: Raw = Raw()


class Waiting(Wire):
    reason: str | None = None


class Terminated(Wire):
    finished_at: Time | None = None


class ContainerState(Wire):
    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(Wire):
    name: str
    restart_count: Int32 = 0
    state: Raw = Raw()
    last_state: Raw = Raw()
    resources: Raw = Raw()
    allocated_resources: Raw = Raw()


class PodStatus(Wire):
    phase: str | None = None
    qos_class: str | None = None
    nominated_node_name: str | None = None
    start_time: Time | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: Raw = Raw()
    allocated_resources: Raw = Raw()


class Pod(Wire):
    metadata: PodMetadata
    spec: PodSpec
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class ResourceRequirements(Wire):
    requests: Strings = None
    limits: Strings = None


class ContainerPort(Wire):
    host_port: Int32 | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")
    protocol: str | None = None
