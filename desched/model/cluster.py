"""What desched knows of the objects in a cluster: only the fields that deciding uses."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from functools import cached_property

import msgspec

from desched.model.resources import Amounts
from desched.model.selectors import LabelSelector, NodeSelectorTerm, Operator, Requirement

SYSTEM_CRITICAL_PRIORITY = 2_000_000_000
"""Priorities from here on belong to system-cluster-critical and system-node-critical."""


class Effect(StrEnum):
    """What a taint does to pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Taint(msgspec.Struct, frozen=True, gc=False):
    """A taint on a node."""

    key: str
    effect: str
    value: str = ""


class Toleration(msgspec.Struct, frozen=True, gc=False):
    """A toleration of a pod; empty key or effect stands for all of them."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether the taint does not keep the pod away; other operators than these tolerate none.

        Source: k8s.io/api/core/v1 Toleration.ToleratesTaint.
        """
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return self.operator == "Equal" and bool(self.key) and self.value == taint.value


STEERING_TAINT = Taint("desched.io/overloaded", Effect.PREFER_NO_SCHEDULE)
"""The soft taint by which desched keeps the scheduler from putting more onto a node."""


class Node(msgspec.Struct, frozen=True, gc=False):
    """A node: `capacity` is the machine, `allocatable` what pods may request of it.

    `images` are those that it has already, by each of their names, in bytes. `steered_until` is set
    on a node that desched itself has given STEERING_TAINT, and tells when that is to go at last.
    """

    name: str
    uid: str
    created_at: datetime
    labels: Mapping[str, str]
    capacity: Amounts
    allocatable: Amounts
    ready: bool = True
    unschedulable: bool = False
    deleting: bool = False
    taints: tuple[Taint, ...] = ()
    addresses: tuple[str, ...] = ()
    operating_system: str = "linux"
    images: Mapping[str, int] = {}
    steered_until: datetime | None = None

    @property
    def avoided(self) -> bool:
        """Whether it has STEERING_TAINT, whoever has put it there."""
        taints = ((taint.key, taint.effect) for taint in self.taints)
        return (STEERING_TAINT.key, STEERING_TAINT.effect) in taints


class PodRef(msgspec.Struct, frozen=True, gc=False, order=True):
    """Which pod: the uid tells it from a later one of the same name."""

    namespace: str
    name: str
    uid: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Owner(msgspec.Struct, frozen=True, gc=False):
    """The controller reference of a pod."""

    kind: str
    name: str
    uid: str
    api_version: str = ""


class VolumeKind(StrEnum):
    """Kinds of volumes that tie a pod to a place or lose data with it; others are dropped."""

    CLAIM = "persistentVolumeClaim"
    EPHEMERAL_CLAIM = "ephemeral"
    EMPTY_DIR = "emptyDir"
    HOST_PATH = "hostPath"


class PodVolume(msgspec.Struct, frozen=True, gc=False):
    """A volume of a pod; `claim` names the PersistentVolumeClaim if it is one.

    `in_memory` is an emptyDir without a disk, `path` the directory of a hostPath.
    """

    kind: VolumeKind
    claim: str = ""
    in_memory: bool = False
    path: str = ""


class PodAffinityTerm(msgspec.Struct, frozen=True, gc=False):
    """Pods to be near to (or away from) within a topology domain.

    `selector` None selects no pod. Without `namespaces` and `namespace_selector` the term looks at
    the namespace of the pod that carries it. `weight` is 0 for required terms, and negative for
    preferred anti-affinity.
    """

    topology_key: str
    selector: LabelSelector | None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    weight: int = 0


class SpreadConstraint(msgspec.Struct, frozen=True, gc=False):
    """How evenly pods must be spread over topology domains; `hard` means DoNotSchedule."""

    topology_key: str
    max_skew: int
    hard: bool
    selector: LabelSelector | None
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False
    match_label_keys: tuple[str, ...] = ()

    def selector_of(self, labels: Mapping[str, str]) -> LabelSelector | None:
        """The selector for a pod with these labels: `match_label_keys` add the pod's own values."""
        keys = [key for key in self.match_label_keys if key in labels]
        if self.selector is None or not keys:
            return self.selector
        own = (Requirement(key, Operator.IN, (labels[key],)) for key in keys)
        return LabelSelector((*self.selector.requirements, *own))


class HostPort(msgspec.Struct, frozen=True, gc=False):
    """A port of the node that a pod takes; an empty address stands for all of them."""

    port: int
    protocol: str = "TCP"
    address: str = ""


class SchedulingClass(msgspec.Struct, frozen=True, gc=False):
    """Everything that decides on which nodes a pod fits; pods of a workload share one.

    `required_node_affinity` is None when there is none; an empty tuple selects no node.
    `scored_*` are the requests as the resource scores count them: with the scheduler's defaults for
    each container that states none. `unevaluated` names hard constraints that the planner does not
    evaluate: such a pod stays.
    """

    requests: Amounts
    node_selector: tuple[tuple[str, str], ...] = ()
    required_node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    unevaluated: tuple[str, ...] = ()
    scored_cpu_millicores: int = 0
    scored_memory_bytes: int = 0
    preferred_node_affinity: tuple[tuple[int, NodeSelectorTerm], ...] = ()
    pod_affinity: tuple[PodAffinityTerm, ...] = ()
    pod_anti_affinity: tuple[PodAffinityTerm, ...] = ()
    preferred_pod_affinity: tuple[PodAffinityTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    images: tuple[str, ...] = ()


class Pod(msgspec.Struct, frozen=True, gc=False):
    """A pod; `annotations` holds only those that desched reads."""

    namespace: str
    name: str
    uid: str
    scheduling: SchedulingClass
    created_at: datetime
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    owner: Owner | None = None
    node: str = ""
    phase: str = "Running"
    ready: bool = True
    started_at: datetime | None = None
    deleting: bool = False
    priority: int = 0
    qos: str = "Burstable"
    scheduler: str = "default-scheduler"
    volumes: tuple[PodVolume, ...] = ()
    has_resource_claims: bool = False
    has_scheduling_group: bool = False
    gated: bool = False
    grace_period_seconds: int = 30
    resizing: bool = False

    @property
    def ref(self) -> PodRef:
        """The pod's identity."""
        return PodRef(self.namespace, self.name, self.uid)

    @property
    def finished(self) -> bool:
        """Whether it has ended and holds no resources any more."""
        return self.phase in {"Succeeded", "Failed"}


class Autoscaler(msgspec.Struct, frozen=True, gc=False):
    """What a HorizontalPodAutoscaler says of the workload that it scales.

    `last_scaled_at` is when it last changed the number of replicas, either way; `above_target` is
    whether a metric stands above its target.
    """

    current_replicas: int
    desired_replicas: int
    max_replicas: int
    last_scaled_at: datetime | None = None
    above_target: bool = False


class Workload(msgspec.Struct, frozen=True, gc=False):
    """The controller that owns pods and replaces an evicted one.

    `ready_replicas` is None where the controller does not tell. `rolling_out` is true while its
    newest revision has not reached all replicas; `scaling` while an autoscaler wants another number
    of replicas than there are. `survives_disruption` is false where an eviction counts as a failure
    of the workload itself (a Job without a policy for it). Unless `sized`, `desired_replicas` is
    only the number of pods that there are.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    desired_replicas: int
    annotations: Mapping[str, str] = {}
    rolling_out: bool = False
    scaling: bool = False
    ready_replicas: int | None = None
    autoscaler: Autoscaler | None = None
    survives_disruption: bool = True
    sized: bool = True

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class PodDisruptionBudget(msgspec.Struct, frozen=True, gc=False):
    """A PodDisruptionBudget; `up_to_date` is false until its controller has seen the last edit.

    `selector` is None when it selects nothing. `always_allows_unhealthy` is its policy for pods
    that are not Ready.
    """

    namespace: str
    name: str
    selector: LabelSelector | None
    disruptions_allowed: int
    up_to_date: bool = True
    always_allows_unhealthy: bool = False

    def covers(self, pod: Pod) -> bool:
        """Whether an eviction of the pod is charged to this budget."""
        return (
            self.selector is not None
            and pod.namespace == self.namespace
            and self.selector.matches(pod.labels)
        )

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class PersistentVolumeClaim(msgspec.Struct, frozen=True, gc=False):
    """A claim; `volume` is empty while it is not bound.

    `for_one_pod` is the access mode ReadWriteOncePod.
    """

    namespace: str
    name: str
    storage_class: str = ""
    volume: str = ""
    for_one_pod: bool = False


class PersistentVolume(msgspec.Struct, frozen=True, gc=False):
    """A volume; `node_affinity` is None when every node can reach it."""

    name: str
    storage_class: str = ""
    node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    local: bool = False
    csi_driver: str = ""
    csi_handle: str = ""
    labels: Mapping[str, str] = {}


class StorageClass(msgspec.Struct, frozen=True, gc=False):
    """How volumes of a class come about; `topologies` is None where that may be anywhere."""

    name: str
    provisioner: str
    waits_for_consumer: bool = False
    topologies: tuple[NodeSelectorTerm, ...] | None = None


class CSINode(msgspec.Struct, frozen=True, gc=False):
    """How many volumes of each CSI driver can be attached to a node; no entry, no limit."""

    name: str
    attach_limits: Mapping[str, int] = {}


class Service(msgspec.Struct, frozen=True, gc=False):
    """A Service; the scheduler spreads the pods that it selects."""

    namespace: str
    name: str
    selector: Mapping[str, str] = {}


class ClusterState(msgspec.Struct, frozen=True, dict=True):
    """Everything of the cluster that one cycle decides on.

    `workloads` is keyed by the uid of a pod's controller: a ReplicaSet's uid leads to its
    Deployment; `controller_selectors` is keyed alike and holds the controller's own selector (the
    ReplicaSet's). `controller_owners` names, by the uid of a pod's controller, that controller's
    own owner where it is of a kind that is not understood (the Rollout of a ReplicaSet).
    `namespaces` holds their labels, `priority_classes` their values. `own_pod` is the pod that
    desched itself runs in, None outside the cluster. `server_times` are the API server's clock, in
    whole seconds, at its earliest and its latest answer; None where there is but one clock.
    """

    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    workloads: Mapping[str, Workload] = {}
    controller_selectors: Mapping[str, LabelSelector] = {}
    controller_owners: Mapping[str, Owner] = {}
    budgets: tuple[PodDisruptionBudget, ...] = ()
    priority_classes: Mapping[str, int] = {}
    namespaces: Mapping[str, Mapping[str, str]] = {}
    claims: Mapping[tuple[str, str], PersistentVolumeClaim] = {}
    volumes: Mapping[str, PersistentVolume] = {}
    storage_classes: Mapping[str, StorageClass] = {}
    csi_nodes: Mapping[str, CSINode] = {}
    services: tuple[Service, ...] = ()
    server_version: str = ""
    own_pod: PodRef | None = None
    server_times: tuple[datetime, datetime] | None = None

    @cached_property
    def own_workload_uid(self) -> str:
        """The uid of the workload that desched itself is part of, empty if it is not known."""
        if self.own_pod is None:
            return ""
        where = (self.own_pod.namespace, self.own_pod.name)
        own = next((pod for pod in self.pods if (pod.namespace, pod.name) == where), None)
        workload = self.workload_of(own) if own else None
        return workload.uid if workload else ""

    @cached_property
    def node_by_name(self) -> Mapping[str, Node]:
        """Nodes by name."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def pods_by_node(self) -> Mapping[str, tuple[Pod, ...]]:
        """Pods that hold resources, by the node that they are bound to."""
        found: dict[str, list[Pod]] = {node.name: [] for node in self.nodes}
        for pod in self.pods:
            if pod.node and not pod.finished:
                found.setdefault(pod.node, []).append(pod)
        return {name: tuple(pods) for name, pods in found.items()}

    @cached_property
    def budgets_by_namespace(self) -> Mapping[str, tuple[PodDisruptionBudget, ...]]:
        """Budgets by namespace."""
        found: dict[str, list[PodDisruptionBudget]] = {}
        for budget in self.budgets:
            found.setdefault(budget.namespace, []).append(budget)
        return {name: tuple(budgets) for name, budgets in found.items()}

    def workload_of(self, pod: Pod) -> Workload | None:
        """The workload that owns the pod, None if it has no owner or one that is not understood.

        Whoever may create pods may claim any owner by its uid; one of another namespace owns none.
        """
        found = self.workloads.get(pod.owner.uid) if pod.owner else None
        return found if found is not None and found.namespace == pod.namespace else None

    def budgets_of(self, pod: Pod) -> tuple[PodDisruptionBudget, ...]:
        """The budgets that an eviction of the pod is charged to."""
        if pod.namespace not in self.budgets_by_namespace:
            return ()
        key = (pod.namespace, frozenset(pod.labels.items()))
        found = self._budgets_by_labels.get(key)
        if found is None:
            candidates = sorted(set(self._budgets_that_may_cover(pod)))
            found = tuple(self.budgets[i] for i in candidates if self.budgets[i].covers(pod))
            self._budgets_by_labels[key] = found
        return found

    def _budgets_that_may_cover(self, pod: Pod) -> Iterator[int]:
        """Positions of few budgets: thousands in one namespace are not compared with each pod."""
        for label in (None, *pod.labels.items()):
            yield from self._budgets_by_demand.get((pod.namespace, label), ())

    @cached_property
    def _budgets_by_demand(self) -> Mapping[tuple[str, tuple[str, str] | None], list[int]]:
        """Positions by namespace and a label that each pod must have, None if that is not told."""
        found: dict[tuple[str, tuple[str, str] | None], list[int]] = {}
        for position, budget in enumerate(self.budgets):
            if budget.selector is not None:
                labels = budget.selector.one_of_labels()
                for label in (None,) if labels is None else labels:
                    found.setdefault((budget.namespace, label), []).append(position)
        return found

    @cached_property
    def _budgets_by_labels(
        self,
    ) -> dict[tuple[str, frozenset[tuple[str, str]]], tuple[PodDisruptionBudget, ...]]:
        """What was found before; pods of a workload share their labels."""
        return {}
