"""The real control plane behaves as the contract says, read and asked through the adapters."""

from collections.abc import Callable

import pytest

from desched.adapters.kubernetes.connection import connect
from desched.adapters.kubernetes.events import EventWriter
from desched.adapters.kubernetes.evictor import KubernetesEvictor
from desched.adapters.kubernetes.reader import KubernetesReader
from desched.service.clock import SystemClock
from tests.contracts.cluster_contract import ClusterContract
from tests.controlplane.cluster import ControlPlane

LONGEST_SECONDS = 60.0
CORDONED = "node.kubernetes.io/unschedulable"


class RealLab:
    def __init__(self, control_plane: ControlPlane) -> None:
        self._control_plane = control_plane
        self.namespace = control_plane.create_namespace()
        connection = connect(control_plane.admin_kubeconfig, None)
        self.reader = KubernetesReader(connection)
        self.evictor = KubernetesEvictor(connection, EventWriter(connection, SystemClock()))

    def add_node(self, name: str, *, zone: str = "", soft_taint: bool = False) -> None:
        self._control_plane.add_node(
            name,
            labels={"topology.kubernetes.io/zone": zone} if zone else {},
            taints=[{"key": "lab", "effect": "PreferNoSchedule"}] if soft_taint else [],
        )

    def cordon(self, name: str, *, on: bool = True) -> None:
        """Returns when the taint has followed, which keeps pods away longer than the field."""
        path = f"/api/v1/nodes/{name}"
        self._control_plane.request("PATCH", path, {"spec": {"unschedulable": on}})

        def followed() -> bool:
            taints = self._control_plane.get(path)["spec"].get("taints") or []
            return on == any(taint["key"] == CORDONED for taint in taints)

        self.eventually(f"the taint of {name} follows", followed)

    def add_deployment(self, name: str, replicas: int, cpu_millicores: int) -> None:
        requests = {"cpu": f"{cpu_millicores}m", "memory": "128Mi"}
        container = {"name": "main", "image": "none", "resources": {"requests": requests}}
        self._control_plane.apply(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": {"app": name}},
                    "template": {
                        "metadata": {"labels": {"app": name}},
                        "spec": {"containers": [container]},
                    },
                },
            }
        )

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
        self._control_plane.wait_for(description, predicate, LONGEST_SECONDS)


class TestControlPlane(ClusterContract):
    @pytest.fixture
    def lab(self, control_plane: ControlPlane) -> RealLab:
        return RealLab(control_plane)
