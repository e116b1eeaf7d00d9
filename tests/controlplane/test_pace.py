"""Large workloads relieve their nodes one replica at a time, and no replica moves twice."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.installation import ALONE, WINDOW_SECONDS
from tests.controlplane.manifests import Object, usage
from tests.controlplane.replicas import Replica, Replicas
from tests.controlplane.sites import Site, Sites, app_of, evicted, refused, verdict

NODES, OVERLOADED = 50, 12
DEPLOYMENTS = 6
FIRST_CYCLE = 5
"""The evictions of the first cycle that evicts, in clusters of up to 500 nodes."""

LARGE_INTERVAL = "15s"
"""Long enough for replacements to become Ready, as in clusters where a cycle takes minutes.

Soft taints last two of them: on a busy machine the scheduler may not have placed all by then.
"""
NOT_PACED_BY_THE_MINUTE: Object = {"evictionLimits": {"perMinute": 1000}}
"""The test counts cycles; 20 evictions a minute would only make each of them longer."""
STEERING: Object = {"steering": "WhenNeeded", "steeringMaxNodes": "50%"}
RESTS_BRIEFLY: Object = {"followUp": {"coolDown": {"first": "10s"}}}


def large() -> Site:
    """Each overloaded node has to lose one pod of a large Deployment.

    Pods request little and use much: the scheduler prefers the overloaded nodes.
    """
    hot = [f"hot{number}" for number in range(OVERLOADED)]
    cold = [f"cold{number}" for number in range(NODES - OVERLOADED)]
    site = Site("large")
    site.node(*hot, uses="2000m")
    site.node(*cold)
    site.workload("filler", cold, "200m", cpu_request="3")
    for number in range(DEPLOYMENTS):
        on = hot[number % 2 :: 2]
        site.workload(f"web{number}", on, "450m", cpu_request="100m")
    return site


def again() -> Site:
    """A node that one move relieves; then the node of the replacement becomes overloaded.

    The filler's request keeps the replacement from coming back.
    """
    site = Site("again")
    site.node("hot", uses="2600m")
    site.node("cool1", "cool2")
    site.workload("filler", ("hot",), "100m", cpu_request="2")
    site.workload("web", ("hot", "cool1", "cool1", "cool1"), "700m", cpu_request="300m")
    return site


@pytest.fixture(scope="module")
def sites(
    running_control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sites]:
    directory: Path = tmp_path_factory.mktemp("pace")
    with running_control_plane.prometheus("2s") as prometheus:
        built = Sites(running_control_plane, prometheus, directory)
        try:
            built.install_permissions("overlays/evict")
            built.build(large(), again())
            yield built
        finally:
            running_control_plane.reset()


class Service:
    """One service on one site, and what its log says of its cycles."""

    def __init__(self, sites: Sites, site: str, *flags: str, **load_aware: object) -> None:
        self.replicas = Replicas(sites, site, **load_aware)
        self.replica: Replica = self.replicas.start("", ALONE, *flags)

    def cycles_after_first_eviction(self) -> list[Object]:
        """The cycles after the first one that evicts, up to the last with an overloaded node.

        It waits for a whole window without: a departure that desched notices late makes a node
        seem relieved for a moment.
        """

        def found() -> Sequence[Object]:
            cycles = self.replica.cycles
            first = next((i for i, c in enumerate(cycles) if evictions(c)), len(cycles))
            last = max((i for i, c in enumerate(cycles) if "overloaded" in c), default=0)
            calm = [datetime.fromisoformat(cycle["timestamp"]) for cycle in cycles[last + 1 :]]
            lasts = calm and calm[-1] - calm[0] > timedelta(seconds=WINDOW_SECONDS)
            return cycles[first + 1 : last + 1] if lasts else []

        return list(self.replica.wait_until("no node is overloaded", found))

    def evicted(self) -> list[str]:
        """The apps of the evicted pods."""
        done = (request for request in self.replicas.evictions() if request.done)
        return [app_of({"name": request.name}) for request in done]


@pytest.fixture(scope="module")
def services(sites: Sites) -> Iterator[dict[str, Service]]:
    """Beside the other test, because most of their time is waiting."""
    found = {
        "large": Service(
            sites, "large", "--interval", LARGE_INTERVAL, **STEERING, **NOT_PACED_BY_THE_MINUTE
        ),
    }
    yield found
    for service in found.values():
        service.replicas.stop()


def evictions(cycle: Object) -> int:
    """How many pods a cycle evicted."""
    return int(cycle["verdicts"].get("evicted", 0))


@pytest.mark.usefixtures("services")
def test_a_replica_that_was_moved_stays_even_if_its_node_becomes_overloaded(sites: Sites) -> None:
    before = sites.where("again", "web")
    assert evicted(sites.look("again", "--evict")) == ["web"]
    (node,) = sites.landed("again", "web", before)
    (moved,) = set(sites.where("again", "web")) - set(before)

    def settled() -> bool:
        return bool(sites.look("again", "--evict")["settled"])

    sites.plane.wait_for("the result of the move", settled)
    sites.plane.request(
        "PATCH", f"/api/v1/nodes/{node}", {"metadata": {"annotations": usage("2800m")}}
    )
    sites.prometheus.wait_until_has(
        f'avg(rate(node_cpu_seconds_total{{node="{node}",mode="idle"}}[{WINDOW_SECONDS}s])) < 0.15'
    )
    report = sites.look("again", "--evict")
    assert verdict(report, node)["node_class"] == "overloaded"
    assert evicted(report) == []
    assert refused(report) == {"web": {"moved_recently"}}
    assert moved in sites.where("again", "web")

    def may_move_again() -> bool:
        after_its_rest = sites.look("again", **RESTS_BRIEFLY)
        return "moved_recently" not in refused(after_its_rest).get("web", set())

    sites.plane.wait_for("the end of its rest", may_move_again)


def test_twelve_overloaded_nodes_of_fifty_are_relieved_within_five_cycles_that_evict(
    services: dict[str, Service],
) -> None:
    service = services["large"]
    cycles = service.cycles_after_first_eviction()
    assert len([cycle for cycle in cycles if evictions(cycle)]) <= 5
    first, *_ = filter(None, map(evictions, service.replica.cycles))
    assert first == FIRST_CYCLE
    gone = service.evicted()
    assert len(gone) == OVERLOADED, service.replica.cycles
    assert all(gone.count(app) <= OVERLOADED / 4 for app in gone)
