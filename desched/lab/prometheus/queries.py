"""What kube-state-metrics recorded about pods, nodes and controllers, in PromQL.

As in `desched.adapters.prometheus.queries`, every selector has a scope, and no query joins or
renames. Objects change slowly, so they are read in long steps, of which each shows all that existed
at any time within it.
"""

from desched.promql.sources import CLUSTER_LABELS, Scope, selector

KUBE_STATE_SCOPE = (
    'job=~"kube-state-metrics|kubernetes-service-endpoints'
    '|integrations/kubernetes/kube-state-metrics|gmp-kube-state-metrics"'
)
"""The jobs of kube-prometheus(-stack), OpenShift, Rancher, the prometheus chart, Grafana's Alloy,
and the managed service of Google."""

SEEN_SECONDS = 60
"""How exactly the first and the last sight of a pod is read."""

_RENAMED = ("exported_namespace", "exported_pod", "exported_node")
"""What Prometheus makes of these labels of a target whose labels it does not honor."""

_OBJECT = (*_RENAMED, *CLUSTER_LABELS)
_BY_POD = ("namespace", "pod", "uid", *_OBJECT)
_BY_NODE = ("node", *_OBJECT)
_OF_TARGET = ("instance", "job", "endpoint", "service", "container", "namespace", "pod", "uid")


def cluster_created(scope: Scope) -> str:
    """When the oldest namespace was created, which tells clusters apart."""
    return f"min({selector('kube_namespace_created', '', scope)})"


class KubeState:
    """The queries of one scope; `step_seconds` is the length of the long steps."""

    def __init__(self, scope: Scope, step_seconds: int) -> None:
        self._scope = scope
        self._step_seconds = step_seconds

    def pods_first_seen(self) -> str:
        """When each pod with a node was first seen within the step, in Unix seconds."""
        return self._seen("min")

    def pods_last_seen(self) -> str:
        """When each pod with a node was last seen within the step, in Unix seconds."""
        return self._seen("max")

    def pods_finished(self) -> str:
        """When each pod was first seen to have ended, with or without success."""
        phases = selector("kube_pod_status_phase", 'phase=~"Succeeded|Failed"', self._scope)
        ended = f"timestamp({phases} == 1)"
        return f"min by ({_names(_BY_POD)}) (min_over_time({self._finely(ended)}))"

    def pods_created(self) -> str:
        """When each pod was created, in Unix seconds."""
        return self._newest("kube_pod_created", "", _BY_POD)

    def requests(self) -> str:
        """What the containers of each pod request together, in cores, bytes or pieces."""
        of_container = self._newest(
            "kube_pod_container_resource_requests", "", (*_BY_POD, "container", "resource")
        )
        return f"sum by ({_names((*_BY_POD, 'resource'))}) ({of_container})"

    def replica_set_owners(self) -> str:
        """The controller of each ReplicaSet."""
        return self._newest(
            "kube_replicaset_owner",
            "",
            ("namespace", "replicaset", "owner_kind", "owner_name", *_OBJECT),
        )

    def node_capacity(self) -> str:
        """What each whole machine has, in cores, bytes or pieces."""
        return self._newest("kube_node_status_capacity", "", (*_BY_NODE, "resource"))

    def node_allocatable(self) -> str:
        """What pods may request of each node, in cores, bytes or pieces."""
        return self._newest("kube_node_status_allocatable", "", (*_BY_NODE, "resource"))

    def node_info(self) -> str:
        """The address and the operating system of each node."""
        return self._newest("kube_node_info", "", (*_BY_NODE, "internal_ip", "os_image"))

    def node_created(self) -> str:
        """When each node was created, in Unix seconds."""
        return self._newest("kube_node_created", "", _BY_NODE)

    def node_labels(self) -> str:
        """The labels of each node, as far as kube-state-metrics is configured to show them."""
        labels = selector("kube_node_labels", "", self._scope)
        newest = f"last_over_time({labels}[{self._step_seconds}s])"
        return f"max without ({_names(_OF_TARGET)}) ({newest})"

    def node_ready(self) -> str:
        """Whether each node is Ready at the time: 1 or 0."""
        conditions = 'condition="Ready",status="true"'
        return self._now("kube_node_status_condition", conditions, _BY_NODE)

    def node_cordoned(self) -> str:
        """Whether each node is cordoned at the time: 1 or 0."""
        return self._now("kube_node_spec_unschedulable", "", _BY_NODE)

    def node_taints(self) -> str:
        """The taints of each node at the time."""
        return self._now("kube_node_spec_taint", "", (*_BY_NODE, "key", "value", "effect"))

    def _now(self, metric: str, conditions: str, by: tuple[str, ...]) -> str:
        return f"max by ({_names(by)}) ({selector(metric, conditions, self._scope)})"

    def _newest(self, metric: str, conditions: str, by: tuple[str, ...]) -> str:
        newest = f"last_over_time({selector(metric, conditions, self._scope)}"
        return f"max by ({_names(by)}) ({newest}[{self._step_seconds}s]))"

    def _seen(self, which: str) -> str:
        pods = selector("kube_pod_info", 'node!=""', self._scope)
        by = (*_BY_POD, "node", "created_by_kind", "created_by_name", "priority_class")
        seen = f"{which}_over_time({self._finely(f'timestamp({pods})')})"
        return f"{which} by ({_names(by)}) ({seen})"

    def _finely(self, expression: str) -> str:
        return f"({expression})[{self._step_seconds}s:{SEEN_SECONDS}s]"


def _names(labels: tuple[str, ...]) -> str:
    return ", ".join(labels)
