"""Every access to the Kubernetes API, with the reason that RBAC should grant it for."""

from typing import NamedTuple
from urllib.parse import quote


class Access(NamedTuple):
    """One verb on one resource; `reason` is for the person who reviews the ClusterRole."""

    verb: str
    group: str
    resource: str
    reason: str
    version: str = "v1"

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
GET_POD = Access("get", "", "pods", "a fresh look just before an eviction")
EVICT_POD = Access("create", "", "pods/eviction", "the eviction itself; pods are never deleted")
CREATE_EVENT = Access(
    "create", "events.k8s.io", "events", "says on the pod and its node why it was evicted"
)

REQUIRED_ACCESS: tuple[Access, ...] = (
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
    GET_POD,
    EVICT_POD,
    CREATE_EVENT,
)
"""What the ServiceAccount must be allowed, and nothing more."""

PATCH_NODE = Access(
    "patch", "", "nodes", "a soft taint that keeps replacements off nodes where they would do harm"
)

STEERING_ACCESS: tuple[Access, ...] = (PATCH_NODE,)
"""What it must be allowed as well, where the policy's `steering` is not `Off`."""

GET_MEMORY = Access("get", "", "configmaps", "what earlier cycles did, and what people have paused")
CREATE_MEMORY = Access("create", "", "configmaps", "the first memory")
PATCH_MEMORY = Access("patch", "", "configmaps", "each eviction is written down before it begins")

GET_LEASE = Access("get", "coordination.k8s.io", "leases", "which replica may act")
CREATE_LEASE = Access("create", "coordination.k8s.io", "leases", "the first replica makes it")
PATCH_LEASE = Access(
    "patch", "coordination.k8s.io", "leases", "the acting replica renews it, others take it over"
)

OWN_NAMESPACE_ACCESS: tuple[Access, ...] = (
    GET_MEMORY,
    CREATE_MEMORY,
    PATCH_MEMORY,
    GET_LEASE,
    CREATE_LEASE,
    PATCH_LEASE,
)
"""What it must be allowed in the namespace of its state alone: a Role, not a ClusterRole."""
