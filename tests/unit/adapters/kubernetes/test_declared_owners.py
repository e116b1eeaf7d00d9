"""Controllers of the kinds that a policy declares: what is asked for them, and what if not told."""

from typing import Any

import pytest
import structlog

from desched.adapters.kubernetes.client.connection import METADATA_LIST
from desched.adapters.kubernetes.cluster_reader import KubernetesReader
from desched.model.cluster import Owner, PodRef
from desched.model.snapshot import FreshPod
from desched.ports import PodToRead
from tests.unit.adapters.kubernetes import manifests
from tests.unit.adapters.kubernetes.fake_api_server import (
    FakeApiServer,
    Reply,
    Request,
    connection_to,
    status,
)

ROLLOUT = "argoproj.io/Rollout"
PETS = "example.com/PetSet"
ROLLOUTS = "/apis/argoproj.io/v1alpha1/rollouts"
OF_SHOP = "/apis/argoproj.io/v1alpha1/namespaces/shop/rollouts"
PROTECTED = {"desched.io/evict": "false"}
WEB = Owner("Rollout", "web", "uid-web", "argoproj.io/v1beta9")


def resources(*found: tuple[str, str], namespaced: bool = True) -> Reply:
    listed = [{"name": name, "kind": kind, "namespaced": namespaced} for name, kind in found]
    return Reply(body={"kind": "APIResourceList", "resources": listed})


def rollout(uid: str = "uid-web", **annotations: str) -> manifests.Object:
    found = manifests.metadata("web", uid=uid, annotations={**annotations, "notes": "private"})
    return {"metadata": found}


class Argo:
    """A server with Rollouts, and what it answers instead."""

    def __init__(self, server: FakeApiServer) -> None:
        self.server = server
        groups: list[dict[str, Any]] = [
            {"name": "argoproj.io", "versions": [{"version": "v1"}, {"version": "v1alpha1"}]},
            {"name": "example.com", "versions": [{"version": "v1"}]},
        ]
        self.replies = {
            "/apis": Reply(body={"kind": "APIGroupList", "groups": groups}),
            "/apis/argoproj.io/v1": resources(("analyses", "Analysis")),
            "/apis/argoproj.io/v1alpha1": resources(
                ("rollouts/status", "Rollout"), ("rollouts", "Rollout")
            ),
            "/apis/example.com/v1": resources(("petsets", "PetSet"), namespaced=False),
            "/api/v1": resources(("replicationcontrollers", "ReplicationController")),
        }
        server.lists = {
            ROLLOUTS: [rollout(**PROTECTED)],
            OF_SHOP: [rollout(**PROTECTED)],
            "/apis/example.com/v1/petsets": [
                {"metadata": manifests.metadata("cats", "", uid="uid-cats")}
            ],
        }
        server.answer = self.answer
        self.reader = KubernetesReader(connection_to(server))

    def answer(self, request: Request) -> Reply | None:
        return self.replies.get(request.path)

    def look(self) -> FreshPod:
        (look,) = self.reader.read_around([PodToRead(PodRef("shop", "web-1", "uid-web-1"))])
        assert isinstance(look, FreshPod)
        return look

    def own(self, kind: str, name: str, api_version: str) -> None:
        """The pod `web-1` is controlled by this object."""
        found = manifests.pod()
        owner = {**manifests.owner(kind, name), "apiVersion": api_version}
        found["metadata"]["ownerReferences"] = [owner]
        self.replies["/api/v1/namespaces/shop/pods/web-1"] = Reply(body=found)


@pytest.fixture
def argo(server: FakeApiServer) -> Argo:
    return Argo(server)


def test_only_the_metadata_of_controllers_of_declared_kinds_is_read(argo: Argo) -> None:
    found = argo.reader.read_cluster([ROLLOUT])

    assert found.declared_owners == {("shop", "uid-web"): PROTECTED}
    assert found.unread_kinds == {}
    assert found.owner_annotations("shop", WEB) == PROTECTED
    assert found.owner_annotations("other", WEB) is None
    (asked,) = (each for each in argo.server.requests if each.path == ROLLOUTS)
    assert asked.headers["Accept"] == METADATA_LIST


def test_nothing_is_asked_without_a_declared_kind(argo: Argo) -> None:
    argo.reader.read_cluster()
    assert ROLLOUTS not in argo.server.paths()
    assert "/apis/argoproj.io/v1alpha1" not in argo.server.paths()


def test_a_cluster_scoped_controller_owns_pods_of_any_namespace(argo: Argo) -> None:
    found = argo.reader.read_cluster([PETS])
    cats = Owner("PetSet", "cats", "uid-cats", "example.com/v1")
    assert found.owner_annotations("shop", cats) == found.owner_annotations("other", cats) == {}


def test_a_kind_of_the_core_group_may_be_declared(argo: Argo) -> None:
    argo.server.lists["/api/v1/replicationcontrollers"] = [rollout("uid-old")]
    found = argo.reader.read_cluster(["ReplicationController"])
    assert found.declared_owners == {("shop", "uid-old"): {}}


@pytest.mark.parametrize(
    ("path", "reply", "why"),
    [
        (ROLLOUTS, status(403, "no"), "the account may not list rollouts in group argoproj.io"),
        (ROLLOUTS, status(500, "no webhook"), "The rollouts could not be read: status 500"),
        (ROLLOUTS, Reply(body={"items": [{"metadata": {}}]}), "cannot be read"),
        ("/apis", status(403, "no"), "The API groups of the server could not be read"),
        ("/apis/argoproj.io/v1", status(503, "away"), "status 503: away"),
        (
            "/apis/argoproj.io/v1alpha1",
            resources(("rollouts", "Other")),
            "the API server does not have this kind",
        ),
    ],
)
def test_a_kind_that_cannot_be_read_is_unknown_and_no_other(
    argo: Argo, path: str, reply: Reply, why: str
) -> None:
    argo.replies[path] = reply
    found = argo.reader.read_cluster([ROLLOUT, "ReplicationController"])
    assert list(found.unread_kinds) == [ROLLOUT]
    assert why in found.unread_kinds[ROLLOUT]
    assert found.owner_annotations("shop", WEB) is None


def test_a_right_that_is_missing_is_said_once(argo: Argo) -> None:
    argo.replies[ROLLOUTS] = status(403, "no")
    with structlog.testing.capture_logs() as logs:
        for _ in range(2):
            argo.reader.read_cluster([ROLLOUT])
    (entry,) = (each for each in logs if each["event"] == "right.not_granted")
    assert entry["right"] == "list rollouts in group argoproj.io"
    assert entry["meaning"] == "pods of this kind stay (`owner_not_understood`)"


@pytest.mark.parametrize("above", [True, False])
def test_a_fresh_look_reads_the_controller_of_the_pod_again(argo: Argo, *, above: bool) -> None:
    if above:
        owner = {**manifests.owner("Rollout", "web"), "apiVersion": "argoproj.io/v1alpha1"}
        argo.own("ReplicaSet", "web-5d4", "apps/v1")
        path = "/apis/apps/v1/namespaces/shop/replicasets"
        argo.server.lists[path] = [manifests.replica_set(owned_by=owner)]
    else:
        argo.own("Rollout", "web", "argoproj.io/v1alpha1")
    assert argo.look().owner_annotations is None  # no policy has declared it yet

    argo.reader.read_cluster([ROLLOUT])
    assert argo.look().owner_annotations == PROTECTED
    (asked,) = (each for each in argo.server.requests if each.path == OF_SHOP)
    assert asked.query["fieldSelector"] == "metadata.name=web"

    argo.server.lists[OF_SHOP] = [rollout("uid-of-a-later-one")]
    assert argo.look().owner_annotations is None
    argo.replies[OF_SHOP] = status(403, "no")
    assert argo.look().owner_annotations is None
