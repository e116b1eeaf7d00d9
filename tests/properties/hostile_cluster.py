"""A small cluster as JSON, whose API server serves whatever is made of it."""

import json
from collections.abc import Iterator
from email.utils import format_datetime
from typing import Any, NamedTuple

from desched.adapters.kubernetes.cluster_reader import KubernetesReader
from desched.adapters.kubernetes.events import EventWriter
from desched.adapters.kubernetes.evictor import KubernetesEvictor
from desched.cycle import run_cycle
from desched.cycle_report import CycleInfo
from desched.lab.clock import VirtualClock
from desched.model.cluster import ClusterState
from desched.model.load import ClusterLoad, PodUsage
from desched.model.report import CycleReport, Mode
from desched.model.resources import Resource
from desched.model.state import State
from desched.policy.policy import Policy
from desched.ports import ChoosePods, World, all_pods
from tests.builders import GIB, NOW, measured
from tests.unit.adapters.kubernetes import manifests
from tests.unit.adapters.kubernetes.fake_api_server import (
    FakeApiServer,
    Reply,
    Request,
    connection_to,
)
from tests.unit.adapters.kubernetes.manifests import Object

HOT_RATIO, COOL_RATIO = 0.9, 0.1
USED_CORES, USED_GIB = 0.4, 0.1


def on(node: str, pod: Object) -> Object:
    pod["spec"]["nodeName"] = node
    return pod


def owned(pod: Object, kind: str, name: str) -> Object:
    pod["metadata"]["ownerReferences"] = [manifests.owner(kind, name)]
    return pod


def constrained(name: str) -> Object:
    """A pod with constraints of every kind."""
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
    operators = [("zone", "In", ["a", "b"]), ("gone", "DoesNotExist", []), ("size", "Gt", ["1"])]
    expressions = [{"key": k, "operator": o, "values": v} for k, o, v in operators]
    preferred = {"weight": 7, "preference": {"matchExpressions": expressions[:1]}}
    required, soft = (
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    )
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "own", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
        {"name": "zone", "hostPath": {"path": "/etc/localtime"}},
    ]
    return manifests.pod(
        name,
        affinity={
            "nodeAffinity": {
                required: {"nodeSelectorTerms": [{"matchExpressions": expressions}]},
                soft: [preferred],
            },
            "podAffinity": {soft: [{"weight": 5, "podAffinityTerm": term}]},
            "podAntiAffinity": {
                required: [term | {"labelSelector": {"matchLabels": {"app": "other"}}}],
                soft: [{"weight": 5, "podAffinityTerm": term}],
            },
        },
        topologySpreadConstraints=[
            term | {"maxSkew": 5, "whenUnsatisfiable": kind, "matchLabelKeys": ["app"]}
            for kind in ("DoNotSchedule", "ScheduleAnyway")
        ],
        initContainers=[
            {"name": "i", "resources": {"requests": {"cpu": "1"}}},
            {"name": "s", "restartPolicy": "Always", "ports": [{"hostPort": 80}]},
        ],
        overhead={"cpu": "1m"},
        nodeSelector={"kubernetes.io/os": "linux"},
        volumes=volumes,
        terminationGracePeriodSeconds=30,
    )


def node(name: str, zone: str) -> Object:
    found = manifests.node(name)
    found["metadata"]["labels"] |= {"zone": zone, "size": "4", "kubernetes.io/hostname": name}
    found["metadata"]["annotations"] = {"desched.io/overloaded-until": "2026-05-01T12:30:00Z"}
    found["spec"]["taints"] = [{"key": "desched.io/overloaded", "effect": "PreferNoSchedule"}]
    return found


def documents() -> dict[str, list[Object]]:
    """All lists by their path: te1 is hot, two of its pods may move, others must stay."""
    claim = {"spec": {"storageClassName": "fast", "volumeName": "data"}}
    affinity = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}
    volume = {
        "spec": {
            "storageClassName": "fast",
            "csi": {"driver": "csi.test", "volumeHandle": "data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [affinity]}},
        }
    }
    driver = {"name": "csi.test", "allocatable": {"count": 5}}
    web = {"matchLabels": {"app": "web"}}
    scaler = manifests.autoscaler(
        3, 3, metrics=[{"resource": {"name": "cpu", "target": {"averageValue": "500m"}}}]
    )
    scaler["status"] |= {
        "lastScaleTime": manifests.CREATED,
        "currentMetrics": [{"resource": {"name": "cpu", "current": {"averageValue": "100m"}}}],
    }
    failure_policy = {
        "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
    }
    return {
        "/api/v1/nodes": [node("te1", "a"), node("te2", "a"), node("te3", "b")],
        "/api/v1/pods": [
            manifests.pod("web-1"),
            constrained("web-2"),
            on("te2", manifests.pod("web-3")),
            owned(manifests.pod("db-0"), "StatefulSet", "db"),
            owned(manifests.pod("sums-1"), "Job", "sums"),
            owned(manifests.pod("agent"), "DaemonSet", "agent"),
            owned(manifests.pod("game-1"), "GameServer", "game"),
            on("", owned(manifests.pod("waiting"), "StatefulSet", "db")),
        ],
        "/apis/apps/v1/replicasets": [
            manifests.replica_set(owned_by=manifests.owner("Deployment", "web"))
        ],
        "/apis/apps/v1/deployments": [manifests.deployment()],
        "/apis/apps/v1/statefulsets": [manifests.stateful_set()],
        "/apis/batch/v1/jobs": [manifests.job(podFailurePolicy=failure_policy)],
        "/apis/autoscaling/v2/horizontalpodautoscalers": [scaler],
        "/apis/policy/v1/poddisruptionbudgets": [manifests.budget(web)],
        "/apis/scheduling.k8s.io/v1/priorityclasses": [
            {"metadata": manifests.metadata("high", ""), "value": 1000}
        ],
        "/api/v1/namespaces": [{"metadata": manifests.metadata("shop", "", labels={"team": "a"})}],
        "/api/v1/persistentvolumeclaims": [
            {"metadata": manifests.metadata(name), **claim} for name in ("data", "web-2-own")
        ],
        "/api/v1/persistentvolumes": [{"metadata": manifests.metadata("data", ""), **volume}],
        "/apis/storage.k8s.io/v1/storageclasses": [
            {
                "metadata": manifests.metadata("fast", ""),
                "provisioner": "csi.test",
                "allowedTopologies": [
                    {"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}
                ],
            }
        ],
        "/apis/storage.k8s.io/v1/csinodes": [
            {"metadata": manifests.metadata("te2", ""), "spec": {"drivers": [driver]}}
        ],
        "/api/v1/services": [
            {"metadata": manifests.metadata("web"), "spec": {"selector": {"app": "web"}}}
        ],
    }


class Written(NamedTuple):
    """What desched has asked the API server to write."""

    path: str
    body: Any


class HostileCluster:
    """Serves lists, single objects and narrowed lists of whatever it is given."""

    def __init__(self, server: FakeApiServer) -> None:
        self._server = server
        self._server.answer = self._answer
        self._server.date = format_datetime(NOW, usegmt=True)
        self._lists: dict[str, list[Any]] = {}
        self._denial: object = None
        self.written: list[Written] = []

    def holds(self, lists: dict[str, list[Any]], denial: object = None) -> None:
        """Serve these; `denial` is the answer to every eviction if there is one."""
        self._lists, self.written, self._denial = lists, [], denial
        self._server.requests.clear()

    def _answer(self, request: Request) -> Reply | None:
        if request.method == "POST":
            self.written.append(Written(request.path, request.body))
            if self._denial is not None and request.path.endswith("/eviction"):
                return Reply(403, self._denial)
            return Reply(201, {"kind": "Status", "status": "Success"})
        if request.path == "/version":
            return None
        path, namespace, name = _parts(request.path)
        if name:
            found = list(_narrowed(self._lists.get(path), namespace, name))
            return Reply(body=found[0]) if found else Reply(404, {"kind": "Status"})
        selected = request.query.get("fieldSelector", "").partition("=")[2]
        items: Any = self._lists.get(path)
        if namespace or selected:
            items = list(_narrowed(items, namespace, selected))
        return Reply(body=json.dumps({"metadata": {}, "items": items}).encode())

    def cycle(self, policy: Policy, mode: Mode, state: State) -> CycleReport:
        """One cycle by the real adapters; only load and time are made up."""
        connection, clock = connection_to(self._server), VirtualClock(NOW)
        evictor = KubernetesEvictor(connection, EventWriter(connection, clock))
        world = World(
            KubernetesReader(connection),
            _Load(),
            clock,
            evictor if mode is Mode.EVICT else None,
        )
        report, _ = run_cycle(world, policy, state, CycleInfo(1, mode, "hostile"))
        return report


class _Load:
    """The first node is hot, all others are cool, and every pod is measured."""

    def read_load(
        self,
        cluster: ClusterState,
        policy: Policy,  # noqa: ARG002 (port)
        choose: ChoosePods = all_pods,  # noqa: ARG002 (port)
    ) -> ClusterLoad:
        def ratios(*, overloaded: bool) -> dict[Resource, Any]:
            cpu = HOT_RATIO if overloaded else COOL_RATIO
            return {Resource.CPU: measured(cpu), Resource.MEMORY: measured(COOL_RATIO)}

        used = PodUsage((USED_CORES * 1000,), (USED_GIB * GIB,))
        return ClusterLoad(
            {each.name: ratios(overloaded=i == 0) for i, each in enumerate(cluster.nodes)},
            {(pod.namespace, pod.name): used for pod in cluster.pods},
        )


def _parts(path: str) -> tuple[str, str, str]:
    """The path of the list over all namespaces, the namespace, and the name."""
    root, found, rest = path.partition("/namespaces/")
    if not found:
        return path, "", ""
    namespace, kind, *name = rest.split("/")
    return f"{root}/{kind}", namespace, "/".join(name)


def _narrowed(items: Any, namespace: str, name: str) -> Iterator[Any]:
    for item in items if isinstance(items, list) else ():
        metadata = item.get("metadata") if isinstance(item, dict) else None
        if isinstance(metadata, dict):
            own = metadata.get("namespace"), metadata.get("name")
            if own[0] in {namespace, None} and (not name or own[1] == name):
                yield item
