"""Every access to the Kubernetes API, with the reason that RBAC should grant it for."""

from typing import NamedTuple
from urllib.parse import quote


class Access(NamedTuple):
    """One verb on one resource, for the person who reviews the Roles of `deploy/`.

    `reason` says what it is for, `without` what happens where it is not granted.
    """

    verb: str
    group: str
    resource: str
    reason: str
    version: str = "v1"
    without: str = "no cycle runs: the cluster cannot be observed"

    def path(self, namespace: str = "", name: str = "") -> str:
        """The URL path of the collection, or of one object; a subresource is put after the name."""
        kind, _, subresource = self.resource.partition("/")
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        steps = ["namespaces", namespace, kind] if namespace else [kind]
        steps += [step for step in (name, subresource) if step]
        return "/".join([root, *(quote(step, safe="") for step in steps)])

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f" in group {self.group}" if self.group else "")


LIST_NODES = Access("list", "", "nodes", "sources and destinations, what is free on them")
LIST_PODS = Access("list", "", "pods", "who may move, and what every pod requests, pending too")
LIST_NAMESPACES = Access("list", "", "namespaces", "labels that a policy selects namespaces by")
LIST_CLAIMS = Access("list", "", "persistentvolumeclaims", "storage class and volume of a pod")
LIST_VOLUMES = Access("list", "", "persistentvolumes", "nodes that can reach a pod's volume")
LIST_SERVICES = Access("list", "", "services", "pods that the scheduler spreads by a Service")
LIST_REPLICA_SETS = Access("list", "apps", "replicasets", "the Deployment that a pod belongs to")
LIST_DEPLOYMENTS = Access("list", "apps", "deployments", "replicas, opt-outs, rollouts under way")
LIST_STATEFUL_SETS = Access(
    "list", "apps", "statefulsets", "replicas, opt-outs, rollouts under way"
)
LIST_JOBS = Access("list", "batch", "jobs", "whether an eviction counts as a failure of the Job")
LIST_AUTOSCALERS = Access(
    "list", "autoscaling", "horizontalpodautoscalers", "workloads being scaled wait", "v2"
)
LIST_BUDGETS = Access("list", "policy", "poddisruptionbudgets", "how many pods may be disrupted")
LIST_PRIORITY_CLASSES = Access(
    "list", "scheduling.k8s.io", "priorityclasses", "a priority threshold given by name"
)
LIST_STORAGE_CLASSES = Access(
    "list", "storage.k8s.io", "storageclasses", "volumes that follow their pod, or do not"
)
LIST_CSI_NODES = Access("list", "storage.k8s.io", "csinodes", "how many volumes a node can attach")

OBSERVING_ACCESS: tuple[Access, ...] = (
    LIST_NODES,
    LIST_PODS,
    LIST_NAMESPACES,
    LIST_CLAIMS,
    LIST_VOLUMES,
    LIST_SERVICES,
    LIST_REPLICA_SETS,
    LIST_DEPLOYMENTS,
    LIST_STATEFUL_SETS,
    LIST_JOBS,
    LIST_AUTOSCALERS,
    LIST_BUDGETS,
    LIST_PRIORITY_CLASSES,
    LIST_STORAGE_CLASSES,
    LIST_CSI_NODES,
)
"""What planning reads, dry runs included."""

GET_POD = Access(
    "get",
    "",
    "pods",
    "a fresh look just before an eviction",
    without="nothing is evicted (`unreadable`)",
)
EVICT_POD = Access(
    "create",
    "",
    "pods/eviction",
    "the eviction itself; pods are never deleted",
    without="nothing is evicted (`forbidden`)",
)

EVICTING_ACCESS: tuple[Access, ...] = (GET_POD, EVICT_POD)
"""What evicting takes as well, in all namespaces."""

CREATE_EVENT = Access(
    "create",
    "events.k8s.io",
    "events",
    "says on the pod and its node why it was evicted",
    without="moves leave no Events, and one warning is logged",
)

EVENT_ACCESS: tuple[Access, ...] = (CREATE_EVENT,)
"""What telling of moves takes; nothing else depends on it."""

REQUIRED_ACCESS: tuple[Access, ...] = (*OBSERVING_ACCESS, *EVICTING_ACCESS, *EVENT_ACCESS)
"""All that the ServiceAccount may do in all namespaces, unless it steers."""

PATCH_NODE = Access(
    "patch",
    "",
    "nodes",
    "a soft taint that keeps replacements off nodes where they would do harm",
    without="pods that would have to be steered stay (`not_confirmed`)",
)

STEERING_ACCESS: tuple[Access, ...] = (PATCH_NODE,)
"""What it must be allowed as well, where the policy's `steering` is not `Off`."""

_NOT_LEADING = "no replica acts (`not_leading`), unless `--leader-elect=false`"
GET_LEASE = Access(
    "get", "coordination.k8s.io", "leases", "which replica may act", without=_NOT_LEADING
)
CREATE_LEASE = Access(
    "create",
    "coordination.k8s.io",
    "leases",
    "the first replica makes it",
    without=_NOT_LEADING,
)
PATCH_LEASE = Access(
    "patch",
    "coordination.k8s.io",
    "leases",
    "the acting replica renews it, others take it over",
    without=_NOT_LEADING,
)

LEASE_ACCESS: tuple[Access, ...] = (GET_LEASE, CREATE_LEASE, PATCH_LEASE)
"""What taking turns takes, in the namespace of the state alone."""

GET_STATE = Access(
    "get",
    "",
    "configmaps",
    "what earlier cycles did, and what people have paused",
    without="no cycle that evicts runs; a dry run plans without it, and warns once",
)

REMEMBERING_ACCESS: tuple[Access, ...] = (GET_STATE,)
"""What planning like the service that acts takes, in the namespace of the state alone."""

_NOT_WRITTEN = "nothing is evicted (`not_begun`)"
CREATE_STATE = Access("create", "", "configmaps", "the first state", without=_NOT_WRITTEN)
PATCH_STATE = Access(
    "patch",
    "",
    "configmaps",
    "each eviction is written down before it begins",
    without=_NOT_WRITTEN,
)

WRITING_ACCESS: tuple[Access, ...] = (CREATE_STATE, PATCH_STATE)
"""What evicting takes as well, in the namespace of the state alone."""

OWN_NAMESPACE_ACCESS: tuple[Access, ...] = (*LEASE_ACCESS, *REMEMBERING_ACCESS, *WRITING_ACCESS)
"""What it must be allowed in the namespace of its state alone: Roles, not ClusterRoles."""

GET_OWN_POD = Access(
    "get",
    "",
    "pods",
    "the uid of its own pod",
    without="`kubectl describe pod` does not show these Events",
)
CREATE_OWN_EVENT = Access(
    "create",
    "events.k8s.io",
    "events",
    "says on its own pod that an edit of the policy is refused, or what is paused",
    without="these Events are missing, and one warning is logged",
)

OWN_EVENT_ACCESS: tuple[Access, ...] = (GET_OWN_POD, CREATE_OWN_EVENT)
"""What telling of itself takes, in the namespace of its own pod alone."""
