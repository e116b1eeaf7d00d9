"""What the chart kube-prometheus-stack installs, as far as desched can see it.

Names and labels are those of a release `kube-prometheus-stack` in the namespace `monitoring`.
"""

from collections.abc import Iterable

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.manifests import Object
from tests.controlplane.usage_exporter import quantity
from tests.controlplane.written_history import History

NAMESPACE = "monitoring"
RELEASE = "kube-prometheus-stack"
PROMETHEUS = f"{RELEASE}-prometheus"
PORT = 9090
EXPORTER = "prometheus-node-exporter"

_OF_RELEASE = {
    "app.kubernetes.io/managed-by": "Helm",
    "app.kubernetes.io/instance": RELEASE,
    "app.kubernetes.io/part-of": RELEASE,
    "release": RELEASE,
    "heritage": "Helm",
}
_PODS_OF_PROMETHEUS = {
    "app.kubernetes.io/name": "prometheus",
    "operator.prometheus.io/name": PROMETHEUS,
}
_PODS_OF_EXPORTER = {
    "app.kubernetes.io/name": EXPORTER,
    "app.kubernetes.io/instance": RELEASE,
}


def manifests(node: str) -> list[Object]:
    """The chart's Service, the operator's, Prometheus on this node, and node_exporter on all."""
    service: Object = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": PROMETHEUS,
            "namespace": NAMESPACE,
            "labels": {"app": PROMETHEUS, "self-monitor": "true", **_OF_RELEASE},
        },
        "spec": {
            "type": "ClusterIP",
            "selector": _PODS_OF_PROMETHEUS,
            "ports": [
                {"name": "http-web", "port": PORT, "targetPort": PORT},
                {
                    "name": "reloader-web",
                    "port": 8080,
                    "targetPort": "reloader-web",
                    "appProtocol": "http",
                },
            ],
        },
    }
    operated: Object = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "prometheus-operated",
            "namespace": NAMESPACE,
            "labels": {"operated-prometheus": "true", "managed-by": "prometheus-operator"},
        },
        "spec": {
            "clusterIP": "None",
            "selector": _PODS_OF_PROMETHEUS,
            "ports": [{"name": "http-web", "port": PORT, "targetPort": "http-web"}],
        },
    }
    containers = [
        {
            "name": "prometheus",
            "image": "quay.io/prometheus/prometheus",
            "ports": [{"name": "http-web", "containerPort": PORT}],
        },
        {
            "name": "config-reloader",
            "image": "quay.io/prometheus-operator/prometheus-config-reloader",
            "ports": [{"name": "reloader-web", "containerPort": 8080}],
        },
    ]
    prometheus = _pods(
        "StatefulSet",
        f"prometheus-{PROMETHEUS}",
        _PODS_OF_PROMETHEUS,
        {"containers": containers, "nodeSelector": {"kubernetes.io/hostname": node}},
    )
    prometheus["spec"] |= {"replicas": 1, "serviceName": "prometheus-operated"}
    exporter = {"name": "node-exporter", "image": "quay.io/prometheus/node-exporter"}
    exporters = _pods(
        "DaemonSet", f"{RELEASE}-{EXPORTER}", _PODS_OF_EXPORTER, {"containers": [exporter]}
    )
    return [service, operated, prometheus, exporters]


def _pods(kind: str, name: str, labels: dict[str, str], spec: Object) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": _OF_RELEASE},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def address_of_prometheus(plane: ControlPlane) -> str:
    """The address and port of its pod."""
    (pod,) = plane.pods(NAMESPACE, f"operator.prometheus.io/name={PROMETHEUS}")
    return f"{pod['status']['podIP']}:{PORT}"


def record(plane: ControlPlane, history: History, busy: dict[str, float]) -> None:
    """What it has scraped: these shares of each node's CPU, most of it used by the pods there.

    Pods use the CPU of their annotation, and the others what is left, in equal parts.
    node_exporter has the labels of its target alone, cAdvisor those of the kubelet's.
    """
    nodes = {node["metadata"]["name"]: node for node in plane.items("/api/v1/nodes")}
    pods = plane.items("/api/v1/pods")
    for exporter in plane.pods(NAMESPACE, f"app.kubernetes.io/name={EXPORTER}"):
        node = exporter["spec"]["nodeName"]
        target = {
            "namespace": NAMESPACE,
            "pod": exporter["metadata"]["name"],
            "instance": f"{_address(nodes[node])}:9100",
            "container": "node-exporter",
            "endpoint": "http-metrics",
            "service": f"{RELEASE}-{EXPORTER}",
        }
        capacity = nodes[node]["status"]["capacity"]
        history.cpu(target, busy[node], cpus=int(capacity["cpu"]))
        history.memory(target, 0.25, total=quantity(capacity["memory"]))
        _record_pods(history, nodes[node], (p for p in pods if p["spec"]["nodeName"] == node), busy)


def _record_pods(
    history: History, node: Object, pods: Iterable[Object], busy: dict[str, float]
) -> None:
    name, here = node["metadata"]["name"], list(pods)
    stated = [_stated_cores(pod) for pod in here]
    left = busy[name] * float(node["status"]["capacity"]["cpu"]) - sum(stated)
    share = left / max(1, stated.count(0.0))
    for pod, cores in zip(here, stated, strict=True):
        labels = {
            "namespace": pod["metadata"]["namespace"],
            "pod": pod["metadata"]["name"],
            "container": pod["spec"]["containers"][0]["name"],
            "node": name,
            "instance": f"{_address(node)}:10250",
            "endpoint": "https-metrics",
            "service": f"{RELEASE}-kubelet",
        }
        history.container_cpu(labels, cores or share)
        history.container_memory(labels, 2.0**28)


def _stated_cores(pod: Object) -> float:
    annotations = pod["metadata"].get("annotations", {})
    return quantity(annotations.get("kwok.x-k8s.io/usage-cpu", "0"))


def _address(node: Object) -> str:
    addresses = {each["type"]: each["address"] for each in node["status"]["addresses"]}
    return str(addresses["InternalIP"])
