"""The cluster of the soak: workloads of every kind, more of them used than requested."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.manifests import Object, deployment, pod_spec, priority_class, usage
from tests.controlplane.sites import SITE
from tests.controlplane.usage_exporter import CPU_ANNOTATION, MEMORY_ANNOTATION, quantity

NAME = "soak"
NAMESPACE = "apps"
NODE_MILLICORES, NODE_MIB = 8_000, 32 * 1024
NODE_LABELS = {SITE: NAME}
POD_MEMORY = "800Mi"
PODS_PER_NODE = 20
CPU_TARGET, MEMORY_TARGET = 0.80, 0.85
MEASURED_TO_RATIO = 0.005

PROTECTED: Mapping[str, str] = {
    "daemon": "of a DaemonSet",
    "system": "in a system namespace",
    "valued": "of a priority that is never moved",
    "optout": "that forbids it by an annotation",
    "single": "that is the only replica",
    "frozen": "whose budget never has head-room",
    "bare": "without a controller",
}
"""Kinds of pods that must never be evicted; an app's name begins with its kind."""

MOVABLE = ("web", "hungry", "guarded")

_SHARES = {
    "valued": 0.05,
    "optout": 0.05,
    "single": 0.04,
    "frozen": 0.03,
    "guarded": 0.13,
    "hungry": 0.15,
    "web": 0.45,
}
"""Of the pods, by kind; the rest are those of the DaemonSet and of kube-system."""

_COLLECTIONS = {
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "DaemonSet": "/apis/apps/v1/namespaces/{}/daemonsets",
    "Pod": "/api/v1/namespaces/{}/pods",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
}


@dataclass
class App:
    """A workload of the soak, whose name begins with its kind."""

    name: str
    kind: str
    replicas: int
    cpu_millicores: int


def kind_of(pod_name: str) -> str:
    """The kind of a pod, by its name."""
    return pod_name.partition("-")[0]


class SoakCluster:
    """What has been made, and the making of more; `apps` are those that churn may change."""

    def __init__(self, plane: ControlPlane, nodes: int, chance: random.Random) -> None:
        self.plane = plane
        self.nodes = [f"{NAME}-{number:03}" for number in range(1, nodes + 1)]
        self.apps: dict[str, App] = {}
        self._chance = chance
        self._made = 0

    def build(self) -> int:
        """Make nodes and workloads, and return how many pods there are to be."""
        self.plane.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME}},
            priority_class("never-moved", 10_000),
        )
        self.add_nodes(*self.nodes)
        wanted = len(self.nodes) * PODS_PER_NODE
        system = max(2, len(self.nodes) // 20)
        self._create(deployment("system-dns", system, "100m", "kube-system", cpu_request="50m"))
        self._create(_daemon_set())
        made = len(self.nodes) + system
        for number in range(5):
            self._create(_bare_pod(f"bare-{number}"))
            made += 1
        for kind, share in _SHARES.items():
            left = round(share * wanted)
            while left > 0:
                left -= self.deploy(kind).replicas
            made += round(share * wanted) - left
        return made

    def add_nodes(self, *names: str) -> None:
        """Nodes join, or return."""
        self.plane.add_node(
            *names, cpu=f"{NODE_MILLICORES}m", memory=f"{NODE_MIB}Mi", labels=NODE_LABELS
        )

    def deploy(self, kind: str) -> App:
        """A further workload."""
        self._made += 1
        chance = self._chance
        replicas = 1 if kind == "single" else chance.randint(2, 8)
        request = 50 if kind == "hungry" else chance.choice((100, 150, 200, 300))
        used = chance.choice((300, 450, 600)) if kind == "hungry" else request
        app = App(f"{kind}-{self._made}", kind, replicas, round(used * chance.uniform(0.6, 1.2)))
        for manifest in _manifests(app, request):
            self._create(manifest)
        if kind in MOVABLE:
            self.apps[app.name] = app
        return app

    def remove(self, app: App) -> None:
        """Take a workload away for good."""
        del self.apps[app.name]
        options = {"propagationPolicy": "Background"}
        self.plane.request("DELETE", f"{deployment_path(app)}", options)

    def scale(self, app: App, replicas: int) -> None:
        """Let a workload have so many replicas."""
        app.replicas = replicas
        self.plane.request("PATCH", deployment_path(app), {"spec": {"replicas": replicas}})

    def _create(self, manifest: Object) -> None:
        path = _COLLECTIONS[manifest["kind"]].format(manifest["metadata"]["namespace"])

        def created() -> bool:
            # A namespace that is new, or that is about to have its first pod, is slow at first.
            return self.plane.request("POST", path, manifest)[0] in {201, 409}

        self.plane.wait_for(f"{manifest['kind']} {manifest['metadata']['name']}", created)


def deployment_path(app: App) -> str:
    """Where the API server has its Deployment."""
    return f"{_COLLECTIONS['Deployment'].format(NAMESPACE)}/{app.name}"


def _manifests(app: App, request_millicores: int) -> Iterator[Object]:
    fields: Object = {"cpu_request": f"{request_millicores}m", "terminationGracePeriodSeconds": 0}
    notes = usage(f"{app.cpu_millicores}m", POD_MEMORY)
    match app.kind:
        case "valued":
            fields["priorityClassName"] = "never-moved"
        case "optout":
            notes["desched.io/evict"] = "false"
        case "web" if app.replicas % 2:
            notes["desched.test/linger"] = "true"
            fields["terminationGracePeriodSeconds"] = 3
        case "frozen":
            yield _budget(app.name, 0)
        case "guarded":
            yield _budget(app.name, 1)
        case _:
            pass
    manifest = deployment(app.name, app.replicas, "0", NAMESPACE, **fields)
    manifest["spec"]["template"]["metadata"]["annotations"] = notes
    yield manifest


def _budget(app: str, most_unavailable: int) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": NAMESPACE},
        "spec": {"maxUnavailable": most_unavailable, "selector": {"matchLabels": {"app": app}}},
    }


def _daemon_set() -> Object:
    manifest = deployment("daemon", 0, "100m", NAMESPACE, cpu_request="100m")
    del manifest["spec"]["replicas"]
    return {**manifest, "kind": "DaemonSet"}


def _bare_pod(name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "annotations": usage("200m", POD_MEMORY),
        },
        "spec": pod_spec("200m"),
    }


@dataclass(frozen=True)
class NodeUse:
    """What runs on a node really uses, as a share of its capacity."""

    cpu_ratio: float
    memory_ratio: float

    @property
    def is_overloaded(self) -> bool:
        """By the published policy."""
        return self._exceeds(CPU_TARGET, MEMORY_TARGET)

    @property
    def may_seem_overloaded(self) -> bool:
        """Whether it may be measured so: use of round amounts is at a target to the point."""
        return self._exceeds(CPU_TARGET - MEASURED_TO_RATIO, MEMORY_TARGET - MEASURED_TO_RATIO)

    def _exceeds(self, cpu_ratio: float, memory_ratio: float) -> bool:
        return self.cpu_ratio > cpu_ratio or self.memory_ratio > memory_ratio


def use_by_node(nodes: Sequence[Object], pods: Sequence[Object]) -> dict[str, NodeUse]:
    """The load by what nodes and pods say, without the way through Prometheus."""
    used = {node["metadata"]["name"]: _usage(node) for node in nodes}
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if node in used and pod["status"].get("phase") == "Running":
            cpu, memory = _usage(pod)
            used[node] = used[node][0] + cpu, used[node][1] + memory
    cores, capacity_bytes = NODE_MILLICORES / 1000, NODE_MIB << 20
    return {
        name: NodeUse(cpu / cores, memory / capacity_bytes) for name, (cpu, memory) in used.items()
    }


def requested_millicores(pods: Sequence[Object]) -> Counter[str]:
    """What the pods of each node request."""
    requested = Counter[str]()
    for pod in pods:
        for container in pod["spec"]["containers"]:
            cpu = container["resources"].get("requests", {}).get("cpu", "0")
            requested[pod["spec"].get("nodeName", "")] += round(1000 * _number(cpu))
    return requested


def _usage(item: Object) -> tuple[float, float]:
    annotations = item["metadata"].get("annotations") or {}
    cpu, memory = annotations.get(CPU_ANNOTATION, "0"), annotations.get(MEMORY_ANNOTATION, "0")
    return _number(cpu), _number(memory)


_number = lru_cache(maxsize=None)(quantity)
