"""Every right that desched needs at the Kubernetes API, with the reason to grant it."""

from enum import StrEnum
from typing import NamedTuple

from desched.api_objects.access import (
    KEPT_UP_TO_DATE,
    Access,
    list_and_watch,
    right,
)

_REPLICAS = "replicas, opt-outs, rollouts under way"
_NOT_LEADING = "no replica acts (`not_leading`), unless `--leader-elect=false`"
_NO_LOGBOOK = "`desched report` and `desched history` have nothing, and one warning is logged"
_NOT_WRITTEN = "nothing is evicted (`not_begun`)"


OBSERVING_ACCESS: tuple[Access, ...] = (
    LIST_NODES := right("list nodes", "sources and destinations, what is free on them"),
    LIST_PODS := right("list pods", "who may move, and what every pod requests, pending too"),
    LIST_NAMESPACES := right("list namespaces", "labels that a policy selects namespaces by"),
    LIST_CLAIMS := right("list persistentvolumeclaims", "storage class and volume of a pod"),
    LIST_VOLUMES := right("list persistentvolumes", "nodes that can reach a pod's volume"),
    LIST_SERVICES := right("list services", "pods that the scheduler spreads by a Service"),
    LIST_REPLICA_SETS := right("list apps replicasets", "the Deployment that a pod belongs to"),
    LIST_DEPLOYMENTS := right("list apps deployments", _REPLICAS),
    LIST_STATEFUL_SETS := right("list apps statefulsets", _REPLICAS),
    LIST_JOBS := right("list batch jobs", "whether an eviction counts as a failure of the Job"),
    LIST_AUTOSCALERS := right(
        "list autoscaling horizontalpodautoscalers", "workloads being scaled wait", version="v2"
    ),
    LIST_BUDGETS := right("list policy poddisruptionbudgets", "how many pods may be disrupted"),
    LIST_PRIORITY_CLASSES := right(
        "list scheduling.k8s.io priorityclasses", "a priority threshold given by name"
    ),
    LIST_STORAGE_CLASSES := right(
        "list storage.k8s.io storageclasses", "volumes that follow their pod, or do not"
    ),
    LIST_CSI_NODES := right("list storage.k8s.io csinodes", "how many volumes a node can attach"),
)
"""What planning reads, dry runs included."""

WATCHING_ACCESS: tuple[Access, ...] = tuple(
    access._replace(
        verb="watch",
        reason=KEPT_UP_TO_DATE,
        without="no cycle of a service runs, unless `--watch=false`",
    )
    for access in OBSERVING_ACCESS
)
"""What a service needs in addition, so that it need not list in each cycle."""

_TEMPLATE_COUNTS = (
    "replacements are expected to request what their templates say, and one warning is logged"
)

_NO_METRICS_SERVER = "no cycle runs with `metrics.type: metrics-server`"

SIZING_ACCESS: tuple[Access, ...] = list_and_watch(
    "autoscaling.k8s.io verticalpodautoscalers",
    "what a replacement requests that a VerticalPodAutoscaler sizes",
    _TEMPLATE_COUNTS,
)
"""What VerticalPodAutoscalers need; nothing else depends on it."""

LIST_VERTICAL_AUTOSCALERS = SIZING_ACCESS[0]

_CLAIMS_STAY = "pods with ResourceClaims stay, and one warning is logged"
_FREE_DEVICES = "which devices of ResourceClaims are free on other nodes"


def _device_rights() -> tuple[Access, ...]:
    """The rights to read all that says which devices are free."""
    kinds = ("resourceslices", "resourceclaims", "resourceclaimtemplates", "deviceclasses")
    rights = [(kind, _CLAIMS_STAY) for kind in kinds]
    rights.append(("devicetaintrules", "devices with a taint by such a rule count as free"))
    return tuple(
        right(f"{verb} resource.k8s.io {kind}", reason, without)
        for kind, without in rights
        for verb, reason in (("list", _FREE_DEVICES), ("watch", KEPT_UP_TO_DATE))
    )


DEVICE_ACCESS = _device_rights()
"""What ResourceClaims need; nothing else depends on it."""

LIST_SLICES, LIST_RESOURCE_CLAIMS, LIST_CLAIM_TEMPLATES, LIST_DEVICE_CLASSES, LIST_TAINT_RULES = (
    DEVICE_ACCESS[::2]
)

METRICS_ACCESS: tuple[Access, ...] = (
    LIST_NODE_METRICS := right(
        "list metrics.k8s.io nodes",
        "load of nodes with `metrics.type: metrics-server`",
        _NO_METRICS_SERVER,
        version="v1beta1",
    ),
    LIST_POD_METRICS := right(
        "list metrics.k8s.io pods",
        "usage of pods with `metrics.type: metrics-server`",
        _NO_METRICS_SERVER,
        version="v1beta1",
    ),
)
"""What metrics-server needs as the source of load; nothing else depends on it."""

_NO_CUSTOM_METRICS = "no cycle runs with `metrics.type: prometheus_adaptor`"


def _node_metric(metric: str, of: str) -> Access:
    """The right to read a metric of all nodes at once, in its first version."""
    what = f"get custom.metrics.k8s.io nodes/{metric}"
    reason = f"{of} of nodes with `metrics.type: prometheus_adaptor`"
    return right(what, reason, _NO_CUSTOM_METRICS, version="v1beta1")


CUSTOM_METRICS_ACCESS: tuple[Access, ...] = (
    GET_NODE_CPU := _node_metric("node_cpu_usage_avg", "CPU load"),
    GET_NODE_MEMORY := _node_metric("node_memory_usage_avg", "memory load"),
)
"""What the custom metrics API needs as the source of load, beside metrics-server for pods."""

GET_VOLCANO_CONFIGURATION = right(
    "get configmaps",
    "the configuration of a Volcano scheduler that the policy names (`configMap`)",
    "landings of pods of this scheduler are not forecast, and soft taints do not steer them",
)
"""What `configMap` in the policy's `scheduler.others` needs, for that ConfigMap alone."""


def owners_access(group: str, resource: str, version: str) -> Access:
    """The right to read the controllers of a kind that a policy declares."""
    return right(
        f"list {group} {resource}",
        "annotations of workloads of declared kinds",
        "pods of this kind stay (`owner_not_understood`)",
        version,
    )


EVICTING_ACCESS: tuple[Access, ...] = (
    GET_POD := right(
        "get pods", "a fresh look just before an eviction", "nothing is evicted (`unreadable`)"
    ),
    EVICT_POD := right(
        "create pods/eviction",
        "the eviction itself; pods are never deleted",
        "nothing is evicted (`forbidden`)",
    ),
)
"""What evicting needs in addition, in all namespaces."""

EVENT_ACCESS: tuple[Access, ...] = (
    CREATE_EVENT := right(
        "create events.k8s.io events",
        "records on the pod and its node why it was evicted",
        "moves leave no Events, and one warning is logged",
    ),
)
"""What Events about moves need; nothing else depends on it."""

REQUIRED_ACCESS: tuple[Access, ...] = (
    *OBSERVING_ACCESS,
    *WATCHING_ACCESS,
    *SIZING_ACCESS,
    *DEVICE_ACCESS,
    *METRICS_ACCESS,
    *EVICTING_ACCESS,
    *EVENT_ACCESS,
)
"""All that the ServiceAccount may do in all namespaces, unless it steers."""

STEERING_ACCESS: tuple[Access, ...] = (
    PATCH_NODE := right(
        "patch nodes",
        "a soft taint that keeps replacements off nodes where they would do harm",
        "desched plans without soft taints, and each report has what that costs",
    ),
)
"""What is needed in addition where the policy's `steering` is not `Off`."""

CREATE_ACCESS_REVIEW = right(
    "create authorization.k8s.io selfsubjectaccessreviews",
    "whether it may patch nodes",
    "desched plans without soft taints",
)
CREATE_SELF_REVIEW = right(
    "create authentication.k8s.io selfsubjectreviews",
    "the name of the account that lacks a right",
    "`desched doctor` writes USER in its place",
)
"""Every account has both, by the ClusterRole system:basic-user of Kubernetes itself."""

LEASE_ACCESS: tuple[Access, ...] = (
    GET_LEASE := right("get coordination.k8s.io leases", "which replica may act", _NOT_LEADING),
    CREATE_LEASE := right(
        "create coordination.k8s.io leases", "the first replica creates it", _NOT_LEADING
    ),
    PATCH_LEASE := right(
        "patch coordination.k8s.io leases",
        "the acting replica renews it, others take it over",
        _NOT_LEADING,
    ),
)
"""What leader election needs, in the namespace of the state alone."""

STATE_READING_ACCESS: tuple[Access, ...] = (
    GET_STATE := right(
        "get configmaps",
        "what earlier cycles did, and what people have paused",
        "no cycle that evicts runs; a dry run plans without it, and warns once",
    ),
)
"""What every plan by the kept state needs, in the namespace of the state alone."""

STATE_WRITING_ACCESS: tuple[Access, ...] = (
    CREATE_STATE := right("create configmaps", "the first state", _NOT_WRITTEN),
    PATCH_STATE := right(
        "patch configmaps", "each eviction is recorded before it begins", _NOT_WRITTEN
    ),
)
"""What evicting needs in addition, in the namespace of the state alone."""

LOGBOOK_ACCESS: tuple[Access, ...] = (
    GET_LOGBOOK := right("get configmaps", "what a service has done, to continue it", _NO_LOGBOOK),
    PATCH_LOGBOOK := right("patch configmaps", "what each cycle did, dry runs too", _NO_LOGBOOK),
)
"""What the logbook needs, on one ConfigMap that exists; nothing else depends on it."""

OWN_NAMESPACE_ACCESS: tuple[Access, ...] = (
    *LEASE_ACCESS,
    *STATE_READING_ACCESS,
    *STATE_WRITING_ACCESS,
    *LOGBOOK_ACCESS,
)
"""What is needed in the namespace of the state alone: Roles, not ClusterRoles."""

OWN_EVENT_ACCESS: tuple[Access, ...] = (
    GET_OWN_POD := right(
        "get pods", "the uid of its own pod", "`kubectl describe pod` does not show these Events"
    ),
    CREATE_OWN_EVENT := right(
        "create events.k8s.io events",
        "records on its own pod that a policy is refused, what is paused, or an incident",
        "these Events are missing, and one warning is logged",
    ),
)
"""What Events about desched itself need, in the namespace of its own pod alone."""


class Where(StrEnum):
    """Where rights are needed: everywhere, or in one namespace."""

    EVERYWHERE = "in all namespaces"
    OF_STATE = "in the namespace of the state"
    OF_OWN_POD = "in the namespace of its own pod"


class Feature(NamedTuple):
    """A feature with the rights that it needs, where, and what grants them.

    `role` is the ClusterRole of the folder, or the Role if the rights are for one namespace.
    """

    name: str
    rights: tuple[Access, ...]
    where: Where
    folder: str
    role: str = "desched"


_BASE = "deploy/base"
_CUSTOM_METRICS = "deploy/custom-metrics"
_EVICT = "deploy/overlays/evict-without-steering"
_STEER = "deploy/overlays/evict"

FEATURES: tuple[Feature, ...] = (
    Feature("plan", OBSERVING_ACCESS, Where.EVERYWHERE, _BASE),
    Feature("watch", WATCHING_ACCESS, Where.EVERYWHERE, _BASE),
    Feature("sizing", SIZING_ACCESS, Where.EVERYWHERE, _BASE, "desched-vertical-autoscalers"),
    Feature("devices", DEVICE_ACCESS, Where.EVERYWHERE, _BASE, "desched-devices"),
    Feature("metrics_server", METRICS_ACCESS, Where.EVERYWHERE, _BASE, "desched-metrics-server"),
    Feature(
        "custom_metrics",
        CUSTOM_METRICS_ACCESS,
        Where.EVERYWHERE,
        _CUSTOM_METRICS,
        "desched-custom-metrics",
    ),
    Feature("lease", LEASE_ACCESS, Where.OF_STATE, _BASE),
    Feature("state", STATE_READING_ACCESS, Where.OF_STATE, _BASE, "desched-state"),
    Feature("evict", EVICTING_ACCESS, Where.EVERYWHERE, _EVICT, "desched-evict"),
    Feature("record", STATE_WRITING_ACCESS, Where.OF_STATE, _EVICT, "desched-evict"),
    Feature("steer", STEERING_ACCESS, Where.EVERYWHERE, _STEER, "desched-steering"),
    Feature("events", EVENT_ACCESS, Where.EVERYWHERE, _EVICT, "desched-events"),
    Feature("logbook", LOGBOOK_ACCESS, Where.OF_STATE, _BASE, "desched-logbook"),
    Feature("own_events", OWN_EVENT_ACCESS, Where.OF_OWN_POD, _BASE, "desched-events"),
)
"""All rights that `deploy/` grants, by what needs them, the most important first."""
