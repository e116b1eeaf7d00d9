"""The JSON of the API server, narrowed to the fields that are used.

Servers print null for empty lists and maps, so nearly everything may be None. `msgspec.Raw` leaves
a part undecoded: the pods of a workload repeat it byte for byte, and it is decoded once for all.
"""
# ruff: noqa: D101  (the classes mirror the API's own, which its reference documents)

from datetime import datetime
from typing import Annotated, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta, Raw

T = TypeVar("T")

Strings = dict[str, str] | None
Word = Annotated[str, Meta(min_length=1)]
Time = Annotated[datetime, Meta(tz=True)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""As wide as the API's own fields: arithmetic on them may count on that."""


class Wire(msgspec.Struct, gc=False, rename="camel"):
    """Decoded JSON is a tree, so the garbage collector need not look for cycles in it."""


class ListMeta(Wire):
    continue_: str | None = msgspec.field(default=None, name="continue")
    remaining_item_count: Int64 | None = None


class Items(Wire, Generic[T]):
    """One page of a list; without `items`, which is null where there are none, it is no list."""

    items: list[T] | None
    metadata: ListMeta | None = None


class OwnerReference(Wire):
    kind: str
    name: str
    uid: str
    api_version: str = ""
    controller: bool | None = None


class Metadata(Wire):
    name: Word
    namespace: str = ""
    uid: str = ""
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    generation: Int64 | None = None
    labels: Strings = None
    annotations: Strings = None
    owner_references: list[OwnerReference] | None = None


class Named(Wire):
    """Any object, as far as an error message needs it."""

    metadata: Metadata


class Condition(Wire):
    type: str
    status: str = ""
    reason: str | None = None


# Selectors


class SelectorRequirement(Wire):
    key: str
    operator: str
    values: list[str] | None = None


class LabelSelector(Wire):
    match_labels: Strings = None
    match_expressions: list[SelectorRequirement] | None = None


class NodeSelectorTerm(Wire):
    match_expressions: list[SelectorRequirement] | None = None
    match_fields: list[SelectorRequirement] | None = None


class NodeSelector(Wire):
    node_selector_terms: list[NodeSelectorTerm] | None = None


# Nodes


class Taint(Wire):
    key: str
    effect: str
    value: str | None = None


class NodeSpec(Wire):
    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class NodeAddress(Wire):
    type: str
    address: str


class NodeInfo(Wire):
    operating_system: str | None = None


class ContainerImage(Wire):
    names: list[str] | None = None
    size_bytes: Int64 | None = None


class NodeStatus(Wire):
    capacity: Strings = None
    allocatable: Strings = None
    conditions: list[Condition] | None = None
    addresses: list[NodeAddress] | None = None
    node_info: NodeInfo | None = None
    images: list[ContainerImage] | None = None


class Node(Wire):
    metadata: Metadata
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


# Pods


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


class Volume(Wire):
    name: str
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: Present | None = None
    empty_dir: EmptyDirSource | None = None
    host_path: HostPathSource | None = None


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


class ContainerStatus(Wire):
    name: str
    resources: Raw = Raw()
    allocated_resources: Raw = Raw()


class PodStatus(Wire):
    phase: str | None = None
    qos_class: str | None = None
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


class ContainerPort(Wire):
    host_port: Int32 | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")
    protocol: str | None = None


class PreferredNodes(Wire):
    weight: Int32
    preference: NodeSelectorTerm


class NodeAffinity(Wire):
    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[PreferredNodes] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Wire):
    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None


class PreferredPods(Wire):
    weight: Int32
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Wire):
    required: list[PodAffinityTerm] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[PreferredPods] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Wire):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Wire):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class TopologySpreadConstraint(Wire):
    topology_key: str
    max_skew: Int32
    when_unsatisfiable: str
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


# Workloads


class ReplicaSetSpec(Wire):
    replicas: Int32 | None = None
    selector: LabelSelector | None = None


class ReplicaSetStatus(Wire):
    observed_generation: Int64 | None = None
    replicas: Int32 | None = None
    ready_replicas: Int32 | None = None


class ReplicaSet(Wire):
    metadata: Metadata
    spec: ReplicaSetSpec = msgspec.field(default_factory=ReplicaSetSpec)
    status: ReplicaSetStatus = msgspec.field(default_factory=ReplicaSetStatus)


class DeploymentSpec(Wire):
    replicas: Int32 | None = None


class DeploymentStatus(Wire):
    observed_generation: Int64 | None = None
    replicas: Int32 | None = None
    updated_replicas: Int32 | None = None
    ready_replicas: Int32 | None = None
    available_replicas: Int32 | None = None


class Deployment(Wire):
    metadata: Metadata
    spec: DeploymentSpec = msgspec.field(default_factory=DeploymentSpec)
    status: DeploymentStatus = msgspec.field(default_factory=DeploymentStatus)


class RollingUpdate(Wire):
    partition: Int32 | None = None


class UpdateStrategy(Wire):
    type: str | None = None
    rolling_update: RollingUpdate | None = None


class StatefulSetSpec(Wire):
    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    update_strategy: UpdateStrategy | None = None


class StatefulSetStatus(Wire):
    observed_generation: Int64 | None = None
    ready_replicas: Int32 | None = None
    updated_replicas: Int32 | None = None
    current_revision: str | None = None
    update_revision: str | None = None


class StatefulSet(Wire):
    metadata: Metadata
    spec: StatefulSetSpec = msgspec.field(default_factory=StatefulSetSpec)
    status: StatefulSetStatus = msgspec.field(default_factory=StatefulSetStatus)


class OnExitCodes(Wire):
    operator: str
    values: list[Int32] | None = None


class OnPodCondition(Wire):
    type: str
    status: str | None = None


class PodFailureRule(Wire):
    action: str
    on_exit_codes: OnExitCodes | None = None
    on_pod_conditions: list[OnPodCondition] | None = None


class PodFailurePolicy(Wire):
    rules: list[PodFailureRule] | None = None


class JobSpec(Wire):
    parallelism: Int32 | None = None
    pod_failure_policy: PodFailurePolicy | None = None


class JobStatus(Wire):
    ready: Int32 | None = None


class Job(Wire):
    metadata: Metadata
    spec: JobSpec = msgspec.field(default_factory=JobSpec)
    status: JobStatus = msgspec.field(default_factory=JobStatus)


class ScaleTarget(Wire):
    kind: str
    name: str


class MetricName(Wire):
    name: str


class MetricValue(Wire):
    average_utilization: Int32 | None = None
    average_value: str | None = None
    value: str | None = None


class MetricSource(Wire):
    """One measure of an autoscaler: its specification has a target, its status a current value."""

    name: str | None = None
    metric: MetricName | None = None
    target: MetricValue | None = None
    current: MetricValue | None = None


class Metric(Wire):
    type: str = ""
    resource: MetricSource | None = None
    container_resource: MetricSource | None = None
    pods: MetricSource | None = None
    object: MetricSource | None = None
    external: MetricSource | None = None


class AutoscalerSpec(Wire):
    scale_target_ref: ScaleTarget
    max_replicas: Int32
    min_replicas: Int32 | None = None
    metrics: list[Metric] | None = None


class AutoscalerStatus(Wire):
    current_replicas: Int32 | None = None
    desired_replicas: Int32 | None = None
    last_scale_time: Time | None = None
    current_metrics: list[Metric] | None = None


class HorizontalPodAutoscaler(Wire):
    metadata: Metadata
    spec: AutoscalerSpec
    status: AutoscalerStatus = msgspec.field(default_factory=AutoscalerStatus)


# Everything else


class BudgetSpec(Wire):
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class BudgetStatus(Wire):
    disruptions_allowed: Int32 | None = None
    observed_generation: Int64 | None = None


class PodDisruptionBudget(Wire):
    metadata: Metadata
    spec: BudgetSpec = msgspec.field(default_factory=BudgetSpec)
    status: BudgetStatus = msgspec.field(default_factory=BudgetStatus)


class PriorityClass(Wire):
    metadata: Metadata
    value: Int32


class Namespace(Wire):
    metadata: Metadata


class ClaimSpec(Wire):
    access_modes: list[str] | None = None
    storage_class_name: str | None = None
    volume_name: str | None = None


class PersistentVolumeClaim(Wire):
    metadata: Metadata
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


class PersistentVolume(Wire):
    metadata: Metadata
    spec: PersistentVolumeSpec = msgspec.field(default_factory=PersistentVolumeSpec)


class TopologyRequirement(Wire):
    key: str
    values: list[str] | None = None


class TopologyTerm(Wire):
    match_label_expressions: list[TopologyRequirement] | None = None


class StorageClass(Wire):
    metadata: Metadata
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


class CSINode(Wire):
    metadata: Metadata
    spec: CSINodeSpec = msgspec.field(default_factory=CSINodeSpec)


class ServiceSpec(Wire):
    selector: Strings = None


class Service(Wire):
    metadata: Metadata
    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)


class Version(Wire):
    git_version: str


class APIGroup(Wire):
    name: str


class APIGroupList(Wire):
    """What the API server has beside the core group."""

    kind: Literal["APIGroupList"]
    groups: list[APIGroup]


# Answers to writes


class Cause(Wire):
    reason: str | None = None
    message: str | None = None


class StatusDetails(Wire):
    causes: list[Cause] | None = None


class Status(Wire):
    """The API server's account of a request that it refused or carried out."""

    kind: str
    status: str | None = None
    message: str | None = None
    reason: str | None = None
    details: StatusDetails | None = None
