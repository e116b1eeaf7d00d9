"""What is not known, not there yet or not over yet is waited for, on a real cluster."""

from datetime import datetime
from typing import NamedTuple

import pytest

from tests.controlplane.manifests import Object, pod_spec, usage
from tests.controlplane.sites import (
    SITE,
    VALUED,
    Site,
    Sites,
    evicted,
    movable,
    refused,
    verdict,
)

YOUNG_SECONDS = 30
"""A node is young for so long: a plan on a busy machine takes long."""

YOUNG: Object = {"windows": {of: [f"{YOUNG_SECONDS}s"] for of in ("cpu", "memory")}}
JOINING = ("young-cool2", "young-hot2")
ATTEMPTS = 5


def blind(name: str) -> Site:
    """The node that pods would go to is not measured, and is hotter than the one that is hot."""
    site = Site(name)
    site.node("hot", uses="1400m")
    site.node("cool", labels={"disk": "ssd"})
    site.node("unknown", uses="3800m")
    site.workload("filler", ("cool",), "400m", cpu_request="2")
    prefers_cool = {"key": "disk", "operator": "In", "values": ["ssd"]}
    preference = {"weight": 100, "preference": {"matchExpressions": [prefers_cool]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}}
    drawn = {"affinity": affinity, "priorityClassName": VALUED}
    site.workload("free", ("hot", "hot"), "500m", cpu_request="200m")
    site.workload("drawn", ("hot", "hot"), "500m", cpu_request="200m", **drawn)
    return site


def pair() -> Site:
    """A workload has both of its replicas on hot nodes; all other load is of single replicas."""
    site = Site("pair")
    site.node("hot1", "hot2", "cool1", "cool2")
    site.workload("pair", ("hot1", "hot2"), "1", cpu_request="200m")
    for number in (1, 2):
        site.workload(f"single{number}", (f"hot{number}",), "2400m", cpu_request="1500m")
    return site


def young() -> Site:
    """The hot node's pods would go to any node that joins."""
    site = Site("young")
    site.node("hot", uses="2400m")
    site.node("cool")
    site.workload("filler", ("cool",), "400m", cpu_request="3")
    site.workload("web", ("hot", "hot"), "500m", cpu_request="500m")
    return site


def outgrown() -> Site:
    """What is free on either node is too little for a pod of two cores."""
    site = movable("outgrown")
    site.workload("filler", ("cool",), "400m", cpu_request="2200m")
    return site


class World(NamedTuple):
    """The sites, and what was planned for two of them as soon as they were measured."""

    sites: Sites
    lasting: Object
    young: Object


def look_while_young(sites: Sites) -> Object:
    """A plan made before the windows of nodes that join are full, when that of all others is.

    A busy machine may be too slow for that; then other nodes join.
    """
    sites.prometheus.wait_until_has(
        'count(container_memory_working_set_bytes{namespace="young",container!=""}'
        f" offset {YOUNG_SECONDS}s) == 3"
    )
    for _ in range(ATTEMPTS):
        sites.plane.add_node("young-cool2", labels={SITE: "young"})
        sites.plane.add_node(
            "young-hot2",
            labels={SITE: "young"},
            annotations=usage("3600m"),
            taints=[{"key": "dedicated", "effect": "NoSchedule"}],
        )
        report = sites.look("young", steering="Off", **YOUNG)
        if seconds_old("young-cool2", sites, report) < YOUNG_SECONDS:
            return report
        for name in JOINING:
            sites.plane.request("DELETE", f"/api/v1/nodes/{name}")
    raise AssertionError(f"{ATTEMPTS} plans each took longer than {YOUNG_SECONDS} s")


def unless_held(report: Object) -> Object | None:
    return None if report["plan"]["hold"] else report


def seconds_old(node: str, sites: Sites, report: Object) -> float:
    """How old the node was when the cluster and its load had been read."""
    created = sites.plane.get(f"/api/v1/nodes/{node}")["metadata"]["creationTimestamp"]
    observed = datetime.fromisoformat(report["started_at"])
    age = observed - datetime.fromisoformat(created)
    return age.total_seconds() + float(report["observe_seconds"])


@pytest.fixture(scope="module")
def world(empty_sites: Sites) -> World:
    sites = empty_sites
    sites.plane.metrics.hide("hidden-unknown")
    sites.plane.metrics.garble("nan-unknown")
    blinds = (blind("hidden"), blind("nan"))
    sites.build(*blinds, pair(), young(), outgrown(), movable("queue"), movable("lasting"))
    # If its cool node lacks data for a moment, the hot one seems to be saturated.
    lasting = sites.plane.wait_for(
        "a plan that is not held",
        lambda: unless_held(sites.look("lasting", "--evict", evictionPrice="2h")),
    )
    assert lasting is not None
    return World(sites, lasting, look_while_young(sites))


@pytest.mark.parametrize(("site", "reason"), [("hidden", "absent"), ("nan", "not_finite")])
def test_a_node_of_unknown_load_is_neither_source_nor_destination(
    world: World, site: str, reason: str
) -> None:
    sites, unknown = world.sites, f"{site}-unknown"
    before = sites.where(site, "drawn")
    report = sites.look(site, "--evict")
    assert verdict(report, unknown)["node_class"] == "unknown"
    assert verdict(report, unknown)["reason"] == reason
    # The scheduler would send these to the unknown node, and those to the cool one.
    assert refused(report)["free"] == {"landing_risk"}
    assert evicted(report) == ["drawn"], report["plan"]
    assert sites.landed(site, "drawn", before) == [f"{site}-cool"]
    assert sites.evict_by_hand(site, "free", f"{site}-hot") == unknown


def test_with_too_many_nodes_of_unknown_load_the_cycle_is_held(world: World) -> None:
    both = f"{SITE} in (hidden, nan)"
    report = world.sites.look("", "--evict", exit_code=3, nodeSelector=both)
    assert (report["result"], report["plan"]["hold"]) == ("held", "too_many_unknown_nodes")
    assert evicted(report) == []


def test_of_two_replicas_one_moves_at_a_time_and_a_single_one_stays(world: World) -> None:
    sites = world.sites

    def look(hourly: int = 2) -> Object:
        limits = {"workload": 2, "workloadHourly": hourly}
        return sites.look("pair", "--evict", evictionLimits=limits)

    before = sites.where("pair", "pair")
    first = look()
    assert evicted(first) == ["pair"]
    reasons = refused(first)
    assert reasons["pair"] <= {"limit_workload", "limit_in_flight"}
    assert (reasons["single1"], reasons["single2"]) == ({"single_replica"}, {"single_replica"})
    (landed,) = sites.landed("pair", "pair", before)
    assert "cool" in landed
    (replacement,) = sites.where("pair", "pair").keys() - before
    set_ready(sites, replacement, ready=False)
    second = look()
    assert evicted(second) == []
    assert refused(second)["pair"] == {"replicas_not_ready"}
    set_ready(sites, replacement, ready=True)
    third = look(hourly=1)
    assert [record["result"] for record in third["settled"]] == ["landed_as_forecast"]
    assert refused(third)["pair"] == {"limit_hourly"}
    assert sites.plane.wait_for("the second move", lambda: evicted(look())) == ["pair"]
    assert sorted(sites.landed("pair", "pair", before)) == ["pair-cool1", "pair-cool2"]


def set_ready(sites: Sites, pod: str, *, ready: bool) -> None:
    """What the kubelet says after a readiness probe; returns when the ReplicaSet has noticed."""
    condition = {"type": "Ready", "status": str(ready)}
    sites.plane.request(
        "PATCH",
        f"/api/v1/namespaces/pair/pods/{pod}/status",
        {"status": {"conditions": [condition]}},
        content_type="application/strategic-merge-patch+json",
    )
    path = "/apis/apps/v1/namespaces/pair/deployments/pair"
    sites.plane.wait_for(
        f"{1 + ready} Ready replicas",
        lambda: sites.plane.get(path)["status"].get("readyReplicas", 0) == 1 + ready,
    )


def test_pending_pods_have_the_room_that_they_wait_for(world: World) -> None:
    sites = world.sites
    # A scheduler is known by a pod that it has placed in another namespace.
    placed = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "placed", "namespace": "default"},
        "spec": pod_spec("10m", schedulerName="batch", nodeName="queue-cool"),
    }
    sites.plane.apply(placed)
    waiting = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "waiting", "namespace": "queue"},
        "spec": pod_spec("3", schedulerName="batch", nodeSelector={SITE: "queue"}),
    }
    sites.plane.apply(waiting)
    before = sites.where("queue", "web")
    competing = sites.look("queue", "--evict")
    assert evicted(competing) == []
    assert refused(competing) == {"web": {"no_node_fits"}}
    sites.plane.delete(waiting)
    assert evicted(sites.look("queue", "--evict")) == ["web"]
    assert sites.landed("queue", "web", before) == ["queue-cool"]


def test_no_pod_leaves_its_room_to_one_that_waits_for_it(world: World) -> None:
    sites = world.sites
    waiting = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "waiting", "namespace": "outgrown"},
        "spec": pod_spec("2", nodeSelector={SITE: "outgrown"}),
    }
    sites.plane.apply(waiting)
    report = sites.look("outgrown", "--evict")
    assert evicted(report) == []
    assert refused(report) == {"web": {"room_awaited"}}
    # The scheduler does give it the room of a pod that leaves.
    sites.evict_by_hand("outgrown", "web", "outgrown-hot")
    path = "/api/v1/namespaces/outgrown/pods/waiting"
    node = sites.plane.wait_for(
        "a node for it", lambda: sites.plane.get(path)["spec"].get("nodeName")
    )
    assert node == "outgrown-hot"


def test_a_node_that_has_just_joined_is_left_alone_until_its_windows_are_full(
    world: World,
) -> None:
    sites = world.sites
    reasons = {node: verdict(world.young, node)["reason"] for node in JOINING}
    assert reasons == dict.fromkeys(JOINING, "too_young")
    assert evicted(world.young) == []
    assert refused(world.young) == {"web": {"landing_risk"}}
    before = sites.where("young", "web")
    sites.prometheus.wait_until_has(
        f'count(node_memory_MemTotal_bytes{{node=~"{"|".join(JOINING)}"}}'
        f" offset {YOUNG_SECONDS}s) == {len(JOINING)}"
    )
    report = sites.look("young", "--evict", **YOUNG)
    assert verdict(report, "young-hot2")["node_class"] == "overloaded"
    assert evicted(report) == ["web"]
    assert sites.landed("young", "web", before) == ["young-cool2"]


def test_a_node_is_relieved_if_a_move_saves_its_price(world: World) -> None:
    sites = world.sites
    assert verdict(world.lasting, "lasting-hot")["node_class"] == "overloaded"
    assert verdict(world.lasting, "lasting-hot")["reason"] == "overload_passes", world.lasting[
        "plan"
    ]
    assert refused(world.lasting) == {"web": {"overload_passes"}}
    assert evicted(world.lasting) == []
    before = sites.where("lasting", "web")
    assert evicted(sites.look("lasting", "--evict")) == ["web"]
    assert sites.landed("lasting", "web", before) == ["lasting-cool"]
