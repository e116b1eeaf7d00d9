"""The objects of a cluster, with only the fields that planning uses."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Annotated

import msgspec

from desched.model.bounds import Count, Int32, Time
from desched.model.cache import cached
from desched.model.extras import Objects
from desched.model.groups import grouped
from desched.model.names import (
    Annotations,
    Form,
    ForPeople,
    HostPath,
    Instead,
    LabeledName,
    Labels,
    LabelValue,
    Namespace,
    NodeName,
    ObjectName,
    Plain,
    PodName,
    TaintValue,
    Uid,
    VolumeName,
    WorkloadName,
)
from desched.model.resources import Amounts
from desched.model.selectors import LabelSelector, NodeSelectorTerm, Operator, Requirement
from desched.model.volcano_scheduler import VolcanoConfiguration

SYSTEM_CRITICAL_PRIORITY = 2_000_000_000
"""Priorities from here on belong to system-cluster-critical and system-node-critical."""


class Effect(StrEnum):
    """The effect of a taint on pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Taint(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A taint on a node."""

    key: Plain
    effect: Plain
    value: TaintValue = ""


class Toleration(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A toleration of a pod; an empty key or effect matches all."""

    key: Plain = ""
    operator: Plain = "Equal"
    value: TaintValue = ""
    effect: Plain = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether it tolerates the taint; an unknown operator tolerates none.

        Source: k8s.io/api/core/v1 Toleration.ToleratesTaint.
        """
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return self.operator == "Equal" and bool(self.key) and self.value == taint.value


DEFAULT_SCHEDULER = "default-scheduler"

STEERING_TAINT = Taint("desched.io/overloaded", Effect.PREFER_NO_SCHEDULE)
"""The soft taint with which desched keeps pods away from a node."""


MIGRATING_ANNOTATION = "descheduler.alpha.kubernetes.io/eviction-in-progress"
"""KubeVirt annotates a pod with it until it has moved the virtual machine."""


class Node(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A node; `capacity` is the whole machine, `allocatable` is available for requests of pods.

    `images` has the size in bytes of each image on the node, by each of its names. `steered_until`
    is the expiry of desched's own STEERING_TAINT, None without it. `troubled_since` is since when
    it has not been Ready or has been under pressure, None if it is neither or that is not known.
    """

    name: NodeName
    uid: Uid
    created_at: Time
    labels: Labels
    capacity: Amounts
    allocatable: Amounts
    ready: bool = True
    unschedulable: bool = False
    deleting: bool = False
    taints: tuple[Taint, ...] = ()
    addresses: tuple[Plain, ...] = ()
    operating_system: Plain = "linux"
    images: Mapping[Plain, Count] = {}
    steered_until: Time | None = None
    troubled_since: Time | None = None

    @property
    def avoided(self) -> bool:
        """Whether the node has STEERING_TAINT, whoever set it."""
        taints = ((taint.key, taint.effect) for taint in self.taints)
        return (STEERING_TAINT.key, STEERING_TAINT.effect) in taints

    @property
    def avoided_by_others(self) -> bool:
        """Whether somebody else set this taint; desched does not touch it."""
        return self.avoided and self.steered_until is None


class PodRef(msgspec.Struct, frozen=True, gc=False, order=True):
    """The identity of a pod; a later pod with the same name has another uid."""

    namespace: Namespace
    name: PodName
    uid: Uid = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Owner(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The controller reference of a pod."""

    kind: Plain
    name: Annotated[str, Form.OWNER]
    uid: Uid
    api_version: Plain = ""

    @property
    def declared_kind(self) -> str:
        """The group and kind as in policies, such as `argoproj.io/Rollout`; core has no group."""
        group, slash, _ = self.api_version.rpartition("/")
        return f"{group}{slash}{self.kind}"


ControllerKey = tuple[Namespace, Uid]
"""The namespace and the uid of a controller.

Tenants can set any uid as the owner of their pods, so the uid alone identifies no controller.
"""


class VolumeKind(StrEnum):
    """Volumes that may bind a pod to a node, or whose data is lost with the pod; no others."""

    CLAIM = "persistentVolumeClaim"
    EPHEMERAL_CLAIM = "ephemeral"
    EMPTY_DIR = "emptyDir"
    HOST_PATH = "hostPath"
    MODEL = "model"


class PodVolume(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A volume of a pod: a claim, an emptyDir (perhaps in memory), a hostPath, or a model.

    An emptyDir on disk and a hostPath have the `name` by which annotations of the pod name them.
    `model` is the digest of a model that GPUStack mounts from the node.
    """

    kind: VolumeKind
    claim: VolumeName = ""
    in_memory: bool = False
    path: HostPath = ""
    model: LabeledName = ""
    name: VolumeName = ""


class PodAffinityTerm(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The pods that another pod should be near to, or away from, in a topology domain.

    A `selector` of None matches no pod. Without `namespaces` and `namespace_selector`, the term
    applies to the carrying pod's namespace. `weight` is 0 for required terms, and negative for
    preferred anti-affinity.
    """

    topology_key: Plain
    selector: LabelSelector | None
    namespaces: tuple[Namespace, ...] = ()
    namespace_selector: LabelSelector | None = None
    weight: Int32 = 0


class SpreadConstraint(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How evenly pods must be spread over topology domains; `hard` means DoNotSchedule."""

    topology_key: Plain
    max_skew: Int32
    hard: bool
    selector: LabelSelector | None
    min_domains: Int32 = 1
    honors_affinity: bool = True
    honors_taints: bool = False
    match_label_keys: tuple[Plain, ...] = ()

    def selector_of(self, labels: Mapping[str, str]) -> LabelSelector | None:
        """The selector for a pod with these labels: `match_label_keys` add the pod's own values."""
        keys = [key for key in self.match_label_keys if key in labels]
        if self.selector is None or not keys:
            return self.selector
        own = (Requirement(key, Operator.IN, (labels[key],)) for key in keys)
        return LabelSelector((*self.selector.requirements, *own))


class HostPort(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A port of the node that a pod uses; an empty address means all addresses."""

    port: Int32
    protocol: Plain = "TCP"
    address: LabelValue = ""


class SchedulingClass(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Everything that decides on which nodes a pod fits; pods of a workload share one object.

    `required_node_affinity` is None without one; an empty tuple matches no node. `scored_*` are the
    requests for the resource scores, with the scheduler's defaults for containers without requests.
    `unevaluated` names hard constraints that the planner does not evaluate; such a pod is refused.
    """

    requests: Amounts
    node_selector: Annotated[tuple[tuple[str, str], ...], Form.SELECTED] = ()
    required_node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    unevaluated: tuple[Annotated[str, Instead("a constraint")], ...] = ()
    scored_cpu_millicores: Count = 0
    scored_memory_bytes: Count = 0
    preferred_node_affinity: tuple[tuple[Int32, NodeSelectorTerm], ...] = ()
    pod_affinity: tuple[PodAffinityTerm, ...] = ()
    pod_anti_affinity: tuple[PodAffinityTerm, ...] = ()
    preferred_pod_affinity: tuple[PodAffinityTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    images: tuple[Plain, ...] = ()


CLAIMS_NOT_READ = "its ResourceClaims are not read"
"""Why it is not known which devices other nodes have for a pod."""

FINISHED_PHASES = frozenset({"Succeeded", "Failed"})
"""A pod in these phases holds no resources any more."""


_LEAVING_SOON, _LEAVING_LATE = timedelta(minutes=10), timedelta(minutes=1)
"""A deleted pod counts as gone from so long before the end of its grace period until so long after.

With a longer grace period it may use its node for hours; after the end, for as long as it is there.
"""


CANNOT_START = frozenset(
    {
        "CrashLoopBackOff",
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    }
)
"""Why containers wait that the kubelet tries to start in vain."""


class Pod(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A pod; `annotations` has only those that desched reads.

    `nominated_node` is where kube-scheduler keeps room for it until it is bound. `scheduling_group`
    is the group that its specification names. `unschedulable` is true if its scheduler has found no
    node for it. `leaves_at` is when its grace period ends if it is `deleting`. `uncounted_claims`
    is why its requests do not have the devices of its ResourceClaims, empty if they have. Until the
    claims are read, `claim_templates` names what they are made from. `waiting_for` is the kubelet's
    reason why a container of a pod that is not Ready waits, such as `ImagePullBackOff`, empty if
    none does; `waiting_since` is since when at the latest.
    """

    namespace: Namespace
    name: PodName
    uid: Uid
    scheduling: SchedulingClass
    created_at: Time
    labels: Labels = {}
    annotations: Annotations = {}
    owner: Owner | None = None
    node: NodeName = ""
    phase: Plain = "Running"
    ready: bool = True
    started_at: Time | None = None
    deleting: bool = False
    priority: Int32 = 0
    qos: Plain = "Burstable"
    scheduler: Plain = DEFAULT_SCHEDULER
    volumes: tuple[PodVolume, ...] = ()
    has_resource_claims: bool = False
    uncounted_claims: Annotated[str, Instead(CLAIMS_NOT_READ)] = CLAIMS_NOT_READ
    claim_templates: Annotated[tuple[str, ...], Form.FOR_PEOPLE] = ()
    scheduling_group: LabelValue = ""
    gated: bool = False
    unschedulable: bool = False
    grace_period_seconds: Count = 30
    resizing: bool = False
    resize_deferred: bool = False
    waiting_for: Annotated[str, Form.FOR_PEOPLE] = ""
    waiting_since: Time | None = None
    nominated_node: NodeName = ""
    leaves_at: Time | None = None

    @property
    def ref(self) -> PodRef:
        """The pod's identity."""
        return PodRef(self.namespace, self.name, self.uid)

    @property
    def controller(self) -> ControllerKey | None:
        """The key of the pod's controller, None without an owner."""
        return (self.namespace, self.owner.uid) if self.owner else None

    @property
    def may_share_claims(self) -> bool:
        """Whether other pods may use a claim of its own."""
        return any(volume.kind is VolumeKind.CLAIM for volume in self.volumes)

    @property
    def migrating(self) -> bool:
        """Whether KubeVirt is moving its virtual machine to another pod."""
        return MIGRATING_ANNOTATION in self.annotations

    @property
    def finished(self) -> bool:
        """Whether the pod has ended and holds no resources any more."""
        return self.phase in FINISHED_PHASES

    def is_overdue(self, now: datetime) -> bool:
        """Whether its grace period is over, and something keeps it: a finalizer, or its runtime."""
        return self.leaves_at is not None and now - self.leaves_at > _LEAVING_LATE

    def lingers(self, now: datetime) -> bool:
        """Whether it is deleted but still uses its node: it is overdue, or may take long."""
        if self.leaves_at is None or self.finished:
            return False
        return self.is_overdue(now) or self.leaves_at - now > _LEAVING_SOON

    @property
    def cannot_start(self) -> bool:
        """Whether a container waits for what does not end without help, or not soon."""
        return self.waiting_for in CANNOT_START

    @property
    def of_job(self) -> bool:
        """Whether a Job controls the pod, of Kubernetes or of Volcano: it ends by itself."""
        return self.owner is not None and self.owner.kind == "Job"


class Autoscaler(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The status of a HorizontalPodAutoscaler.

    `last_scaled_at` is the last change of the number of replicas; `above_target` is true if a
    metric is above its target.
    """

    current_replicas: Count
    desired_replicas: Count
    max_replicas: Count
    last_scaled_at: Time | None = None
    above_target: bool = False


class Workload(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The controller that owns pods and replaces an evicted one.

    `ready_replicas` is None if the controller does not report it. `rolling_out` is true until all
    replicas have the newest revision, `scaling` while an autoscaler changes the number of replicas.
    `survives_disruption` is false if an eviction counts as a failure of the workload (a Job without
    a policy for it). `template_requests` is what the template of its pods requests, as
    VerticalPodAutoscalers change it, None if there is no template; `requests_unknown` is why that
    is not known, `annotations_unknown` why its annotations are not. `pinned_to` is the node that
    the template names: all its pods go there without a scheduler. `rolled_by_hand` is why only a
    person ends a rollout, empty if its controller does. Unless `sized`,
    `desired_replicas` is only the number of existing pods, and the `uid` begins with the namespace,
    because only the owner references of the pods have it.
    """

    kind: Plain
    namespace: Namespace
    name: WorkloadName
    uid: Uid
    desired_replicas: Count
    annotations: Annotations = {}
    rolling_out: bool = False
    scaling: bool = False
    ready_replicas: Count | None = None
    autoscaler: Autoscaler | None = None
    survives_disruption: bool = True
    template_requests: Amounts | None = None
    requests_unknown: Annotated[str, Instead("a VerticalPodAutoscaler")] = ""
    sized: bool = True
    annotations_unknown: ForPeople = ""
    pinned_to: NodeName = ""
    rolled_by_hand: Plain = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class PodDisruptionBudget(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A PodDisruptionBudget; `up_to_date` is false until its controller has seen the last edit.

    A `selector` of None matches no pod.
    """

    namespace: Namespace
    name: ObjectName
    selector: LabelSelector | None
    disruptions_allowed: Count
    up_to_date: bool = True

    def covers(self, pod: Pod) -> bool:
        """Whether an eviction of the pod is charged to this budget."""
        return pod.namespace == self.namespace and self.selects(pod.labels)

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether it covers the pods of its namespace with these labels."""
        return self.selector is not None and self.selector.matches(labels)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class PersistentVolumeClaim(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A claim; `volume` is empty while unbound.

    `for_one_pod` is access mode ReadWriteOncePod. `for_one_node` is true without an access mode
    that allows several nodes.
    """

    namespace: Namespace
    name: VolumeName
    storage_class: Plain = ""
    volume: VolumeName = ""
    for_one_pod: bool = False
    for_one_node: bool = False


class PersistentVolume(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A volume; `node_affinity` is None if every node can reach it."""

    name: VolumeName
    storage_class: Plain = ""
    node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    local: bool = False
    csi_driver: Plain = ""
    csi_handle: Plain = ""
    labels: Mapping[Plain, Plain] = {}


class StorageClass(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How volumes of a class are provisioned; `topologies` is None without a restriction."""

    name: Plain
    provisioner: Plain
    waits_for_consumer: bool = False
    topologies: tuple[NodeSelectorTerm, ...] | None = None


class CSINode(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The maximum number of attached volumes for each CSI driver; without an entry, no limit."""

    name: NodeName
    attach_limits: Mapping[Plain, Count] = {}


class Service(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A Service; the scheduler spreads its pods."""

    namespace: Namespace
    name: ObjectName
    selector: Labels = {}

    def selects(self, pod: Pod) -> bool:
        """Whether it selects the pod; without a selector it selects none."""
        return bool(self.selector) and self.selector.items() <= pod.labels.items()


class ServerHealth(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How the API server answered the latest requests of this process.

    Of `requests`, the server did not answer `failed` or answered them with 5xx. A small request
    took `latest_seconds` in the middle; `usual_seconds` is the same for the hour before. They are
    None if there were too few to tell.
    """

    requests: Count = 0
    failed: Count = 0
    latest_seconds: float | None = None
    usual_seconds: float | None = None


class LargeObjects(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Objects of a namespace that are too large to be kept; `example` is the first, and why.

    `objects` are not known at all, so all pods of the namespace stay. Of `pods` only the requests
    are known, so only these pods stay.
    """

    objects: Count = 0
    pods: Count = 0
    example: Annotated[str, Instead("an object")] = ""

    def __str__(self) -> str:
        more = self.objects + self.pods - 1
        return self.example + (f", and {more} more" if more > 0 else "")


def owners_of(namespaces: Mapping[Namespace, Labels], label: str) -> Mapping[str, str]:
    """The owner of each namespace with this label; its text cannot be a namespace's name."""
    return {name: f"{label}={of[label]}" for name, of in namespaces.items() if label in of}


class ClusterState(msgspec.Struct, frozen=True, dict=True):
    """All objects of the cluster that planning uses.

    Three mappings have a pod's controller as key. `workloads` has its workload: the key of a
    ReplicaSet leads to the Deployment. `controller_selectors` has the controller's own selector.
    `controller_owners` has the controller's owner if its kind is not understood, such as the
    Rollout of a ReplicaSet.

    `declared_owners` has the annotations of the controllers of the kinds that a policy declares, by
    namespace (empty for a cluster-scoped one) and uid, `unread_kinds` why those of a kind were not
    read. `too_large` has the objects that are not kept, by namespace.

    `sized_owners` has the kind, the namespace and the name of what VerticalPodAutoscalers target.
    `namespaces` has their labels, `priority_classes` their values. `own_pod` is desched's own pod,
    None outside the cluster. `volcano_configurations` are those that the policy names, by the
    namespace and the name of their ConfigMap. `extras` are the objects that plugins read, by the
    name of the plugin. `server_times` is the API server's clock, in whole seconds, at its earliest
    and its latest response; None if it is desched's clock. `server_health` is how it answered
    lately.
    """

    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    workloads: Mapping[ControllerKey, Workload] = {}
    controller_selectors: Mapping[ControllerKey, LabelSelector] = {}
    controller_owners: Mapping[ControllerKey, Owner] = {}
    sized_owners: frozenset[tuple[Plain, Namespace, WorkloadName]] = frozenset()
    budgets: tuple[PodDisruptionBudget, ...] = ()
    priority_classes: Mapping[Plain, Int32] = {}
    namespaces: Mapping[Namespace, Labels] = {}
    claims: Mapping[tuple[Namespace, VolumeName], PersistentVolumeClaim] = {}
    volumes: Mapping[VolumeName, PersistentVolume] = {}
    storage_classes: Mapping[Plain, StorageClass] = {}
    csi_nodes: Mapping[NodeName, CSINode] = {}
    services: tuple[Service, ...] = ()
    server_version: Plain = ""
    own_pod: PodRef | None = None
    server_times: tuple[Time, Time] | None = None
    server_health: ServerHealth = ServerHealth()
    extras: Mapping[Plain, Objects] = {}
    volcano_configurations: Mapping[Plain, VolcanoConfiguration] = {}
    declared_owners: Mapping[ControllerKey, Annotations] = {}
    unread_kinds: Mapping[Plain, Annotated[str, Instead("its objects were not read")]] = {}
    too_large: Mapping[Namespace, LargeObjects] = {}

    def owner_annotations(self, namespace: str, owner: Owner) -> Mapping[str, str] | None:
        """The annotations of the controller of a pod in the namespace, None if not known."""
        cluster_scoped = self.declared_owners.get(("", owner.uid))
        return self.declared_owners.get((namespace, owner.uid), cluster_scoped)

    @cached_property
    def own_pods(self) -> tuple[Pod, ...]:
        """The pods with the name of desched's own pod: it, and perhaps its predecessor."""
        own = self.own_pod
        where = (own.namespace, own.name) if own else None
        return tuple(pod for pod in self.pods if (pod.namespace, pod.name) == where)

    @cached_property
    def _own_workload(self) -> Workload | None:
        return self.workload_of(self.own_pods[0]) if self.own_pods else None

    def runs_desched(self, pod: Pod) -> bool:
        """Whether the pod is desched's own, or of the same workload, as standby replicas are."""
        own, workload = self.own_pod, self.workload_of(pod)
        if own is None:
            return False
        peers = self._own_workload
        is_peer = peers is not None and workload is not None and workload.uid == peers.uid
        return is_peer or (pod.namespace, pod.name) == (own.namespace, own.name)

    @cached_property
    def node_by_name(self) -> Mapping[str, Node]:
        """Nodes by name."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def pods_by_node(self) -> Mapping[str, tuple[Pod, ...]]:
        """The pods that hold resources, by the name of their node."""
        by_node = grouped((pod.node, pod) for pod in self._placed_pods)
        nobody: dict[str, tuple[Pod, ...]] = {node.name: () for node in self.nodes}
        return nobody | {name: tuple(pods) for name, pods in by_node.items()}

    @property
    def assumed_pods(self) -> Iterable[Pod]:
        """The pods that kube-scheduler counts on their `nominated_node` until they are bound.

        It is still preparing them there, such as their volumes. Those that wait for a preemption
        are not among them.
        """
        nominated = (pod for pod in self.pods if pod.nominated_node and not pod.node)
        return (p for p in nominated if not (p.unschedulable or p.deleting or p.finished))

    @cached_property
    def _placed_pods(self) -> Sequence[Pod]:
        """The pods that hold resources of a node."""
        # This is faster than asking each of a hundred thousand pods whether it has finished.
        return [pod for pod in self.pods if pod.node and pod.phase not in FINISHED_PHASES]

    @cached_property
    def leaving_pods(self) -> Sequence[Pod]:
        """The pods that have a node and terminate or have finished."""
        ended = FINISHED_PHASES
        return [pod for pod in self.pods if (pod.deleting or pod.phase in ended) and pod.node]

    @cached_property
    def pods_by_controller(self) -> Mapping[ControllerKey, Sequence[Pod]]:
        """The pods that hold resources, by their controller."""
        return grouped(
            ((pod.namespace, pod.owner.uid), pod)
            for pod in self._placed_pods
            if pod.owner is not None
        )

    def top_owner(self, pod: Pod) -> Owner | None:
        """The controller of the pod, or that controller's owner if its kind is not understood."""
        if pod.owner is None:
            return None
        return self.controller_owners.get((pod.namespace, pod.owner.uid), pod.owner)

    def workload_of(self, pod: Pod) -> Workload | None:
        """The workload of the pod, None if it has no owner or one that is not understood."""
        return self.workloads.get((pod.namespace, pod.owner.uid)) if pod.owner else None

    def budgets_of(self, pod: Pod) -> tuple[PodDisruptionBudget, ...]:
        """The budgets that cover the pod."""
        if not self.budgets:
            return ()
        return self._budgets_covering(pod.namespace, frozenset(pod.labels.items()))

    @cached
    def _budgets_covering(
        self, namespace: str, labels: frozenset[tuple[str, str]]
    ) -> tuple[PodDisruptionBudget, ...]:
        """The same for all pods with these labels; those of a workload share them."""
        # A namespace may have too many budgets to compare all.
        keys = ((namespace, label) for label in (None, *labels))
        candidates = sorted({i for key in keys for i in self._budgets_by_demand.get(key, ())})
        budgets = (self.budgets[i] for i in candidates)
        return tuple(budget for budget in budgets if budget.selects(dict(labels)))

    @cached_property
    def _budgets_by_demand(self) -> Mapping[tuple[str, tuple[str, str] | None], Sequence[int]]:
        """The positions of budgets by namespace and a label that their pods have, else None."""
        return grouped(
            ((budget.namespace, label), position)
            for position, budget in enumerate(self.budgets)
            if budget.selector is not None
            for label in budget.selector.one_of_labels() or (None,)
        )
