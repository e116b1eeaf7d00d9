"""Objects that the tests apply."""

from collections.abc import Sequence
from typing import Any

from desched.api_objects.access import Access

Object = dict[str, Any]

_RBAC = "rbac.authorization.k8s.io"


def usage(cpu: str, memory: str = "200Mi") -> dict[str, str]:
    """The annotations by which a pod or a node says what it uses."""
    return {"kwok.x-k8s.io/usage-cpu": cpu, "kwok.x-k8s.io/usage-memory": memory}


def pod_spec(cpu_request: str = "", **fields: Any) -> Object:
    """A pod's spec with one container."""
    requests = {"requests": {"cpu": cpu_request}} if cpu_request else {}
    return {"containers": [{"name": "app", "image": "app", "resources": requests}], **fields}


def service_account(namespace: str, name: str = "default") -> Object:
    """A ServiceAccount as the subject of a binding."""
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def rule(group: str, *resources: str, verbs: Sequence[str]) -> Object:
    """A rule of a role."""
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


def rules_of(*accesses: Access) -> list[Object]:
    """Rules that allow these, and nothing else."""
    return [rule(each.group, each.resource, verbs=[each.verb]) for each in accesses]


def role(
    name: str, subject: Object, rules: Sequence[Object], namespace: str | None = None
) -> list[Object]:
    """A role with its binding; without a namespace it holds in the whole cluster."""
    kind = "ClusterRole" if namespace is None else "Role"
    metadata = {"name": name} | ({} if namespace is None else {"namespace": namespace})
    return [
        {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata, "rules": list(rules)},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name},
            "subjects": [subject],
        },
    ]


def deployment(name: str, replicas: int, cpu: str, namespace: str, **fields: Any) -> Object:
    """A Deployment whose pods have the label `app` and use this much CPU each.

    `fields` go to `pod_spec`, except for the Deployment's own `annotations`.
    """
    annotations = fields.pop("annotations", {})
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": usage(cpu)},
                "spec": pod_spec(**fields),
            },
        },
    }


def priority_class(name: str, value: int) -> Object:
    """A PriorityClass."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def vertical_autoscaler(namespace: str, cpu: str, **spec: Any) -> Object:
    """A VerticalPodAutoscaler of the Deployment `web` that recommends this much CPU."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    recommendation = {"containerName": "app", "target": {"cpu": cpu}}
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"targetRef": target, **spec},
        "status": {"recommendation": {"containerRecommendations": [recommendation]}},
    }


def custom_kind(
    group: str, version: str, kind: str, plural: str = "", scope: str = "Namespaced"
) -> Object:
    """Defines a kind whose objects keep whatever is in them, their status too."""
    singular = kind.lower()
    plural = plural or f"{singular}s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": group,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": singular,
            },
            "scope": scope,
            "versions": [{"name": version, **served}],
        },
    }


VOLCANO_GROUPS = custom_kind("scheduling.volcano.sh", "v1beta1", "PodGroup")


def volcano_group(namespace: str, name: str, minimum: int, **spec: Any) -> Object:
    """A PodGroup of Volcano that needs so many pods."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minMember": minimum, **spec},
    }


HYPER_NODES = custom_kind("topology.volcano.sh", "v1alpha1", "HyperNode", scope="Cluster")
TOPOLOGIES = custom_kind("kueue.x-k8s.io", "v1beta1", "Topology", "topologies", "Cluster")


def hyper_node(name: str, tier: int, *patterns: str) -> Object:
    """A HyperNode of the nodes whose names have a match of a pattern."""
    members = [{"type": "Node", "selector": {"regexMatch": {"pattern": each}}} for each in patterns]
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": tier, "members": members},
    }


def kueue_topology(name: str, *levels: str) -> Object:
    """A Topology of Kueue with these labels."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": {"levels": [{"nodeLabel": each} for each in levels]},
    }


VERTICAL_AUTOSCALERS = custom_kind("autoscaling.k8s.io", "v1", "VerticalPodAutoscaler")


def model_cache_kind(group: str, kind: str, *versions: str) -> Object:
    """Defines a kind of KServe or GPUStack in these versions, of which the first is stored."""
    defined = custom_kind(group, versions[0], kind, scope="Cluster")
    (stored,) = defined["spec"]["versions"]
    others = [{**stored, "name": each, "storage": False} for each in versions[1:]]
    defined["spec"]["versions"] += others
    return defined


def local_model_cache(name: str, **states: str) -> Object:
    """A cache of KServe with the state of the model on each node."""
    return {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "LocalModelCache",
        "metadata": {"name": name},
        "spec": {"sourceModelUri": f"hf://example/{name}", "modelSize": "140Gi"},
        "status": {"nodeStatus": states},
    }


def node_model_store(node: str, **states: str) -> Object:
    """A store of GPUStack with the state of each digest on its node."""
    return {
        "apiVersion": "worker.gpustack.ai/v1alpha1",
        "kind": "NodeModelStore",
        "metadata": {"name": node},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "models": [{"digest": each, "state": state} for each, state in states.items()],
        },
    }


def _metrics_kind(kind: str, plural: str, scope: str) -> Object:
    """A kind of metrics.k8s.io, with the names that metrics-server gives it."""
    defined = custom_kind("metrics.k8s.io", "v1beta1", kind)
    defined["metadata"]["name"] = f"{plural}.metrics.k8s.io"
    defined["spec"]["names"]["plural"] = plural
    defined["spec"]["scope"] = scope
    return defined


METRICS = (
    _metrics_kind("NodeMetrics", "nodes", "Cluster"),
    _metrics_kind("PodMetrics", "pods", "Namespaced"),
)
"""They stand for metrics-server, and have no samples."""
