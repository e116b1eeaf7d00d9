"""Soft taints on a real cluster: others' stay as they are, whoever writes meanwhile."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest

from desched.adapters.kubernetes.client.access import LIST_NODES, PATCH_NODE, STEERING_ACCESS
from desched.adapters.kubernetes.client.answers import Answer
from desched.adapters.kubernetes.client.connection import KubernetesConnection, connect
from desched.adapters.kubernetes.client.kubeconfig import find_account
from desched.adapters.kubernetes.cluster_reader import KubernetesReader
from desched.adapters.kubernetes.permission import has_right
from desched.adapters.kubernetes.taints import KubernetesSteerer
from desched.model.cluster import STEERING_TAINT, Node, Taint
from tests.contracts.steerer_contract import UNTIL, SteererContract
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.manifests import role, rules_of, service_account

ACCOUNT = "default"


class RealSteeringLab:
    """The steerer has no rights but those that it declares."""

    def __init__(self, plane: ControlPlane) -> None:
        namespace = plane.create_namespace()
        rules = rules_of(LIST_NODES, *STEERING_ACCESS)
        plane.apply(*role("steering", service_account(namespace, ACCOUNT), rules))
        self.plane = plane
        account = connect(plane.kubeconfig_for(namespace, ACCOUNT), None)
        self.steerer = KubernetesSteerer(account)
        plane.wait_for("the rights of the role", lambda: has_right(account, PATCH_NODE))
        self._reader = KubernetesReader(connect(plane.admin_kubeconfig, None))

    def add_node(self, name: str, taints: Iterable[Taint] = ()) -> None:
        fields = [{"key": t.key, "value": t.value, "effect": t.effect} for t in taints]
        self.plane.add_node(name, taints=fields)

    def node(self, name: str) -> Node:
        return self._reader.read_cluster().node_by_name[name]


@pytest.fixture(scope="module")
def shared_lab(running_control_plane: ControlPlane) -> Iterator[RealSteeringLab]:
    yield RealSteeringLab(running_control_plane)
    running_control_plane.reset()


class TestRealSteerer(SteererContract):
    @pytest.fixture
    def steering_lab(self, shared_lab: RealSteeringLab) -> RealSteeringLab:
        return shared_lab


class Interrupted(KubernetesConnection):
    """Somebody else changes the node just before the first write."""

    def __init__(self, plane: ControlPlane, body: Mapping[str, Any]) -> None:
        super().__init__(lambda: find_account(plane.admin_kubeconfig, None))
        self._plane = plane
        self._body = body
        self.statuses: list[int] = []

    def patch(self, path: str, body: object, *, deadline_seconds: float = 30.0) -> Answer:
        if not self.statuses:
            assert self._plane.request("PATCH", path, self._body)[0] == 200
        answer = super().patch(path, body, deadline_seconds=deadline_seconds)
        self.statuses.append(answer.status)
        return answer


def test_a_taint_that_somebody_sets_at_the_same_moment_is_kept(
    shared_lab: RealSteeringLab,
) -> None:
    shared_lab.add_node("busy")
    theirs = {"key": "maintenance", "effect": "PreferNoSchedule", "value": "soon"}
    connection = Interrupted(shared_lab.plane, {"spec": {"taints": [theirs]}})
    assert KubernetesSteerer(connection).taint("busy", UNTIL).done
    assert connection.statuses == [409, 200]
    steered = shared_lab.node("busy")
    other = Taint("maintenance", "PreferNoSchedule", "soon")
    assert (steered.taints, steered.steered_until) == ((other, STEERING_TAINT), UNTIL)

    connection = Interrupted(shared_lab.plane, {"metadata": {"labels": {"touched": "yes"}}})
    assert KubernetesSteerer(connection).untaint("busy").done
    assert connection.statuses == [409, 200]
    freed = shared_lab.node("busy")
    assert (freed.taints, freed.steered_until) == ((other,), None)
    assert freed.labels["touched"] == "yes"
