"""A state deleted under a running service brings neither evictions twice nor an end of pauses."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from desched.adapters.kubernetes.state_store import CONFIG_MAP
from tests.controlplane.installation import ALONE, WINDOW_SECONDS
from tests.controlplane.manifests import Object
from tests.controlplane.replicas import Replica, Replicas
from tests.controlplane.sites import Site, Sites

SITE = "gone"
PATH = f"/api/v1/namespaces/{SITE}/configmaps/{CONFIG_MAP}"
ONE_BY_ONE: Object = {"evictionLimits": {"node": 1}}
PAUSED = "shop/till"


def relieved_by_one() -> Site:
    """One move of two cools the node, which its windows do not show at once."""
    site = Site(SITE)
    site.node("hot", uses="1980m")
    site.node("cool1", "cool2")
    for name in ("a", "b"):
        at_once = {"terminationGracePeriodSeconds": 0}
        site.workload(name, ("hot", "cool1"), "900m", cpu_request="900m", **at_once)
    return site


@pytest.fixture(scope="module")
def sites(empty_sites: Sites) -> Sites:
    empty_sites.build(relieved_by_one())
    return empty_sites


@pytest.fixture
def replicas(sites: Sites) -> Iterator[Replicas]:
    found = Replicas(sites, SITE, **ONE_BY_ONE)
    yield found
    found.stop()


def cycles_since(service: Replica, moment: datetime) -> list[Object]:
    return [
        cycle for cycle in service.cycles if datetime.fromisoformat(cycle["timestamp"]) > moment
    ]


def test_a_deleted_state_comes_back_and_the_same_load_is_not_evicted_twice(
    sites: Sites, replicas: Replicas
) -> None:
    sites.command("pause", "--workload", PAUSED, "--state-namespace", SITE)
    service = replicas.start("", ALONE)
    (first,) = service.wait_until("an eviction", replicas.evictions)

    sites.plane.request("DELETE", PATH)

    settled = first.ended + timedelta(seconds=WINDOW_SECONDS + 3)
    service.wait_until("the windows show it", lambda: cycles_since(service, settled))
    service.wait_until("what became of it", lambda: (replicas.state() or {}).get("moves"))
    assert [eviction.name for eviction in replicas.evictions()] == [first.name]
    (gone,) = service.events("state.gone")
    assert "deleted" in gone["why"]
    state = replicas.state()
    assert [pause["subject"] for pause in state["pauses"]] == [PAUSED]
    assert [move["workload"] for move in state["moves"]] == [f"Deployment {SITE}/a"]
    assert datetime.fromisoformat(state["since"]) > first.ended
