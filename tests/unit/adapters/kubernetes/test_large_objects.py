"""No tenant fills the memory: what is too large is not kept, and all pods of its namespace stay."""

import msgspec
import pytest

from desched.adapters.kubernetes.cluster_reader import KubernetesReader
from desched.adapters.kubernetes.objects.bounded_constraints import MOST_RESOURCES
from desched.adapters.kubernetes.objects.budgets import BUDGETS, SERVICES
from desched.api_objects import memory_bounds
from desched.api_objects.memory_bounds import LARGEST_BYTES, NamespaceShares, kept_bytes
from desched.model.cluster import ClusterState, LargeObjects, PodRef
from desched.model.snapshot import FreshPod
from desched.ports import PodToRead
from tests.unit.adapters.kubernetes import manifests
from tests.unit.adapters.kubernetes.fake_api_server import FakeApiServer, Reply, connection_to
from tests.unit.adapters.kubernetes.large_documents import LargeObject, large_objects

PODS = "/api/v1/pods"
BUDGETS_OF_ALL = "/apis/policy/v1/poddisruptionbudgets"


@pytest.mark.parametrize("large", large_objects(), ids=str)
def test_whatever_a_tenant_fills_little_of_it_is_kept(large: LargeObject) -> None:
    decoder = large.kind.decoder_within(NamespaceShares())
    kept = decoder.one(large.body(1))
    assert kept_bytes(kept) <= LARGEST_BYTES


def budget(name: str, labels: int, namespace: str = "evil") -> manifests.Object:
    found = manifests.budget({"matchLabels": {f"key-{i}": "x" * 50 for i in range(labels)}})
    found["metadata"] = manifests.metadata(name, namespace)
    return found


def cluster(server: FakeApiServer, **lists: list[manifests.Object]) -> ClusterState:
    server.lists = {PODS: lists.get("pods", []), BUDGETS_OF_ALL: lists.get("budgets", [])}
    server.lists["/api/v1/namespaces"] = lists.get("namespaces", [])
    server.lists["/api/v1/nodes"] = lists.get("nodes", [])
    return KubernetesReader(connection_to(server)).read_cluster()


def test_a_budget_that_is_too_large_is_reported_for_its_namespace_alone(
    server: FakeApiServer,
) -> None:
    found = cluster(server, budgets=[budget("big", 2000), budget("small", 1, "shop")])
    assert [str(each) for each in found.budgets] == ["shop/small"]
    why = "PodDisruptionBudget big: 127 KiB to be read, more than 64"
    assert found.too_large == {"evil": LargeObjects(1, 0, why)}
    assert str(found.too_large["evil"]) == why


def test_a_namespace_keeps_its_name_when_its_labels_are_too_large(server: FakeApiServer) -> None:
    labels = {f"key-{i}": "x" * 50 for i in range(2000)}
    namespaces = [{"metadata": manifests.metadata("evil", "", labels=labels)}]
    found = cluster(server, namespaces=namespaces)
    assert found.namespaces == {"evil": {"kubernetes.io/metadata.name": "evil"}}
    assert list(found.too_large) == ["evil"]


def test_a_fresh_look_sees_a_budget_that_has_become_too_large(server: FakeApiServer) -> None:
    server.lists = {"/apis/policy/v1/namespaces/shop/poddisruptionbudgets": [budget("b", 2000)]}
    path = "/api/v1/namespaces/shop/pods/web-1"
    server.answer = lambda it: Reply(body=manifests.pod()) if it.path == path else None
    (look,) = KubernetesReader(connection_to(server)).read_around(
        [PodToRead(PodRef("shop", "web-1"))]
    )
    assert isinstance(look, FreshPod)
    assert look.too_large == "PodDisruptionBudget b: 127 KiB to be read, more than 64"


def test_the_large_objects_of_a_namespace_share_what_it_may_take(
    monkeypatch: pytest.MonkeyPatch, server: FakeApiServer
) -> None:
    monkeypatch.setattr(memory_bounds, "LARGEST_NAMESPACE_BYTES", 200_000)
    large = [budget(f"b{i}", 500) for i in range(3)]
    found = cluster(server, budgets=[*large, budget("small", 1), budget("other", 500, "shop")])
    assert [each.name for each in found.budgets] == ["b0", "small", "other"]
    assert {name: each.objects for name, each in found.too_large.items()} == {"evil": 2}


def test_the_large_objects_of_many_namespaces_share_what_all_may_take(
    monkeypatch: pytest.MonkeyPatch, server: FakeApiServer
) -> None:
    monkeypatch.setattr(memory_bounds, "LARGEST_TOTAL_BYTES", 400_000)
    large = [budget(f"b{i}", 500, f"evil-{i}") for i in range(3)]
    labels = {f"k{i}": "x" * 50 for i in range(1000)}
    pods = [manifests.pod(f"p{i}") for i in range(3)]
    for i, each in enumerate(pods):
        each["metadata"] |= {"namespace": f"evil-{i}", "labels": labels | {"n": str(i)}}
    found = cluster(server, pods=pods, budgets=[*large, budget("small", 1, "shop")])
    assert [each.name for each in found.budgets] == ["b0", "b1", "small"]
    assert [bool(each.labels) for each in found.pods] == [True, True, False]
    large_of = {name: (each.objects, each.pods) for name, each in found.too_large.items()}
    assert large_of == {"evil-2": (1, 1)}


def test_the_share_counts_the_last_version_of_each_object_and_is_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_bounds, "LARGEST_NAMESPACE_BYTES", 100_000)
    shares = NamespaceShares()
    one, two = (BUDGETS.access, "evil", "one"), (SERVICES.access, "evil", "two")
    assert all(shares.admits(one, size) for size in (60_000, 90_000, 60_000))
    assert not shares.admits(two, 50_000)
    assert shares.admits((BUDGETS.access, "shop", "one"), 90_000)
    shares.release(one)
    assert shares.admits(two, 50_000)
    assert not shares.admits(one, 60_000)
    shares.release_kind(SERVICES.access)
    assert shares.admits(one, 60_000)
    assert shares.admits(one, 1)  # an ordinary version takes nothing
    assert shares.admits(two, 90_000)


def pod_with(resources: int, node: str = "te1") -> manifests.Object:
    document = manifests.pod("greedy", nodeName=node)
    amounts = {f"a.b/r{i}": "1" for i in range(resources)}
    document["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return document


@pytest.mark.parametrize(("resources", "keeps"), [(MOST_RESOURCES - 1, True), (5000, False)])
def test_a_node_offers_no_devices_while_a_pod_may_have_any_of_them(
    server: FakeApiServer, resources: int, *, keeps: bool
) -> None:
    node = manifests.node()
    node["status"]["allocatable"]["nvidia.com/gpu"] = "8"
    found = cluster(server, pods=[pod_with(resources)], nodes=[node])
    assert bool(found.nodes[0].allocatable.extended) is keeps
    assert found.nodes[0].allocatable.cpu_millicores == 3920
    assert ("shop" in found.too_large) is not keeps
    if not keeps:
        assert found.too_large["shop"].pods == 1
        assert len(found.pods[0].scheduling.requests.extended) == MOST_RESOURCES


def test_the_labels_of_a_hundred_pods_that_differ_count_until_the_share_is_used(
    server: FakeApiServer,
) -> None:
    labels = next(each for each in large_objects() if each.place == "labels")
    assert labels.kind.wire.__name__ == "Pod"
    documents = [msgspec.json.decode(labels.body(i, 60_000)) for i in range(100)]
    found = cluster(server, pods=documents)
    reduced = [pod for pod in found.pods if pod.scheduling.unevaluated]
    kept = [pod for pod in found.pods if pod.labels]
    assert len(reduced) + len(kept) == 100
    assert sum(kept_bytes(pod.labels) for pod in kept) <= memory_bounds.LARGEST_NAMESPACE_BYTES
    assert {pod.scheduling.requests.cpu_millicores for pod in found.pods} == {500}
    assert found.too_large["evil"].pods == len(reduced) > 0
