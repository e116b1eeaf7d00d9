import pytest

from desched.adapters.kubernetes.client.access import EVICT_POD, GET_POD, REQUIRED_ACCESS
from desched.api_objects.access import Access


def test_paths_follow_the_apis_rules() -> None:
    assert Access("list", "", "nodes", "x", "").path() == "/api/v1/nodes"
    assert (
        Access("list", "autoscaling", "hpas", "x", "", version="v2").path()
        == "/apis/autoscaling/v2/hpas"
    )
    assert GET_POD.path("shop", "web-1") == "/api/v1/namespaces/shop/pods/web-1"
    assert EVICT_POD.path("shop", "web-1") == "/api/v1/namespaces/shop/pods/web-1/eviction"


@pytest.mark.parametrize("name", ["../../secrets", "a?b", "a/b", "a%2fb", "a#b"])
def test_a_name_cannot_lead_elsewhere(name: str) -> None:
    path = GET_POD.path("shop", name)

    assert path.count("/") == "/api/v1/namespaces/shop/pods/x".count("/")
    assert not set("?#") & set(path)


def test_nothing_is_declared_twice_and_everything_has_a_reason() -> None:
    accesses = [(access.verb, access.group, access.resource) for access in REQUIRED_ACCESS]

    assert len(set(accesses)) == len(accesses)
    assert all(len(access.reason.split()) >= 3 for access in REQUIRED_ACCESS)


def test_pods_are_evicted_and_never_deleted_or_changed() -> None:
    assert {access.verb for access in REQUIRED_ACCESS} == {"get", "list", "watch", "create"}
    created = {access.resource for access in REQUIRED_ACCESS if access.verb == "create"}
    assert created == {"pods/eviction", "events"}
