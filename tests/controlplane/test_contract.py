"""The real control plane behaves as the contract says, read and asked through the adapters."""

from collections.abc import Callable
from typing import Any

import pytest

from desched.adapters.kubernetes.client.connection import connect
from desched.adapters.kubernetes.cluster_reader import KubernetesReader
from desched.adapters.kubernetes.events import EventWriter
from desched.adapters.kubernetes.evictor import KubernetesEvictor
from desched.service.process.clock import SystemClock
from tests.contracts.cluster_contract import EASY_GOING, ZONE_LABEL, ClusterContract, Manners
from tests.controlplane.cluster import ControlPlane

Object = dict[str, Any]

CORDONED = "node.kubernetes.io/unschedulable"


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def of_app(app: str) -> Object:
    return {"matchLabels": {"app": app}}


def behaving(name: str, manners: Manners) -> Object:
    """The parts of a pod's specification that say how it behaves towards others."""

    def near(app: str) -> Object:
        return {"topologyKey": ZONE_LABEL, "labelSelector": of_app(app)}

    def wish(app: str) -> list[Object]:
        return [{"weight": 100, "podAffinityTerm": near(app)}] if app else []

    apart_from = of_app(manners.apart_from or name)
    apart = {"topologyKey": manners.apart_by, "labelSelector": apart_from}
    zone = {"key": ZONE_LABEL, "operator": "In", "values": [manners.likes_zone]}
    liked = {"weight": 100, "preference": {"matchExpressions": [zone]}}
    spread = {
        "maxSkew": 1,
        "topologyKey": manners.even_by,
        "whenUnsatisfiable": "DoNotSchedule" if manners.hard else "ScheduleAnyway",
        "labelSelector": of_app(name),
    }
    return {
        "affinity": {
            "nodeAffinity": {PREFERRED: [liked] if manners.likes_zone else []},
            "podAffinity": {
                REQUIRED: [near(manners.near)] if manners.near else [],
                PREFERRED: wish(manners.drawn_to),
            },
            "podAntiAffinity": {
                REQUIRED: [apart] if manners.apart_by else [],
                PREFERRED: wish(manners.pushed_from),
            },
        },
        "topologySpreadConstraints": [spread] if manners.even_by else [],
    }


class RealLab:
    def __init__(self, control_plane: ControlPlane) -> None:
        self._control_plane = control_plane
        self.namespace = control_plane.create_namespace()
        connection = connect(control_plane.admin_kubeconfig, None)
        self.reader = KubernetesReader(connection)
        self.evictor = KubernetesEvictor(connection, EventWriter(connection, SystemClock()))
        self._open: set[str] = set()

    def add_node(self, name: str, *, zone: str = "", soft_taint: bool = False) -> None:
        self._open.add(name)
        self._control_plane.add_node(
            name,
            labels={"topology.kubernetes.io/zone": zone} if zone else {},
            taints=[{"key": "lab", "effect": "PreferNoSchedule"}] if soft_taint else [],
        )

    def cordon(self, *names: str, on: bool = True) -> None:
        """Returns when the taints have followed and the scheduler has seen them."""
        self._open = self._open - {*names} if on else self._open | {*names}
        for name in names:
            change = {"spec": {"unschedulable": on}}
            self._control_plane.request("PATCH", f"/api/v1/nodes/{name}", change)

        def followed() -> bool:
            nodes = {
                node["metadata"]["name"]: node["spec"].get("taints") or []
                for node in self._control_plane.items("/api/v1/nodes")
            }
            return all(on == any(t["key"] == CORDONED for t in nodes[name]) for name in names)

        self.eventually(f"the taints of {', '.join(names)} follow", followed)
        self._control_plane.wait_for_scheduler()

    def add_deployment(
        self, name: str, replicas: int, cpu_millicores: int, manners: Manners = EASY_GOING
    ) -> None:
        requests = {"cpu": f"{cpu_millicores}m", "memory": "128Mi"}
        container: Object = {"name": "main", "image": "none", "resources": {"requests": requests}}
        if manners.host_port:
            port = {"containerPort": manners.host_port, "hostPort": manners.host_port}
            container["ports"] = [port]
        template = {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [container], **behaving(name, manners)},
        }
        selector = {"matchLabels": {"app": name}}
        metadata = {"name": name, "namespace": self.namespace}
        at_first = replicas if len(self._open) == 1 else 0  # one open node needs no spread
        self._control_plane.apply(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": metadata,
                "spec": {"replicas": at_first, "selector": selector, "template": template},
            }
        )
        if at_first == replicas:
            return
        self._wait_for_replica_set(name)
        scale = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{name}/scale"
        self._control_plane.request("PATCH", scale, {"spec": {"replicas": replicas}})

    def _wait_for_replica_set(self, app: str) -> None:
        """Returns when the scheduler had the time to learn of it.

        It spreads pods by default only if it knows their ReplicaSet, and may learn of a pod first.
        """
        of_app = f"/apis/apps/v1/namespaces/{self.namespace}/replicasets?labelSelector=app={app}"
        self.eventually(f"a ReplicaSet of {app}", lambda: self._control_plane.items(of_app))
        self._control_plane.wait_for_scheduler()

    def add_budget(self, name: str, app: str, **spec: int | str) -> None:
        self._control_plane.apply(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
            }
        )

    def eventually(self, description: str, predicate: Callable[[], object]) -> None:
        self._control_plane.wait_for(description, predicate)


class TestControlPlane(ClusterContract):
    @pytest.fixture
    def lab(self, control_plane: ControlPlane) -> RealLab:
        return RealLab(control_plane)
