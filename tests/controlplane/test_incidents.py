"""While the cluster is in trouble nothing is evicted; once it is over, a hot node is relieved.

Each incident is one of a site of its own, which has a node that becomes hot meanwhile.
"""

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.controlplane.fault_proxy import FaultProxy
from tests.controlplane.faults import status
from tests.controlplane.forks import forget_failures
from tests.controlplane.manifests import Object, deployment
from tests.controlplane.replicas import Replica, Replicas
from tests.controlplane.sites import Site, Sites

STRATEGIC = "application/strategic-merge-patch+json"

COOL_NODES = 5
LOOKS = 3
RULES = {"evictionPrice": "0s", "evictionLimits": {"slowStart": False}}
REMEMBERED_SECONDS = 20.0
"""How long a service knows of requests that failed."""

TEAMS = ("team-a", "team-b", "team-c")
PODS_OF_TEAM = 3


def site(name: str) -> Site:
    """A node that becomes hot when told so, which one of two pods relieves then, and cool ones."""
    built = Site(name)
    built.node("hot", uses="400m")
    built.node(*(f"cool{number}" for number in range(COOL_NODES)))
    built.workload("web", ("hot", "hot"), "500m", cpu_request="1200m")
    return built


@pytest.fixture(scope="module")
def sites(empty_sites: Sites) -> Sites:
    empty_sites.build(*map(site, ("server", "images")))
    return empty_sites


@pytest.fixture
def proxy(sites: Sites) -> Iterator[FaultProxy]:
    with FaultProxy.before(sites.plane) as between:
        yield between


def live_through(
    sites: Sites, name: str, end: Callable[[Replica], None], server: str = ""
) -> list[Object]:
    """The held cycles of a service that begins during an incident, which `end` ends."""
    replicas = Replicas(sites, name, **RULES)
    replicas.prepare = partial(forget_failures, REMEMBERED_SECONDS)
    try:
        replica = replicas.start(server)
        end(replica)
        assert replicas.evictions() == []
        sites.plane.wait_for("an eviction", replicas.evictions)
        (eviction, *_) = replicas.evictions()
        assert eviction.name.startswith("web")
        return held(replica)
    finally:
        replicas.stop()


def held(replica: Replica) -> list[Object]:
    """The cycles that the incident has held so far, although a node was overloaded."""
    return [
        cycle
        for cycle in replica.cycles
        if cycle.get("hold") == "cluster_in_trouble" and cycle["nodes"].get("overloaded")
    ]


def wait_until_held(replica: Replica) -> None:
    replica.wait_until("held cycles", lambda: len(held(replica)) >= LOOKS)


def test_while_new_pods_of_all_teams_lack_their_image_nothing_moves(sites: Sites) -> None:
    for team in TEAMS:
        sites.plane.create_namespace(team)
        sites.plane.apply(deployment("new", PODS_OF_TEAM, "10m", team, cpu_request="10m"))
        sites.plane.wait_for_ready_pods(team, PODS_OF_TEAM)
        for pod in sites.plane.pods(team):
            _take_image(sites, pod)
    _heat(sites, "images")

    def end(replica: Replica) -> None:
        wait_until_held(replica)
        for team in TEAMS:
            sites.plane.request("DELETE", f"/apis/apps/v1/namespaces/{team}/deployments/new")

    cycles = live_through(sites, "images", end)
    assert "9 pods in 3 namespaces or owners cannot start" in cycles[0]["hold_detail"]
    assert "9 ImagePullBackOff" in cycles[0]["hold_detail"]


def test_after_the_api_server_has_failed_nothing_moves_for_a_while(
    sites: Sites, proxy: FaultProxy
) -> None:
    def end(replica: Replica) -> None:
        replica.wait_to_lead()
        replica.wait_for_cycles(1)
        with proxy.faulty(status(503), "GET"):
            _heat(sites, "server")
            replica.wait_until("it is told", lambda: replica.events("leadership.lost"))

    cycles = live_through(sites, "server", end, proxy.url)
    assert cycles
    assert cycles[0]["hold_detail"].startswith("the API server failed to answer")


def _heat(sites: Sites, name: str) -> None:
    """From now on a node of this site has load of its own that makes it hot."""
    body = {"metadata": {"annotations": {"kwok.x-k8s.io/usage-cpu": "2400m"}}}
    code, answer = sites.plane.request("PATCH", f"/api/v1/nodes/{name}-hot", body)
    assert code == 200, answer


def _take_image(sites: Sites, pod: Object) -> None:
    """What the kubelet says of a pod whose image cannot be pulled."""
    waiting = {"name": "app", "ready": False, "image": "none", "imageID": "", "restartCount": 0}
    waiting["state"] = {"waiting": {"reason": "ImagePullBackOff"}}
    waiting["name"] = pod["spec"]["containers"][0]["name"]
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
    ready = [{"type": kind, "status": "False"} for kind in ("Ready", "ContainersReady")]
    body = {"phase": "Pending", "conditions": ready, "containerStatuses": [waiting]}
    _patch(sites, path, {"status": body})


def _patch(sites: Sites, path: str, body: Object) -> None:
    code, answer = sites.plane.request("PATCH", f"{path}/status", body, content_type=STRATEGIC)
    assert code == 200, answer
