"""A service that steers relieves nodes that the scheduler prefers, and leaves no taint behind."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.controlplane.installation import ALONE
from tests.controlplane.manifests import Object
from tests.controlplane.replicas import Replicas, Request
from tests.controlplane.sites import Site, Sites, lone, refused, short

STEERING: Object = {"steering": "WhenNeeded", "steeringMaxNodes": "50%"}

HOT, COLD = ("hot1", "hot2", "hot3"), ("cold1", "cold2", "cold3")
TARGETS: Object = {"targetThresholds": {"cpu": 75, "memory": 85}}
ONE_BY_ONE: Object = {"evictionLimits": {"node": 1, "workloadHourly": 2}}
"""The second pod of a node goes in a later cycle, which sees what became of the first.

Both replicas of a workload may go: which workloads are left depends on the order of the nodes.
"""
SOON: Object = {"followUp": {"coolDown": {"first": "10s"}}}
"""A replacement may soon be moved again: nothing but that this would help nobody prevents it."""
LEISURELY = ("--interval", "10s")
"""Of a service that is killed before its taints have served their purpose."""
TOO_MANY = 2
"""Pods of each hot node that have to go: it is at 89 %, with one less at 78 %, and then at 67 %."""


def trap() -> Site:
    """Who requests little and uses much looks like room: the scheduler prefers the hot nodes.

    Replicas on other hot nodes keep the scheduler from preferring the cold ones to spread them.
    """
    site = Site("trap")
    site.node(*HOT, uses="1760m")
    site.node(*COLD)
    site.workload("filler", COLD, "200m", cpu_request="3")
    for left, right in ((0, 1), (1, 2), (2, 0)):
        for letter in "ab":
            name = f"web{left + 1}{letter}"
            site.workload(name, (HOT[left], HOT[right]), "450m", cpu_request="100m")
    return site


@pytest.fixture(scope="module")
def sites(empty_sites: Sites) -> Sites:
    """With the rights that are shipped for steering, and their limits."""
    empty_sites.install_permissions("overlays/evict")
    empty_sites.build(trap(), lone())
    return empty_sites


@pytest.fixture
def service(sites: Sites) -> Iterator[Replicas]:
    """Steers on the trap; it ends with the test."""
    replicas = Replicas(sites, "trap", **TARGETS, **ONE_BY_ONE, **SOON, **STEERING)
    yield replicas
    replicas.stop()


def pods_by_name(sites: Sites) -> dict[str, str]:
    """The nodes of the pods that use much, without the site's name."""
    return {
        pod["metadata"]["name"]: pod["spec"]["nodeName"].removeprefix("trap-")
        for pod in sites.plane.pods("trap", "app!=filler")
    }


def test_without_steering_the_scheduler_would_undo_every_move(sites: Sites) -> None:
    report = sites.look("trap", "--evict", **TARGETS, **ONE_BY_ONE, steering="Off")
    assert report["result"] == "nothing_movable"
    assert set.union(*refused(report).values()) == {"landing_risk"}
    assert (report["outcomes"], sites.steered()) == ([], {})


def test_steering_relieves_all_nodes_for_good_even_if_the_service_is_killed_meanwhile(
    sites: Sites, service: Replicas
) -> None:
    before = pods_by_name(sites)

    def evictions(count: int) -> list[Request]:
        found = [eviction for eviction in service.evictions() if eviction.done]
        return found if len(found) >= count else []

    first = service.start("", ALONE, *LEISURELY)
    first.wait_until("an eviction from each", lambda: evictions(len(HOT)))
    first.stop()
    left = sites.steered()
    assert left
    assert set(short("trap", left)) <= set(HOT)
    sites.plane.wait_for_ready_pods("trap", len(before), "app!=filler")
    sites.plane.wait_for("their time is over", lambda: datetime.now(UTC) > max(left.values()))
    assert sites.steered().keys() == left.keys()

    second = service.start("", ALONE)
    # A cycle that begins then may need new ones.
    second.wait_until("the old taints go", lambda: left.items().isdisjoint(sites.steered().items()))
    done = second.wait_until("all evictions", lambda: evictions(TOO_MANY * len(HOT)))
    second.wait_until(
        "no more to do", lambda: second.is_done_since(done[-1].ended) and not sites.steered()
    )

    after = pods_by_name(sites)
    gone = set(before) - set(after)
    assert Counter(before[name] for name in gone) == dict.fromkeys(HOT, TOO_MANY)
    assert {after[name] for name in set(after) - set(before)} <= set(COLD)
    assert sorted(eviction.name for eviction in evictions(0)) == sorted(gone)


def test_its_taints_are_cleared_by_a_command(sites: Sites) -> None:
    (outcome,) = sites.look("lone", "--evict", **STEERING)["outcomes"]
    assert (outcome["node"], outcome["verdict"]) == ("lone-hot", "evicted")
    assert "lone-hot" in sites.steered()
    done = sites.command("steering", "clear")
    assert "Removed the soft taint from node lone-hot.\n" in done.stdout
    assert not sites.steered()
