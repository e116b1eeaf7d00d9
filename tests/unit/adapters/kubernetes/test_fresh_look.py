"""One pod just before its eviction: few requests, each about one object or one namespace."""

from collections.abc import Sequence
from threading import Barrier

import pytest

from desched.adapters.kubernetes.cluster_reader import KubernetesReader
from desched.errors import ObservationError
from desched.gangs.objects import GangObjects
from desched.model.cluster import Owner, PodRef
from desched.model.snapshot import FreshPod
from desched.plugins.queues.objects import MANAGED, QUEUE_NAME, Queue, QueueObjects
from desched.ports import MaybeFreshPod, PodToRead
from tests.device_manifests import DRIVER, claim, claim_template, device_class, resource_slice
from tests.unit.adapters.kubernetes import manifests
from tests.unit.adapters.kubernetes.fake_api_server import (
    NO_SUCH_PATH,
    FakeApiServer,
    Reply,
    Request,
    api_groups,
    connection_to,
    status,
)

PATIENCE_SECONDS = 20
REF = PodRef("shop", "web-1", "an-older-uid")
PODS_OF_SHOP = "/api/v1/namespaces/shop/pods"
POD = f"{PODS_OF_SHOP}/web-1"
PODS = "/api/v1/pods"
NODE = "/api/v1/nodes?te1"
APPS = "/apis/apps/v1/namespaces/shop"
REPLICA_SET = f"{APPS}/replicasets?web-5d4"
DEPLOYMENT = f"{APPS}/deployments?web"
JOB = "/apis/batch/v1/namespaces/shop/jobs?sums"
AUTOSCALERS = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers"
BUDGETS = "/apis/policy/v1/namespaces/shop/poddisruptionbudgets"


def asked_for(request: Request) -> str:
    """The path, and after a question mark the name that a list is narrowed to."""
    field, _, name = request.query.get("fieldSelector", "").partition("=")
    assert field in {"", "metadata.name", "spec.nodeName"}
    return f"{request.path}?{name}" if name else request.path


class Shop:
    """What the server has, by what is asked for."""

    def __init__(self, server: FakeApiServer) -> None:
        self.server = server
        self.objects = {
            POD: manifests.pod(),
            NODE: manifests.node(),
            REPLICA_SET: manifests.replica_set(owned_by=manifests.owner("Deployment", "web")),
            DEPLOYMENT: manifests.deployment(),
        }
        server.lists = {
            PODS: [manifests.pod()],
            AUTOSCALERS: [manifests.autoscaler(3, 5)],
            BUDGETS: [manifests.budget({"matchLabels": {"app": "web"}})],
        }
        server.answer = self.answer

    def answer(self, request: Request) -> Reply | None:
        if request.path in self.server.lists:
            return None
        wanted = asked_for(request)
        found = self.objects.get(wanted)
        if "?" in wanted:
            return Reply(body={"metadata": {}, "items": [found] if found else []})
        return status(404, "not found") if found is None else Reply(body=found)

    def asked(self) -> list[str]:
        """What has been asked for, in this order."""
        return [asked_for(request) for request in self.server.requests]

    def owned_by(self, kind: str, name: str) -> None:
        """The pod's controller is another one."""
        self.objects[POD]["metadata"]["ownerReferences"] = [manifests.owner(kind, name)]

    def look(self, deadline_seconds: float = 30.0, room_on: str = "") -> FreshPod | None:
        reader = KubernetesReader(connection_to(self.server), deadline_seconds=deadline_seconds)
        (look,) = reader.read_around([PodToRead(REF, room_on)])
        if isinstance(look, ObservationError):
            raise look
        return look

    def looks(self, *names: str) -> Sequence[MaybeFreshPod]:
        reader = KubernetesReader(connection_to(self.server))
        return reader.read_around([PodToRead(PodRef("shop", name)) for name in names])

    def seen(self) -> FreshPod:
        look = self.look()
        assert look is not None
        return look


@pytest.fixture
def shop(server: FakeApiServer) -> Shop:
    return Shop(server)


def test_a_pod_comes_with_its_node_its_deployment_and_the_budgets_of_its_namespace(
    shop: Shop,
) -> None:
    look = shop.seen()

    assert (look.pod.uid, look.pod.node) == ("uid-web-1", "te1")
    assert look.node is not None
    assert (look.node.name, look.node.allocatable.cpu_millicores) == ("te1", 3920)
    assert look.workload is not None
    assert str(look.workload) == "Deployment shop/web"
    assert (look.workload.ready_replicas, look.workload.scaling) == (3, True)
    assert [str(budget) for budget in look.charged] == ["shop/web"]


def test_what_protects_the_pod_is_read_last_and_nothing_is_asked_of_the_whole_cluster(
    shop: Shop,
) -> None:
    shop.look()

    assert shop.asked() == [POD, NODE, REPLICA_SET, DEPLOYMENT, AUTOSCALERS, BUDGETS]


@pytest.mark.parametrize(("least", "count"), [("2", 2), ("1", 0), ("two", 0)])
def test_a_pod_that_its_gang_may_spare_comes_with_the_pods_of_its_namespace(
    shop: Shop, least: str, count: int
) -> None:
    """R2.2: the gang is counted again; one that nobody may leave need not be."""
    annotations = {
        "gang.scheduling.koordinator.sh/name": "llama",
        "gang.scheduling.koordinator.sh/min-available": least,
    }
    shop.objects[POD]["metadata"]["annotations"] = annotations
    shop.server.lists[PODS_OF_SHOP] = [manifests.pod(), manifests.pod("web-2")]

    assert [pod.name for pod in shop.seen().siblings] == ["web-1", "web-2"][:count]
    assert shop.asked()[-1] == BUDGETS


def test_a_pod_of_a_group_that_moves_only_whole_comes_with_the_pods_of_its_namespace(
    shop: Shop,
) -> None:
    prefix = "leaderworkerset.sigs.k8s.io/"
    metadata = shop.objects[POD]["metadata"]
    metadata["labels"] |= {f"{prefix}name": "llama", f"{prefix}group-index": "0"}
    metadata["annotations"] = {f"{prefix}size": "4"}
    shop.server.lists[PODS_OF_SHOP] = [manifests.pod(), manifests.pod("web-2")]

    assert len(shop.seen().siblings) == 2
    reader = KubernetesReader(connection_to(shop.server))
    (look,) = reader.read_around([PodToRead(REF, siblings=False)])
    assert isinstance(look, FreshPod)
    assert look.siblings == ()


GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/shop/podgroups?llama"


@pytest.mark.parametrize(("least", "count"), [(2, 2), (1, 0), (None, 0)])
def test_the_object_of_its_group_is_read_again(shop: Shop, least: int | None, count: int) -> None:
    """R2.2: what the gang needs now."""
    shop.objects[POD]["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "llama"}
    shop.server.lists[PODS_OF_SHOP] = [manifests.pod(), manifests.pod("web-2")]
    metadata = {"name": "llama", "namespace": "shop"}
    shop.objects[GROUPS] = {"metadata": metadata, "spec": {"minMember": least}}

    look = shop.seen()

    (found,) = GangObjects.of(look.extras).groups
    assert (found.name, found.minimum, bool(found.stays)) == ("llama", least or 0, least is None)
    assert len(look.siblings) == count
    assert shop.asked()[-1] == BUDGETS


def test_without_the_object_of_its_group_the_pods_of_the_namespace_are_not_read(
    shop: Shop,
) -> None:
    shop.objects[POD]["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "llama"}

    assert GangObjects.of(shop.seen().extras).groups == ()
    assert PODS_OF_SHOP not in shop.asked()


def test_a_pod_that_kueue_admitted_comes_with_its_queues(shop: Shop) -> None:
    """X4: two lists of one object each, in each version that the server has."""
    queues = "/apis/kueue.x-k8s.io/v1beta2"
    local, shared = f"{queues}/namespaces/shop/localqueues?main", f"{queues}/clusterqueues?team-a"
    active = {"conditions": [{"type": "Active", "status": "True"}], "pendingWorkloads": 3}
    shop.objects[local] = {
        "metadata": {"name": "main", "namespace": "shop"},
        "spec": {"clusterQueue": "team-a"},
        "status": active,
    }
    shop.objects[shared] = {"metadata": {"name": "team-a"}, "status": active}
    assert shop.seen().extras == {}
    shop.objects[POD]["metadata"]["labels"] |= {MANAGED: "true", QUEUE_NAME: "main"}

    assert QueueObjects.of(shop.seen().extras).queues == (
        Queue("Kueue", "shop", "main", cluster_queue="team-a"),
        Queue("Kueue", "", "team-a", waiting=3),
    )
    assert {local, shared} <= set(shop.asked())
    assert shop.asked()[-1] == BUDGETS
    del shop.objects[local]
    assert shop.seen().extras == {}


def test_a_pod_with_a_claim_comes_with_the_pods_of_its_namespace_on_its_node(shop: Shop) -> None:
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    shop.objects[POD]["spec"]["volumes"].append(claim)
    on_node = f"{PODS_OF_SHOP}?te1"
    shop.server.answer = lambda request: (
        Reply(body={"metadata": {}, "items": [manifests.pod("web-2")]})
        if asked_for(request) == on_node
        else shop.answer(request)
    )
    assert [pod.name for pod in shop.seen().siblings] == ["web-2"]
    assert shop.asked()[-2:] == [on_node, BUDGETS]


def test_a_node_with_room_comes_with_the_pods_on_it_alone(shop: Shop) -> None:
    look = shop.look(room_on="te1")

    assert look is not None
    assert look.room is not None
    assert look.room.node == look.node
    assert [pod.name for pod in look.room.pods] == ["web-1"]
    assert shop.asked() == [
        *(POD, NODE, REPLICA_SET, DEPLOYMENT, AUTOSCALERS, NODE, f"{PODS}?te1", BUDGETS)
    ]


def test_a_node_with_room_may_be_gone(shop: Shop) -> None:
    look = shop.look(room_on="te2")

    assert look is not None
    assert look.room is None


DEVICES = "/apis/resource.k8s.io/v1"
OF_SHOP = f"{DEVICES}/namespaces/shop"


def has_a_device(shop: Shop) -> None:
    """The pod has one of the two devices of its node, by a claim from a template."""
    shop.objects[POD] = manifests.pod(
        resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    )
    shop.objects[f"{DEVICES}/resourceslices?te1"] = resource_slice("te1", "a", "b")
    shop.objects[f"{DEVICES}/resourceslices?te2"] = resource_slice("te2", "a", "b")
    shop.objects["/api/v1/nodes?te2"] = manifests.node("te2")
    for path in (DEVICES, OF_SHOP):
        shop.server.lists[f"{path}/resourceclaims"] = [
            claim("uid-web-1", "te1", "a"),
            claim("uid-other", "te2", "b"),
        ]
        shop.server.lists[f"{path}/resourceclaimtemplates"] = [claim_template()]
    shop.server.lists[f"{DEVICES}/deviceclasses"] = [device_class()]


ONE_DEVICE = ((f"resource.k8s.io/{DRIVER}", 1),)


def test_the_devices_of_its_claims_are_read_again(shop: Shop) -> None:
    """R3.4: only of its node and of its namespace."""
    has_a_device(shop)

    pod = shop.seen().pod
    assert (pod.scheduling.requests.extended, pod.uncounted_claims) == (ONE_DEVICE, "")
    kinds = f"{OF_SHOP}/resourceclaims", f"{OF_SHOP}/resourceclaimtemplates"
    assert [path for path in shop.asked() if DEVICES in path] == [
        *(f"{DEVICES}/resourceslices?te1", *kinds, f"{DEVICES}/deviceclasses")
    ]
    shop.server.lists[f"{OF_SHOP}/resourceclaims"] = []
    assert shop.seen().pod.uncounted_claims


def test_a_node_with_room_comes_with_the_devices_that_no_claim_holds(shop: Shop) -> None:
    has_a_device(shop)
    shop.server.lists[PODS] = []

    look = shop.look(room_on="te2")
    assert look is not None
    assert look.room is not None
    assert look.pod.scheduling.requests.extended == ONE_DEVICE
    assert look.room.node.allocatable.extended == ONE_DEVICE


def test_a_pod_that_is_gone_costs_one_request(shop: Shop) -> None:
    del shop.objects[POD]

    assert shop.look() is None
    assert shop.asked() == [POD]


def test_a_proxy_does_not_know_that_a_pod_is_gone(shop: Shop) -> None:
    shop.server.answer = lambda _: Reply(404, b"<html>")

    with pytest.raises(ObservationError, match="pods could not be read"):
        shop.look()


def test_a_proxy_does_not_know_that_there_are_no_autoscalers(shop: Shop) -> None:
    del shop.server.lists[AUTOSCALERS]
    replies = {AUTOSCALERS: NO_SUCH_PATH, "/apis": api_groups("autoscaling")}
    shop.server.answer = lambda request: replies.get(request.path) or shop.answer(request)

    with pytest.raises(ObservationError, match="horizontalpodautoscalers could not be read"):
        shop.look()


@pytest.mark.parametrize(
    ("kind", "path", "controller"),
    [
        ("StatefulSet", f"{APPS}/statefulsets?db", manifests.stateful_set()),
        ("Job", JOB, manifests.job()),
    ],
)
def test_a_stateful_set_or_a_job_is_the_workload_itself(
    shop: Shop, kind: str, path: str, controller: manifests.Object
) -> None:
    name = controller["metadata"]["name"]
    shop.owned_by(kind, name)
    shop.objects[path] = controller

    workload = shop.seen().workload

    assert workload is not None
    assert (str(workload), workload.rolling_out) == (f"{kind} shop/{name}", False)
    assert workload.survives_disruption is (kind == "StatefulSet")


def test_a_controller_that_is_not_understood_is_named_and_is_no_workload(shop: Shop) -> None:
    shop.objects[REPLICA_SET] = manifests.replica_set(owned_by=manifests.owner("Rollout", "web"))

    look = shop.seen()

    assert look.workload is None
    assert look.controller_owner == Owner("Rollout", "web", "uid-web", "apps/v1")
    assert DEPLOYMENT not in shop.asked()


def test_of_an_unknown_kind_of_controller_nothing_is_asked(shop: Shop) -> None:
    shop.owned_by("Carousel", "web")

    assert shop.seen().workload is None
    assert shop.asked() == [POD, NODE, AUTOSCALERS, BUDGETS]


def test_a_bare_pod_has_no_workload(shop: Shop) -> None:
    shop.objects[POD]["metadata"]["ownerReferences"] = []

    assert shop.seen().workload is None


@pytest.mark.parametrize("path", [REPLICA_SET, DEPLOYMENT])
def test_a_controller_that_is_gone_leaves_no_workload(shop: Shop, path: str) -> None:
    del shop.objects[path]

    assert shop.seen().workload is None


@pytest.mark.parametrize("path", [REPLICA_SET, DEPLOYMENT])
def test_a_later_controller_of_the_same_name_is_not_the_pods(shop: Shop, path: str) -> None:
    shop.objects[path]["metadata"]["uid"] = "a-later-one"

    assert shop.seen().workload is None


def test_a_node_that_is_gone_is_none(shop: Shop) -> None:
    del shop.objects[NODE]

    assert shop.seen().node is None


def test_a_pod_without_a_node_is_not_asked_for_one(shop: Shop) -> None:
    shop.objects[POD] = manifests.pod(nodeName=None)

    assert shop.seen().node is None
    assert NODE not in shop.asked()


def test_a_cluster_without_autoscalers_is_read_all_the_same(shop: Shop) -> None:
    del shop.server.lists[AUTOSCALERS]
    replies = {AUTOSCALERS: NO_SUCH_PATH, "/apis": api_groups("apps", "policy")}
    shop.server.answer = lambda request: replies.get(request.path) or shop.answer(request)

    workload = shop.seen().workload

    assert workload is not None
    assert workload.autoscaler is None


def test_budgets_that_cannot_be_seen_are_never_taken_for_none(shop: Shop) -> None:
    del shop.server.lists[BUDGETS]

    with pytest.raises(ObservationError, match="poddisruptionbudgets could not be read"):
        shop.look()


@pytest.mark.parametrize(
    ("path", "what"),
    [
        (POD, "get pods"),
        (NODE, "list nodes"),
        (REPLICA_SET, "list replicasets in group apps"),
        (DEPLOYMENT, "list deployments in group apps"),
        (AUTOSCALERS, "list horizontalpodautoscalers in group autoscaling"),
        (BUDGETS, "list poddisruptionbudgets in group policy"),
    ],
)
def test_what_may_not_be_read_is_named(shop: Shop, path: str, what: str) -> None:
    shop.server.answer = lambda request: (
        status(403, "no") if asked_for(request) == path else shop.answer(request)
    )

    with pytest.raises(ObservationError, match=rf"may not {what} \(403\)"):
        shop.look()


def test_a_pod_that_cannot_be_understood_is_an_error(shop: Shop) -> None:
    shop.objects[POD] = {"kind": "Pod"}

    with pytest.raises(ObservationError, match="The Pod without a name cannot be read"):
        shop.look()


def test_the_whole_look_has_one_deadline(shop: Shop) -> None:
    with pytest.raises(ObservationError, match="given up at `get pods`"):
        shop.look(deadline_seconds=0.0)


def test_several_pods_are_looked_at_side_by_side(shop: Shop) -> None:
    together = Barrier(3)
    names = ("web-1", "web-2", "web-3")
    shop.objects |= {f"{PODS_OF_SHOP}/{name}": manifests.pod(name) for name in names}
    answer = shop.server.answer

    def meet(request: Request) -> Reply | None:
        if request.path.startswith(PODS_OF_SHOP):
            together.wait(PATIENCE_SECONDS)
        return answer(request)

    shop.server.answer = meet
    looks = shop.looks(*names)

    assert [look.pod.name for look in looks if isinstance(look, FreshPod)] == list(names)


def test_a_pod_that_cannot_be_read_does_not_hide_the_others(shop: Shop) -> None:
    shop.objects[f"{PODS_OF_SHOP}/web-2"] = {"kind": "Pod"}

    seen, unreadable, gone = shop.looks("web-1", "web-2", "web-3")

    assert isinstance(seen, FreshPod)
    assert isinstance(unreadable, ObservationError)
    assert gone is None
