"""Lists in pages, and every way in which one can fail."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import structlog

import desched.adapters.kubernetes.client.connection as connection_module
from desched.adapters.kubernetes.client.access import METRICS_ACCESS, REQUIRED_ACCESS
from desched.adapters.kubernetes.cluster_reader import KubernetesReader
from desched.errors import ObservationError, ObservationSource
from desched.gangs.objects import GangObjects
from desched.model.cluster import ClusterState
from desched.network.objects import HyperNode, NetworkObjects, Topology
from desched.plugins.gangs.pod_groups import POD_GROUPS
from desched.plugins.kinds import PLUGIN_KINDS
from desched.plugins.networks.kinds import HYPER_NODES, TOPOLOGIES
from desched.plugins.queues.kinds import QUEUES
from desched.plugins.queues.objects import Queue, QueueObjects
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

PODS = "/api/v1/pods"
AUTOSCALERS = "/apis/autoscaling/v2/horizontalpodautoscalers"
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
BUDGETS = "/apis/policy/v1/poddisruptionbudgets"


def reader_of(server: FakeApiServer, **settings: Any) -> KubernetesReader:
    return KubernetesReader(connection_to(server), page_size=2, **settings)


def failure(server: FakeApiServer, **settings: Any) -> str:
    with pytest.raises(ObservationError) as caught:
        reader_of(server, **settings).read_cluster()
    assert caught.value.source is ObservationSource.CLUSTER
    return str(caught.value)


def paged(server: FakeApiServer, path: str, items: list[manifests.Object]) -> None:
    """Serves pages of as many as are asked for; the continue token is the next index."""

    def answer(request: Request) -> Reply | None:
        if request.path != path:
            return None
        first, limit = int(request.query.get("continue", "0")), int(request.query["limit"])
        following = first + limit
        metadata = {"continue": str(following)} if following < len(items) else {}
        return Reply(body={"metadata": metadata, "items": items[first:following]})

    server.answer = answer


def test_a_page_that_is_too_large_is_read_in_smaller_parts(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "LONGEST_BODY_BYTES", 50_000)
    padding = {"annotations": {"notes": "x" * 20_000}}
    large = [manifests.pod(f"large-{i}") for i in range(8)]
    for each in large:
        each["metadata"] |= padding
    small = [manifests.pod(f"small-{i}") for i in range(20)]
    paged(server, PODS, [*large, *small])
    reader = KubernetesReader(connection_to(server), page_size=8)
    assert len(reader.read_cluster().pods) == 28
    limits = [int(r.query["limit"]) for r in server.requests if r.path == PODS]
    assert limits == [8, 2, 4, 1, 2, 4, 1, 2, 4, 8, 8]


def test_an_object_that_is_too_large_alone_is_an_error(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "LONGEST_BODY_BYTES", 50_000)
    large = manifests.pod()
    large["metadata"] |= {"annotations": {"notes": "x" * 60_000}}
    paged(server, PODS, [large])
    assert "larger than 0 MiB" in failure(server)


def test_everything_is_read_and_joined(server: FakeApiServer) -> None:
    named = {"metadata": manifests.metadata("x", "")}
    server.lists = {
        "/api/v1/nodes": [manifests.node()],
        PODS: [manifests.pod()],
        "/api/v1/namespaces": [
            {"metadata": manifests.metadata("shop", "", labels={"team": "shop"})}
        ],
        "/api/v1/persistentvolumeclaims": [
            {"metadata": manifests.metadata("data"), "spec": {"volumeName": "pv-1"}}
        ],
        "/api/v1/persistentvolumes": [{"metadata": manifests.metadata("pv-1", ""), "spec": {}}],
        "/api/v1/services": [{"metadata": manifests.metadata("web"), "spec": {}}],
        "/apis/apps/v1/replicasets": [
            manifests.replica_set(owned_by=manifests.owner("Deployment", "web"))
        ],
        "/apis/apps/v1/deployments": [manifests.deployment()],
        "/apis/apps/v1/statefulsets": [manifests.stateful_set()],
        "/apis/batch/v1/jobs": [manifests.job()],
        AUTOSCALERS: [manifests.autoscaler(3, 5)],
        BUDGETS: [manifests.budget({"matchLabels": {"app": "web"}})],
        "/apis/scheduling.k8s.io/v1/priorityclasses": [named | {"value": -7}],
        STORAGE_CLASSES: [named | {"provisioner": "p"}],
        CSI_NODES: [named | {"spec": {"drivers": None}}],
    }

    cluster = reader_of(server).read_cluster()

    (pod,) = cluster.pods
    workload = cluster.workload_of(pod)
    assert workload is not None
    assert (workload.kind, workload.name, workload.scaling) == ("Deployment", "web", True)
    assert [str(budget) for budget in cluster.budgets_of(pod)] == ["shop/web"]
    assert cluster.node_by_name["te1"].allocatable.cpu_millicores == 3920
    assert cluster.namespaces == {"shop": {"team": "shop"}}
    assert cluster.priority_classes == {"x": -7}
    assert cluster.claims["shop", "data"].volume == "pv-1"
    assert set(cluster.volumes) == {"pv-1"}
    assert set(cluster.storage_classes) == set(cluster.csi_nodes) == {"x"}
    assert [service.name for service in cluster.services] == ["web"]
    assert {uid for _, uid in cluster.workloads} == {"uid-web-5d4", "uid-db", "uid-sums"}
    assert {uid for _, uid in cluster.controller_selectors} == {"uid-web-5d4", "uid-db"}
    assert cluster.server_version == "v1.36.3"


def test_a_node_that_is_listed_twice_is_one_node(server: FakeApiServer) -> None:
    server.lists = {"/api/v1/nodes": [manifests.node(), manifests.node()]}
    (node,) = reader_of(server).read_cluster().nodes
    assert node.name == manifests.node()["metadata"]["name"]


def test_nodes_and_pods_have_the_devices_of_claims(server: FakeApiServer) -> None:
    """R3.4."""
    of_template = {"name": "gpu", "resourceClaimTemplateName": "gpu"}
    shared = {"name": "other", "resourceClaimName": "gpu-0"}
    found = {
        "resourceslices": resource_slice("te1", "a", "b"),
        "resourceclaims": claim("uid-web-1", "te1", "a"),
        "resourceclaimtemplates": claim_template(),
        "deviceclasses": device_class(),
    }
    server.lists = {f"/apis/resource.k8s.io/v1/{kind}": [each] for kind, each in found.items()}
    server.lists |= {
        "/api/v1/nodes": [manifests.node()],
        PODS: [
            manifests.pod(resourceClaims=[of_template]),
            manifests.pod("web-2", resourceClaims=[shared]),
        ],
    }

    cluster = reader_of(server).read_cluster()

    resource = f"resource.k8s.io/{DRIVER}"
    assert dict(cluster.nodes[0].allocatable.extended)[resource] == 2
    assert [pod.uncounted_claims for pod in cluster.pods] == [
        "",
        "others may share its claim other",
    ]
    assert cluster.pods[0].scheduling.requests.extended == ((resource, 1),)


def test_each_declared_list_is_asked_for_once_and_nothing_else(server: FakeApiServer) -> None:
    reader_of(server).read_cluster()

    of_others = set(METRICS_ACCESS)  # the source of load reads them
    needed = [access for access in REQUIRED_ACCESS if access not in of_others]
    declared = [access.path() for access in needed if access.verb == "list"]
    declared += [kind.access.path() for kinds in PLUGIN_KINDS for kind in kinds.kinds]
    asked = [path for path in server.paths() if path != "/apis"]
    assert sorted(asked) == sorted([*declared, "/version"])


def test_systems_that_the_server_does_not_list_are_not_asked_for(server: FakeApiServer) -> None:
    """X3: most clusters lack most systems, and nothing is refused to desched."""
    server.answer = lambda request: (
        api_groups("apps", "scheduling.k8s.io") if request.path == "/apis" else None
    )

    reader_of(server).read_cluster()

    assert not [path for path in server.paths() if path.endswith("podgroups")]
    assert server.paths().count("/apis") == 1


def test_lists_of_null_are_empty(server: FakeApiServer) -> None:
    server.date = "Fri, 01 May 2026 12:00:00 GMT"
    noon = datetime(2026, 5, 1, 12, tzinfo=UTC)

    state = reader_of(server).read_cluster()

    health = state.server_health
    assert (health.requests > 1, health.failed) == (True, 0)
    assert state == ClusterState(
        (), (), server_version="v1.36.3", server_times=(noon, noon), server_health=health
    )


@pytest.mark.parametrize(("count", "requests"), [(0, 1), (2, 1), (3, 2), (5, 3)])
def test_a_long_list_comes_in_pages(server: FakeApiServer, count: int, requests: int) -> None:
    paged(server, PODS, [manifests.pod(f"web-{number}") for number in range(count)])

    cluster = reader_of(server).read_cluster()

    assert [pod.name for pod in cluster.pods] == [f"web-{number}" for number in range(count)]
    assert server.paths().count(PODS) == requests


def expiring(server: FakeApiServer, times: int) -> None:
    paged(server, PODS, [manifests.pod(f"web-{number}") for number in range(3)])
    pages = server.answer
    left = [status(410, "The provided continue parameter is too old")] * times

    def answer(request: Request) -> Reply | None:
        if left and "continue" in request.query:
            return left.pop()
        return pages(request)

    server.answer = answer


def test_an_expired_list_is_read_again_from_its_start(server: FakeApiServer) -> None:
    expiring(server, times=1)

    cluster = reader_of(server).read_cluster()

    assert [pod.name for pod in cluster.pods] == ["web-0", "web-1", "web-2"]
    assert server.paths().count(PODS) == 4


def test_a_list_that_expires_twice_is_given_up(server: FakeApiServer) -> None:
    expiring(server, times=2)

    assert failure(server).startswith("The list of pods expired twice")


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (400, "The pods could not be read: status 400: so it is."),
        (401, "credentials are not accepted (401)"),
        (403, "the account may not list pods (403); grant it, as the ClusterRole in deploy/ does"),
        (404, "the server does not have that kind (404)"),
        (410, "status 410: so it is."),
        (429, "throttling (429)"),
        (503, "status 503: so it is."),
    ],
)
def test_the_error_of_a_refused_list_has_the_remedy(
    server: FakeApiServer, code: int, sentence: str
) -> None:
    server.answer = lambda request: status(code, "so it is") if request.path == PODS else None

    assert sentence in failure(server)


def test_a_refusal_names_the_api_group(server: FakeApiServer) -> None:
    server.answer = lambda request: status(403, "no") if request.path == BUDGETS else None

    assert "may not list poddisruptionbudgets in group policy (403)" in failure(server)


def test_a_cluster_may_lack_what_is_an_add_on(server: FakeApiServer) -> None:
    add_ons = dict.fromkeys([AUTOSCALERS, CSI_NODES, STORAGE_CLASSES], NO_SUCH_PATH)
    replies = {**add_ons, "/apis": api_groups("apps", "policy")}
    server.answer = lambda request: replies.get(request.path)

    assert reader_of(server).read_cluster().nodes == ()


@pytest.mark.parametrize("path", [AUTOSCALERS, CSI_NODES, STORAGE_CLASSES])
@pytest.mark.parametrize(
    "said",
    [NO_SUCH_PATH, Reply(404, b"<html>"), status(404, "not found")],  # the last of a version
)
def test_what_the_server_has_is_never_taken_for_absent(
    server: FakeApiServer, path: str, said: Reply
) -> None:
    replies = {path: said, "/apis": api_groups("apps", "autoscaling", "policy", "storage.k8s.io")}
    server.answer = lambda request: replies.get(request.path)

    assert "does not have that kind (404)" in failure(server)


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        (NO_SUCH_PATH, "does not have that kind (404)"),
        (status(403, "no"), "does not have that kind (404)"),
        (Reply(body=b"<html>"), "The APIGroupList without a name cannot be read"),
        (Reply(body={"kind": "APIGroupList", "groups": None}), "APIGroupList without a name"),
        (Reply(body={"groups": []}), "APIGroupList without a name"),
    ],
)
def test_without_the_servers_own_word_nothing_is_absent(
    server: FakeApiServer, groups: Reply, sentence: str
) -> None:
    replies = {AUTOSCALERS: NO_SUCH_PATH, "/apis": groups}
    server.answer = lambda request: replies.get(request.path)

    assert sentence in failure(server)


def test_a_list_that_is_gone_after_its_first_page_is_not_absent(server: FakeApiServer) -> None:
    paged(server, AUTOSCALERS, [manifests.autoscaler(3, 3) for _ in range(3)])
    pages = server.answer

    def answer(request: Request) -> Reply | None:
        if request.path == "/apis":
            return api_groups("autoscaling")
        return NO_SUCH_PATH if "continue" in request.query else pages(request)

    server.answer = answer

    assert "horizontalpodautoscalers could not be read" in failure(server)


def test_budgets_that_cannot_be_seen_are_never_taken_for_none(server: FakeApiServer) -> None:
    replies = {BUDGETS: NO_SUCH_PATH, "/apis": api_groups("apps")}
    server.answer = lambda request: replies.get(request.path)

    assert "poddisruptionbudgets could not be read" in failure(server)


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"<html>", b"[]", b"{}", b"\xff"),
        *(b'{"items": 5}', b'{"items": [', b'{"kind": "Status"}'),
        b'{"items": [], "metadata": {"remainingItemCount": 3}}',
    ],
)
def test_an_answer_that_is_no_whole_list_is_an_error(server: FakeApiServer, body: bytes) -> None:
    server.answer = lambda request: Reply(body=body) if request.path == PODS else None

    assert failure(server).startswith("The list of Pods cannot be read (")


def test_an_unreadable_object_is_named_with_its_field(server: FakeApiServer) -> None:
    bad = manifests.pod("web-2", nodeName=7)
    server.lists[PODS] = [manifests.pod(), bad]

    sentence = failure(server)

    assert sentence.startswith("The Pod shop/web-2 cannot be read (")
    assert "$.spec.nodeName" in sentence
    assert "nothing is evicted" in sentence


def test_an_unreadable_metric_is_named_with_its_autoscaler(server: FakeApiServer) -> None:
    bad = manifests.autoscaler(3, 3, metrics=[{"pods": {"target": {"averageValue": "lots"}}}])
    bad["status"]["currentMetrics"] = [{"pods": {"current": {"averageValue": "1"}}}]
    server.lists[AUTOSCALERS] = [bad]

    assert failure(server).startswith("The HorizontalPodAutoscaler shop/web cannot be read (")


def test_all_lists_together_have_a_deadline(server: FakeApiServer) -> None:
    sentence = failure(server, cluster_deadline_seconds=0.0)

    assert "took too long and was given up at `list nodes`" in sentence
    assert server.requests == []


def test_a_server_whose_lists_never_end_is_given_up(server: FakeApiServer) -> None:
    endless = Reply(body={"metadata": {"continue": "more"}, "items": []})
    server.answer = lambda _: endless

    sentence = failure(server, cluster_deadline_seconds=0.3)

    assert "given up at `list nodes`" in sentence or "the deadline passed" in sentence


def test_a_server_that_hides_its_version_is_read_all_the_same(server: FakeApiServer) -> None:
    server.answer = lambda request: status(403, "no") if request.path == "/version" else None

    assert reader_of(server).read_cluster().server_version == ""


def test_the_servers_clock_is_read_from_its_answers(server: FakeApiServer) -> None:
    dates = [f"Fri, 01 May 2026 12:00:{second:02d} GMT" for second in (7, 5, 9)]

    def answer(_: Request) -> None:
        server.date = dates.pop() if len(dates) > 1 else dates[0]

    server.answer = answer
    cluster = reader_of(server).read_cluster()

    noon = datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert cluster.server_times == (noon + timedelta(seconds=5), noon + timedelta(seconds=9))


@pytest.mark.parametrize("date", ["", "yesterday", "Fri, 99 May 2026 12:00:00 GMT"])
def test_a_server_without_a_date_in_its_answers_is_an_error(
    server: FakeApiServer, date: str
) -> None:
    server.date = date

    assert failure(server).startswith("No answer of the API server has its time")


VERTICAL_AUTOSCALERS = "/apis/autoscaling.k8s.io/v1/verticalpodautoscalers"


def sized_cluster(server: FakeApiServer) -> None:
    """The pod `web-1` has a template of 500m, and a recommendation of 700m."""
    deployment = manifests.deployment()
    deployment["spec"]["template"] = {"spec": manifests.pod()["spec"]}
    server.lists = {
        PODS: [manifests.pod()],
        "/apis/apps/v1/replicasets": [
            manifests.replica_set(owned_by=manifests.owner("Deployment", "web"))
        ],
        "/apis/apps/v1/deployments": [deployment],
        VERTICAL_AUTOSCALERS: [manifests.vertical_autoscaler(manifests.recommended(cpu="700m"))],
    }


def requested(cluster: ClusterState) -> int:
    """The millicores that a replacement of the pod requests."""
    (pod,) = cluster.pods
    workload = cluster.workload_of(pod)
    assert workload is not None
    assert workload.template_requests is not None
    return workload.template_requests.cpu_millicores


def test_a_replacement_requests_what_a_vertical_autoscaler_recommends(
    server: FakeApiServer,
) -> None:
    sized_cluster(server)

    cluster = reader_of(server).read_cluster()

    assert requested(cluster) == 700
    assert cluster.sized_owners == {("Deployment", "shop", "web")}


@pytest.mark.parametrize(
    ("reply", "level", "event"),
    [
        (NO_SUCH_PATH, "debug", "kind.not_served"),
        (status(404, "the server could not find it"), "debug", "kind.not_served"),
        (status(403, "no"), "warning", "right.not_granted"),
    ],
)
def test_vertical_autoscalers_that_cannot_be_read_are_logged_once(
    server: FakeApiServer, reply: Reply, level: str, event: str
) -> None:
    sized_cluster(server)
    server.answer = lambda request: reply if request.path == VERTICAL_AUTOSCALERS else None
    reader = reader_of(server)

    with structlog.testing.capture_logs() as logs:
        found = [requested(reader.read_cluster()) for _ in range(3)]

    assert found == [500, 500, 500]
    assert [(entry["log_level"], entry["event"]) for entry in logs] == [(level, event)]


GROUPS = "/apis/scheduling.volcano.sh/v1beta1/podgroups"


def served(group: str, *versions: str) -> Reply:
    """The server's own list of its API groups, with the versions of one."""
    listed = [{"groupVersion": f"{group}/{each}", "version": each} for each in versions]
    return Reply(body={"kind": "APIGroupList", "groups": [{"name": group, "versions": listed}]})


@pytest.mark.parametrize(
    ("groups", "level", "event"),
    [
        (served("apps", "v1"), "debug", "kind.not_served"),
        (served("scheduling.volcano.sh", "v1alpha1"), "info", "kind.not_served"),
        (served("scheduling.volcano.sh", "v1alpha1", "v1beta1"), "warning", "right.not_granted"),
    ],
)
def test_a_system_that_is_absent_of_another_version_or_not_granted_is_off(
    server: FakeApiServer, groups: Reply, level: str, event: str
) -> None:
    """X3: said once, quietly if it is not there at all, and never an error."""
    replies = {GROUPS: status(403, "no"), "/apis": groups}
    server.answer = lambda request: replies.get(request.path)
    reader = reader_of(server)

    with structlog.testing.capture_logs() as logs:
        found = [GangObjects.of(reader.read_cluster().extras).groups for _ in range(3)]

    assert found == [(), (), ()]
    (entry,) = filter(is_of_groups, logs)
    assert (entry["log_level"], entry["event"]) == (level, event)
    assert (GROUPS in server.paths()) == (event == "right.not_granted")


def is_of_groups(entry: Mapping[str, Any]) -> bool:
    """Whether it is about the PodGroups of Volcano; the same holds for its Queues."""
    return "podgroups" in str(entry) and "scheduling.volcano.sh" in str(entry)


def test_a_system_that_comes_in_another_version_is_said_though_it_was_absent(
    server: FakeApiServer,
) -> None:
    """X3: a service may run for months before somebody installs it."""
    replies = {"/apis": served("apps", "v1")}
    server.answer = lambda request: replies.get(request.path)
    reader = reader_of(server)

    with structlog.testing.capture_logs() as logs:
        reader.read_cluster()
        replies["/apis"] = served("scheduling.volcano.sh", "v2")
        for _ in range(2):
            reader.read_cluster()

    of_volcano = [each["log_level"] for each in filter(is_of_groups, logs)]
    assert of_volcano == ["debug", "info"]


def test_the_groups_of_each_system_and_version_are_read(server: FakeApiServer) -> None:
    spec = {"minMember": 6, "schedulingPolicy": {"gang": {"minCount": 6}}}
    document = {"metadata": {"name": "llama", "namespace": "shop"}, "spec": spec}
    paths = [kind.access.path() for kinds in POD_GROUPS.values() for kind in kinds]
    server.lists = {path: [document] for path in paths}

    found = GangObjects.of(reader_of(server).read_cluster().extras).by_key

    assert {(system, "shop", "llama"): 6 for system in POD_GROUPS} == {
        key: each.minimum for key, each in found.items()
    }


def test_any_other_failure_to_read_vertical_autoscalers_ends_the_cycle(
    server: FakeApiServer,
) -> None:
    error = status(500, "conversion webhook failed")
    server.answer = lambda request: error if request.path == VERTICAL_AUTOSCALERS else None

    assert "verticalpodautoscalers could not be read: status 500" in failure(server)


def test_the_network_is_read_where_it_is_described(server: FakeApiServer) -> None:
    """R2.4, X3: HyperNodes with the nodes that they select, and Topologies."""
    member = {"type": "Node", "selector": {"regexMatch": {"pattern": "^gone-"}}}
    levels = {"levels": [{"nodeLabel": "example.com/rack"}]}
    server.lists = {
        HYPER_NODES.access.path(): [
            {"metadata": {"name": "s0"}, "spec": {"tier": 1, "members": [member]}}
        ],
        **{
            kind.access.path(): [{"metadata": {"name": "dc"}, "spec": levels}]
            for kind in TOPOLOGIES
        },
    }

    found = reader_of(server).read_cluster()

    topologies = (Topology(system, "dc", ("example.com/rack",)) for system in ("Kueue", "KAI"))
    assert found.extras == NetworkObjects((HyperNode("s0", 1),), tuple(topologies)).extras


def test_a_queue_that_two_versions_serve_is_there_once(server: FakeApiServer) -> None:
    """X3: Kueue 0.14 and later; the newer version counts, which is read last."""
    conditions = [{"type": "Active", "status": "True"}]
    for kind in QUEUES:
        waiting = 2 if kind.access.version == "v1beta2" else 1
        status_of = {"state": "Open", "conditions": conditions, "pendingWorkloads": waiting}
        spec = {"clusterQueue": "team-a"}
        queue = {"metadata": {"name": kind.access.resource}, "spec": spec, "status": status_of}
        server.lists[kind.access.path()] = [queue]

    assert QueueObjects.of(reader_of(server).read_cluster().extras).queues == (
        Queue("Kueue", "", "clusterqueues", waiting=2),
        Queue("Kueue", "", "localqueues", cluster_queue="team-a"),
        Queue("Volcano", "", "queues"),
    )


def test_queues_that_may_be_read_and_are_not_end_the_cycle(server: FakeApiServer) -> None:
    """X4: without them, no pod would be known to be safe."""
    path = QUEUES[0].access.path()
    server.answer = lambda request: status(500, "no") if request.path == path else None

    assert "clusterqueues could not be read: status 500" in failure(server)
