"""Pods stay in the domains of their nodes: placement groups, GPUs, and levels of the network."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from desched.gangs.objects import DeclaredGroup, GroupPart
from desched.gangs.topology import GroupTopology
from desched.model.cluster import Node
from desched.model.plan import Plan
from desched.model.selectors import LabelSelector
from desched.network.levels import NodeDomains
from desched.network.objects import UNKNOWN_TIER, HyperNode, NetworkObjects, Topology
from desched.network.placement_domains import (
    KNOWN_DOMAINS,
    RUNGS,
    DomainMode,
    PlacementDomains,
)
from desched.network.plugin import domains_of
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.plugins import HOUSE
from desched.plugins.caches.keys import CacheAffinity
from desched.plugins.caches.models import CACHE_KEY
from desched.plugins.caches.plugin import Caches
from desched.plugins.gpus.keys import GpuPods
from desched.plugins.gpus.plugin import Gpus
from desched.plugins.networks.plugin import Networks
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import Policy, SteeringRules
from desched.policy.schedulers import (
    OtherScheduler,
    SchedulerProfile,
    SchedulerRules,
    VolcanoWeights,
)
from tests.builders import (
    STEERED,
    amounts,
    evicted,
    house,
    load,
    node,
    planned,
    pod,
    policy,
    reasons,
    snapshot,
)
from tests.repository import ROOT

DOCUMENT = ROOT / "docs" / "plugins" / "networks.md"
GROUP = "cloud.google.com/gke-placement-group"
CLIQUE = "nvidia.com/gpu.clique"
PRODUCT = "nvidia.com/gpu.product"
ZONE, BLOCK, RACK = (rung[0] for rung in RUNGS[:3])


def closeness(labels: Mapping[str, Mapping[str, str]], one: str) -> dict[str, int]:
    arrays = NodeArrays(node(name, labels=each) for name, each in labels.items())
    found = NodeDomains.by_labels(arrays, KNOWN_DOMAINS.rungs).closeness(arrays.index[one])
    return dict(zip(arrays.names, map(int, found), strict=True))


def test_racks_of_the_same_name_in_other_blocks_are_other_domains() -> None:
    """R0.1: Kueue's example of four nodes; a node without a rung is close to nobody there."""
    found = closeness(
        {
            "a": {BLOCK: "b1", RACK: "r1"},
            "b": {BLOCK: "b1", RACK: "r2"},
            "c": {BLOCK: "b2", RACK: "r1"},
            "d": {BLOCK: "b2", RACK: "r2"},
            "e": {BLOCK: "b1"},
            "f": {RACK: "r1"},
        },
        "a",
    )
    assert found == {"a": 2, "b": 1, "c": 0, "d": 0, "e": 1, "f": 0}


def test_nodes_that_lack_the_same_rung_are_not_close_on_it() -> None:
    """R0.1: two that lack a label do not have it in common."""
    found = closeness({"a": {BLOCK: "b1"}, "b": {BLOCK: "b1"}, "c": {BLOCK: "b1", RACK: "r"}}, "a")
    assert found == {"a": 1, "b": 1, "c": 1}


FIXTURE = {f"te{i}": (f"s{i // 4}", f"r{i // 2}", f"h{i}") for i in range(8)}
"""Two blocks of two racks of two nodes."""

PLATFORMS = {
    "GKE": ("cloud.google.com/gce-topology-block", "gce-topology-subblock", "gce-topology-host"),
    "older GKE": ("topology.gke.io/cluster", "rack", "host"),
    "EKS": (
        "topology.k8s.aws/network-node-layer-1",
        "network-node-layer-2",
        "network-node-layer-3",
    ),
    "Topograph": ("fabric.topograph.run/tier-2", "tier-1", "tier-0"),
    "older Topograph": ("network.topology.nvidia.com/core", "spine", "leaf"),
    "first Topograph": ("network.topology.nvidia.com/datacenter", "spine", "block"),
    "Volcano": ("volcano.sh/hypercluster", "hypernode", "tor"),
    "GPUStack": ("topology.gpustack.ai/room", "rack", "switch"),
}


@pytest.mark.parametrize("platform", PLATFORMS)
def test_each_platform_gives_the_same_closeness(platform: str) -> None:
    """R0.6: whatever the labels are called, and in whichever order they count."""
    first, *others = PLATFORMS[platform]
    keys = (first, *(f"{first.partition('/')[0]}/{name}" for name in others))
    found = closeness(
        {name: dict(zip(keys, path, strict=True)) for name, path in FIXTURE.items()}, "te0"
    )
    assert found.pop("te0") == (2 if platform.endswith("GKE") else 3)  # no host of a single node
    assert found == {"te1": 2, "te2": 1, "te3": 1, **{f"te{i}": 0 for i in range(4, 8)}}


@pytest.mark.parametrize(
    ("key", "other"),
    [("gpustack.ai/zone", "kubernetes.io/zone"), ("gpustack.ai/rack", "kubernetes.io/rack")],
)
def test_what_somebody_fills_in_for_gpustack_counts_first(key: str, other: str) -> None:
    """R0.6: as GPUStack itself reads these labels."""
    own, others = f"topology.{key}", f"topology.{other}"
    assert closeness({"a": {own: "1", others: "x"}, "b": {own: "1", others: "y"}}, "a")["b"] == 1
    assert closeness({"a": {own: "1", others: "x"}, "b": {own: "2", others: "x"}}, "a")["b"] == 0
    assert closeness({"a": {others: "x"}, "b": {others: "x"}}, "a")["b"] == 1


def gpu_node(name: str, labels: Mapping[str, str] | None = None) -> Node:
    devices = {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32}
    size = msgspec.structs.replace(amounts(4, 16, **devices), pods=110)
    return node(name, labels=dict(labels or {}), capacity=size, allocatable=size)


def moving(**fields: Any) -> Policy:
    """A policy under which soft taints keep a replacement where it must land."""
    allowing = Gpus(gpu_pods=GpuPods.ALLOW)
    given = fields.pop("plugins", HOUSE)
    plugins = tuple(allowing if isinstance(each, Gpus) else each for each in given)
    return policy(plugins=plugins, **{**STEERED, **fields})


UNSTEERED = SteeringRules(SteeringMode.OFF)


def plan_of(
    hot: Mapping[str, str],
    cool: Mapping[str, Mapping[str, str]],
    by: Policy | None = None,
    **fields: Any,
) -> Plan:
    """A pod of one core that has to leave a node with these labels for one of the cool nodes."""
    nodes = [gpu_node("hot", hot), *(gpu_node(name, labels) for name, labels in cool.items())]
    defaults = {"request": amounts(1, 1)}
    one = pod("a", on="hot", **(defaults | fields))
    used = load({"hot": (0.9, 0.1)} | dict.fromkeys(cool, (0.1, 0.1)), {"a": (1.0, 0.1)})
    return planned(snapshot(nodes, [one], used), by or moving())


def test_a_pod_stays_in_the_placement_group_of_its_node() -> None:
    """R0.2, S0.5: even without a node selector; of the whole group without room, none moves."""
    with_room = plan_of({GROUP: "pg1"}, {"near": {GROUP: "pg1"}, "far": {GROUP: "pg2"}, "none": {}})
    assert [e.expected_node for e in with_room.evictions] == ["near"]
    assert with_room.evictions[0].steered  # the scheduler does not know the group
    (refusal,) = plan_of({GROUP: "pg1"}, {"far": {GROUP: "pg2"}, "none": {}}).refusals
    assert refusal.reason == "placement_domain"
    assert refusal.detail.startswith(f"{GROUP}=pg1: 0/3 nodes are available")
    assert "2 nodes are outside its placement domain" in refusal.detail


def test_a_landing_outside_is_a_risk() -> None:
    """R0.2: kube-scheduler may choose a node of another group."""
    cool = {"near": {GROUP: "pg1"}, "far": {GROUP: "pg2"}}
    (refusal,) = plan_of({GROUP: "pg1"}, cool, moving(steering=UNSTEERED)).refusals
    assert refusal.reason == "landing_risk"
    assert refusal.detail.startswith(f"{GROUP}=pg1: 0% likely to come back to hot and 50% to land")


def test_a_landing_away_from_its_peers_is_a_risk() -> None:
    """R0.3: the refusal names the gang, and where it is."""
    plan = gang_plan({"p": "near", "q": "far"}, by=policy(max_landing_risk=0.15))
    assert reasons(plan)["a"] == "landing_risk"
    (why,) = (each.detail for each in plan.refusals if each.pod.name == "a")
    assert why.startswith(f"gang apps/llama (Koordinator): {RACK}=r1: 0% likely to come back")


def test_another_scheduler_must_have_no_choice_but_the_domain() -> None:
    """R0.2, X4: where it would place the pod is not known."""
    cool = {"near": {GROUP: "pg1"}, "far": {GROUP: "pg2"}}
    found = plan_of({GROUP: "pg1"}, cool, scheduler="volcano").refusals[0]
    assert found.reason == "placement_domain"
    assert found.detail.startswith(f"{GROUP}=pg1: volcano may place it elsewhere; scheduler.others")
    alone = plan_of({GROUP: "pg1"}, {"near": {GROUP: "pg1"}}, scheduler="volcano")
    assert evicted(alone) == ["a"]


def test_pods_with_fast_networks_stay_on_their_distribution_of_the_system() -> None:
    """R3.3: TCPX needs Container-Optimized OS; pods without a fast network may leave it."""
    label = "cloud.google.com/gke-os-distribution"
    fast: dict[str, Any] = {"request": amounts(1, 1, **{"vpc.amazonaws.com/efa": 1})}
    (refusal,) = plan_of({label: "cos"}, {"b": {label: "ubuntu"}}, **fast).refusals
    assert refusal.reason == "placement_domain"
    assert evicted(plan_of({label: "cos"}, {"b": {label: "cos"}}, **fast)) == ["a"]
    assert evicted(plan_of({label: "cos"}, {"b": {label: "ubuntu"}})) == ["a"]


VOLCANO_KNOWN = SchedulerRules(others={"volcano": OtherScheduler(SchedulerProfile.VOLCANO)})


def test_soft_taints_keep_a_pod_of_a_known_scheduler_in_its_domain() -> None:
    """R0.2, R3.3: Volcano scores soft taints; one outside keeps the pod inside."""
    cool = {"near": {GROUP: "pg1"}, "far": {GROUP: "pg2"}}
    by = moving(scheduler=VOLCANO_KNOWN, max_landing_risk=0.15)
    (move,) = plan_of({GROUP: "pg1"}, cool, by, scheduler="volcano").evictions
    assert move.expected_node == "near"
    assert "far" in move.steered
    assert move.landing_risk <= 0.15
    assert (move.scheduler, move.scheduler_profile) == ("volcano", "Volcano")
    off = moving(scheduler=VOLCANO_KNOWN, max_landing_risk=0.15, steering=UNSTEERED)
    (refusal,) = plan_of({GROUP: "pg1"}, cool, off, scheduler="volcano").refusals
    assert refusal.reason == "landing_risk"
    assert "soft taints on those nodes could prevent this" in refusal.detail


def test_soft_taints_are_no_help_with_a_scheduler_that_ignores_them() -> None:
    """R0.2, X4: KAI's scheduler, or a Volcano whose weight for taints is 0."""
    cool = {"near": {GROUP: "pg1"}, "far": {GROUP: "pg2"}}
    deaf = VolcanoWeights(taint_toleration=0)
    for other in (
        OtherScheduler(SchedulerProfile.KAI),
        OtherScheduler(SchedulerProfile.VOLCANO, volcano=deaf),
    ):
        rules = SchedulerRules(others={"own": other})
        by = moving(scheduler=rules, max_landing_risk=0.15)
        (refusal,) = plan_of({GROUP: "pg1"}, cool, by, scheduler="own").refusals
        assert refusal.reason == "landing_risk"
        assert refusal.detail.endswith("own ignores soft taints")


def test_only_pods_with_gpus_stay_where_gpus_are_connected() -> None:
    """R0.2, S3.6: a clique does not keep pods that use only the host."""
    elsewhere: dict[str, Mapping[str, str]] = {"far": {CLIQUE: "2"}}
    assert evicted(plan_of({CLIQUE: "1"}, elsewhere)) == ["a"]
    gpu = amounts(1, 1, **{"nvidia.com/gpu": 1})
    assert reasons(plan_of({CLIQUE: "1"}, elsewhere, request=gpu)) == {"a": "placement_domain"}
    assert evicted(plan_of({CLIQUE: "1"}, {"near": {CLIQUE: "1"}}, request=gpu)) == ["a"]


@pytest.mark.parametrize(
    ("label", "devices"),
    [
        ("cloud.google.com/placement-policy-name", {}),
        ("accelerator.topograph.run/sub-domain", {"nvidia.com/gpu": 1}),
    ],
)
def test_further_labels_of_groups_keep_pods(label: str, devices: Mapping[str, int]) -> None:
    """R0.2: a placement policy of GKE, and a part of an NVLink domain by Topograph."""
    request = amounts(1, 1, **devices)
    stays = plan_of({label: "1"}, {"far": {label: "2"}}, request=request)
    assert reasons(stays) == {"a": "placement_domain"}
    assert evicted(plan_of({label: "1"}, {"near": {label: "1"}}, request=request)) == ["a"]


def test_a_pod_with_a_fast_network_only_moves_to_the_same_gpus() -> None:
    """R3.3: an H100 with its networks is no A100."""
    efa = amounts(1, 1, **{"vpc.amazonaws.com/efa": 1})
    other: dict[str, Mapping[str, str]] = {"far": {PRODUCT: "A100"}}
    assert reasons(plan_of({PRODUCT: "H100"}, other, request=efa)) == {"a": "placement_domain"}
    assert evicted(plan_of({PRODUCT: "H100"}, {"x": {PRODUCT: "H100"}}, request=efa)) == ["a"]
    assert evicted(plan_of({PRODUCT: "H100"}, other)) == ["a"]


def test_the_documented_labels_are_those_that_count() -> None:
    text = DOCUMENT.read_text().partition("## Placement domains")[2].partition("\n## ")[0]
    assert set(re.findall(r"`([a-z0-9.]+/[a-z0-9._-]+)`", text)) == KNOWN_DOMAINS.keys


KOORDINATOR = "gang.scheduling.koordinator.sh/"
RACKS = {"hot": "r1", "near": "r1", "next": "r2", "next2": "r2", "far": "r3"}
BLOCKS = {"r1": "b1", "r2": "b1", "r3": "b2"}


def gang_plan(
    places: Mapping[str, str],
    least: int = 2,
    full: tuple[str, ...] = (),
    marks: Mapping[str, str] | None = None,
    **fields: Any,
) -> Plan:
    """Peers on the nodes of their names; racks r1 and r2 are in block b1, r3 is in b2."""
    marks = marks or {f"{KOORDINATOR}name": "llama", f"{KOORDINATOR}min-available": str(least)}
    by = fields.pop("by", None) or moving()
    scheduler = fields.pop("scheduler", "default-scheduler")
    labels = {n: {BLOCK: BLOCKS[rack], RACK: rack} for n, rack in RACKS.items()}
    labels = fields.pop("labels", labels)
    nodes = [gpu_node(n, labels[n]) for n in RACKS]
    marked = {"annotations": marks, "scheduling_group": fields.pop("in_group", "")}
    one = pod("a", on="hot", request=amounts(1, 1), scheduler=scheduler, **marked)
    peers = [pod(name, on=on, of=None, **marked) for name, on in places.items()]
    cool = [name for name in RACKS if name != "hot"]
    used = load(
        {"hot": (0.9, 0.1)} | {n: (0.75 if n in full else 0.1, 0.1) for n in cool},
        {"a": (1.0, 0.1)} | dict.fromkeys(places, (0.01, 0.01)),
    )
    network = NetworkObjects(fields.pop("hyper_nodes", ()), fields.pop("topologies", ()))
    return planned(snapshot(nodes, [one, *peers], used, extras=network.extras, **fields), by)


@pytest.mark.parametrize(
    ("places", "full", "expected"),
    [
        ({"p": "near", "q": "far"}, (), "near"),
        ({"p": "near", "q": "far"}, ("near",), None),
        ({"p": "next", "q": "far"}, ("near", "next"), "next2"),
        ({"p": "next", "q": "next"}, ("near", "next", "next2"), None),
        ({"p": "far", "q": "far"}, ("near", "next", "next2"), "far"),
    ],
)
def test_a_pod_of_a_gang_stays_as_close_to_its_nearest_peer(
    places: Mapping[str, str], full: tuple[str, ...], expected: str | None
) -> None:
    """R0.3, R2.4: in its rack with a peer there, in its block with one in the block."""
    plan = gang_plan(places, full=full)
    assert [e.expected_node for e in plan.evictions] == ([expected] if expected else [])
    if expected is None:
        assert reasons(plan)["a"] in {"placement_domain", "no_node_under_ceiling"}


def test_pods_that_are_no_gang_leave_their_rack() -> None:
    """R2.1: a minimum of 1 promises nothing about the network."""
    full = ("near", "next", "next2")
    plan = gang_plan({"p": "near", "q": "near"}, least=1, full=full)
    assert [e.expected_node for e in plan.evictions] == ["far"]


NOT_LABELLED: dict[str, dict[str, str]] = {name: {} for name in RACKS}


def hyper_nodes(**changed: HyperNode) -> tuple[HyperNode, ...]:
    """The racks and blocks as HyperNodes, some of them changed or added."""
    racks = {
        rack: HyperNode(rack, 1, "rack", tuple(n for n, of in RACKS.items() if of == rack))
        for rack in BLOCKS
    }
    blocks = {
        "b1": HyperNode("b1", 2, "block", (), ("r1", "r2")),
        "b2": HyperNode("b2", 2, "block", (), ("r3",)),
    }
    return tuple((racks | blocks | changed).values())


def test_hyper_nodes_keep_a_gang_together_as_labels_do() -> None:
    """R0.3, R0.6: without any label, and where labels keep less together."""
    wider = {name: {BLOCK: "b", RACK: "r"} for name in RACKS}
    for labels in (NOT_LABELLED, wider):
        for full, expected in ((), "near"), (("near",), None):
            plan = gang_plan(
                {"p": "near", "q": "far"}, full=full, labels=labels, hyper_nodes=hyper_nodes()
            )
            assert [e.expected_node for e in plan.evictions] == ([expected] if expected else [])


def test_nodes_without_a_hyper_node_are_compared_by_labels() -> None:
    """R0.3: HyperNodes of a part of the cluster free no gang elsewhere."""
    some = (HyperNode("r3", 1, "", ("far",)),)
    plan = gang_plan({"p": "near", "q": "far"}, full=("near",), hyper_nodes=some)
    assert reasons(plan)["a"] == "no_node_under_ceiling"
    plan = gang_plan({"p": "near", "q": "far"}, hyper_nodes=some)
    assert [e.expected_node for e in plan.evictions] == ["near"]


RACKS_ONLY = tuple(each for each in hyper_nodes() if each.tier == 1)
BLOCKS_ONLY = (
    HyperNode("b1", 2, "block", ("hot", "near", "next", "next2")),
    HyperNode("b2", 2, "block", ("far",)),
)


@pytest.mark.parametrize(
    ("tree", "peer", "full"),
    [(RACKS_ONLY, "next", ("near", "next", "next2")), (BLOCKS_ONLY, "near", ("near",))],
)
def test_hyper_nodes_without_some_levels_do_not_hide_those_of_labels(
    tree: tuple[HyperNode, ...], peer: str, full: tuple[str, ...]
) -> None:
    """R0.3: racks without blocks leave the blocks to labels, and blocks without racks the racks."""
    plan = gang_plan({"p": peer, "q": "far"}, full=full, hyper_nodes=tree)
    assert reasons(plan)["a"] == "no_node_under_ceiling"
    free = gang_plan({"p": peer, "q": "far"}, full=full, hyper_nodes=tree, labels=NOT_LABELLED)
    assert evicted(free) == ["a"]


def test_a_refusal_says_where_which_gang_keeps_a_pod() -> None:
    """R0.3: whoever reads it looks at HyperNodes, or at labels of nodes."""
    elsewhere = {n: {BLOCK: "b", RACK: n} for n in RACKS}
    plan = gang_plan({"p": "hot", "q": "far"}, hyper_nodes=hyper_nodes(), labels=elsewhere)
    assert reasons(plan)["a"] == "placement_domain"
    (why,) = (each.detail for each in plan.refusals if each.pod.name == "a")
    assert why.startswith(f"gang apps/llama (Koordinator): HyperNode r1, {RACK}=hot: 0/5 nodes")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"x": HyperNode("x", 2, "", (), ("r1",))}, "HyperNode r1 is in b1 and x"),
        ({"r1": HyperNode("r1", 1, "", ("hot", "near"), ("b1",))}, "is a part of itself"),
        ({"r1": HyperNode("r1", 1, "", ("hot",), (), "no pattern")}, "r1 cannot be read"),
        ({"x": HyperNode("x", UNKNOWN_TIER, unreadable="no tier")}, "x cannot be read: no tier"),
    ],
)
def test_a_pod_in_doubt_stays(changed: Mapping[str, HyperNode], why: str) -> None:
    """R2.4, X4: a bad tree widens no domain, and the refusal says what is wrong with it."""
    peers = {"p": "near", "q": "near"}
    plan = gang_plan(peers, hyper_nodes=hyper_nodes(**changed), labels=NOT_LABELLED)
    (refusal,) = [each for each in plan.refusals if each.pod.name == "a"]
    assert refusal.reason == "placement_domain"
    assert refusal.detail.startswith("its place in the network is not known: ")
    assert why in refusal.detail
    alone = gang_plan(peers, least=1, hyper_nodes=hyper_nodes(**changed), labels=NOT_LABELLED)
    assert evicted(alone) == ["a"]  # what is in no gang does not need the tree


def test_topologies_of_kueue_are_chains_of_labels() -> None:
    """R0.1: of other labels than the known ones, beside them; single nodes do not count."""
    own = {n: {"example.com/b": BLOCKS[r], "example.com/r": r} for n, r in RACKS.items()}
    wider = {n: each | {BLOCK: "b", RACK: "r"} for n, each in own.items()}
    dc = Topology("Kueue", "dc", ("example.com/b", "example.com/r", "kubernetes.io/hostname"))
    peers = {"p": "next", "q": "far"}
    for labels in (own, wider):
        plan = gang_plan(peers, full=("near", "next"), labels=labels, topologies=(dc,))
        assert [e.expected_node for e in plan.evictions] == ["next2"]
        full = ("near", "next", "next2")
        plan = gang_plan(peers, full=full, labels=labels, topologies=(dc,))
        assert reasons(plan)["a"] == "no_node_under_ceiling"
    hosts = Topology("Kueue", "hosts", ("kubernetes.io/hostname",))
    plan = gang_plan({"p": "near", "q": "far"}, full=("near",), topologies=(hosts,))
    assert reasons(plan)["a"] == "no_node_under_ceiling"  # by the known labels


def test_a_level_of_single_nodes_keeps_no_pod_on_the_node_of_its_peer() -> None:
    """R0.3: the narrowest level of most Topologies is the host."""
    hosts = Topology("Kueue", "hosts", ("kubernetes.io/hostname",))
    labels = {n: {BLOCK: "b", RACK: rack, "kubernetes.io/hostname": n} for n, rack in RACKS.items()}
    plan = gang_plan({"p": "hot", "q": "far"}, labels=labels, topologies=(hosts,))
    assert [e.expected_node for e in plan.evictions] == ["near"]


HOST = "cloud.google.com/gce-topology-host"


@pytest.mark.parametrize("topologies", [(), (Topology("Kueue", "gce", (BLOCK, RACK, HOST)),)])
def test_a_host_of_one_node_keeps_no_pod_there(topologies: tuple[Topology, ...]) -> None:
    """R0.3: nor does it hide the rack; a host of several nodes hides no rack either."""
    alone = {n: {BLOCK: "b", RACK: rack, HOST: f"host-{n}"} for n, rack in RACKS.items()}
    shared = {n: {**each, HOST: f"host-{each[RACK]}"} for n, each in alone.items()}
    for labels in (alone, shared):
        fields: dict[str, Any] = {"labels": labels, "topologies": topologies}
        plan = gang_plan({"p": "hot", "q": "far"}, **fields)
        assert [e.expected_node for e in plan.evictions] == ["near"]
        plan = gang_plan({"p": "hot", "q": "far"}, full=("near",), **fields)
        assert reasons(plan)["a"] == "no_node_under_ceiling"


@pytest.mark.parametrize("topologies", [(), (Topology("Kueue", "gce", (BLOCK, RACK, HOST)),)])
def test_a_host_of_several_nodes_keeps_its_pods(topologies: tuple[Topology, ...]) -> None:
    """R0.3: also inside a rack that has room; the refusal names the host."""
    labels = {n: {BLOCK: "b", RACK: "r", HOST: f"host-{rack}"} for n, rack in RACKS.items()}
    fields: dict[str, Any] = {"labels": labels, "topologies": topologies}
    plan = gang_plan({"p": "near", "q": "near"}, full=("near",), **fields)
    assert evicted(plan) == []
    (why,) = (each.detail for each in plan.refusals if each.pod.name == "a")
    assert f"{HOST}=host-r1: " in why


def test_a_rack_of_one_node_is_left_by_no_pod() -> None:
    """R0.3: it is a place in the network, however few nodes it has."""
    labels = {n: {BLOCK: "b", RACK: f"rack-{n}"} for n in RACKS}
    assert reasons(gang_plan({"p": "hot", "q": "far"}, labels=labels))["a"] == "placement_domain"


def test_a_group_that_demands_one_host_stays_there() -> None:
    """R2.4: its scheduler would place the pod nowhere else."""
    labels = {n: {BLOCK: "b", RACK: rack, HOST: f"host-{n}"} for n, rack in RACKS.items()}
    topology = GroupTopology(hard=True, level=HOST, topology="net")
    fields: dict[str, Any] = {"labels": labels}
    fields["topologies"] = (Topology("KAI", "net", (BLOCK, RACK, HOST)),)
    moved, why = labelled_plan({"p": "hot"}, topology, **fields)
    assert moved == []
    assert why.startswith(f"gang apps/llama (KAI): {HOST}=host-hot: ")


VOLCANO = {"scheduling.k8s.io/group-name": "llama"}


def volcano_plan(
    places: Mapping[str, str], topology: GroupTopology, **fields: Any
) -> tuple[list[str], str]:
    """Where a surplus pod of a group of Volcano moves, and else why it stays."""
    said = DeclaredGroup("Volcano", "apps", "llama", 1, topology=topology)
    fields = {"hyper_nodes": hyper_nodes(), "scheduler": "volcano"} | fields
    plan = gang_plan(places, marks=VOLCANO, declared_groups=(said,), **fields)
    details = [each.detail for each in plan.refusals if each.pod.name == "a"]
    return [e.expected_node for e in plan.evictions], "".join(details)


def test_a_surplus_pod_moves_inside_the_hyper_node_of_the_highest_tier() -> None:
    """R2.4: the scheduler of Volcano keeps to it, so that it may choose."""
    rack, block = (GroupTopology(hard=True, highest_tier=tier) for tier in (1, 2))
    assert volcano_plan({"p": "near"}, rack) == (["near"], "")
    assert volcano_plan({"p": "near"}, rack, full=("near",))[0] == []
    moved, _ = volcano_plan({"p": "next"}, rack)
    assert moved[0] in {"next", "next2"}  # where its peers are
    for allowed in (block, GroupTopology(hard=True, highest_tier_name="block")):
        moved, _ = volcano_plan({"p": "near"}, allowed, full=("near",))
        assert moved[0] in {"next", "next2"}
        everywhere = ("near", "next", "next2")
        assert volcano_plan({"p": "near"}, allowed, full=everywhere)[0] == []


@pytest.mark.parametrize(
    ("scheduler", "possible"),
    [("volcano", {"hot", "near"}), ("default-scheduler", {"next", "next2", "far"})],
)
def test_only_the_scheduler_of_the_gang_keeps_to_its_hard_topology(
    scheduler: str, possible: set[str]
) -> None:
    """R2.4: with the default one, a landing outside is a harm that may happen."""
    topology = GroupTopology(hard=True, highest_tier=1)
    said = DeclaredGroup("Volcano", "apps", "llama", 1, topology=topology)
    fields: dict[str, Any] = {"hyper_nodes": hyper_nodes(), "scheduler": scheduler, "by": policy()}
    (move,) = gang_plan({"p": "near"}, marks=VOLCANO, declared_groups=(said,), **fields).evictions
    assert {each.node for each in move.landing} == possible


def test_a_hard_topology_holds_whatever_the_policy_says_of_domains() -> None:
    """R2.4: its replacement would wait elsewhere."""
    rack = GroupTopology(hard=True, highest_tier=1)
    ignoring = policy(plugins=house(Networks(PlacementDomains())))
    assert volcano_plan({"p": "near"}, rack, by=ignoring) == (["near"], "")
    moved, why = volcano_plan({"p": "near"}, rack, by=ignoring, full=("near",))
    assert moved == []
    assert why.startswith("gang apps/llama (Volcano): HyperNode r1: 0/5 nodes are available: ")
    assert "3 nodes are outside its placement domain" in why
    assert "1 node would rise above their ceiling" in why


def test_without_the_plugin_a_hard_topology_keeps_the_pod() -> None:
    """Nothing else knows where it may go; a soft topology keeps it no more."""
    hard = GroupTopology(hard=True, highest_tier=2)
    others = tuple(each for each in HOUSE if not isinstance(each, Networks))
    assert volcano_plan({"p": "near"}, hard)[0]
    assert volcano_plan({"p": "near"}, hard, by=moving(plugins=others)) == (
        [],
        "no plugin knows the network topology that gang apps/llama (Volcano) requires",
    )
    soft = {"scheduler": "default-scheduler", "by": moving(plugins=others)}
    assert volcano_plan({"p": "near"}, GroupTopology(hard=False), **soft)[0]


def test_a_gang_with_parts_names_its_hyper_node_once() -> None:
    said = DeclaredGroup(
        "Volcano",
        "apps",
        "llama",
        1,
        parts=(GroupPart("workers", 1, LabelSelector()),),
        topology=GroupTopology(hard=True, highest_tier=1),
    )
    alone = hyper_nodes(r1=HyperNode("r1", 1, "rack", ("hot",)))
    places = {"p": "hot"}
    plan = gang_plan(
        places, marks=VOLCANO, scheduler="volcano", declared_groups=(said,), hyper_nodes=alone
    )
    (why,) = (each.detail for each in plan.refusals if each.pod.name == "a")
    assert why.startswith("gang apps/llama (Volcano): HyperNode r1: ")


@pytest.mark.parametrize(
    ("places", "topology", "fields", "why"),
    [
        (
            {"p": "near", "q": "far"},
            GroupTopology(hard=True, highest_tier=2),
            {},
            "its pods are in no HyperNode of tier 2 or below",
        ),
        (
            {"p": "near"},
            GroupTopology(hard=True, highest_tier_name="hall"),
            {},
            "no HyperNode has the tier hall",
        ),
        ({"p": "near"}, GroupTopology(hard=False), {"hyper_nodes": ()}, "no HyperNodes are known"),
        (
            {"p": "near"},
            GroupTopology(hard=True, highest_tier=1),
            {"hyper_nodes": (HyperNode("r9", 1, "", ("far",)),)},
            "has no HyperNode",
        ),
        (
            {"p": "near"},
            GroupTopology(hard=True, highest_tier=2),
            {"hyper_nodes": hyper_nodes(x=HyperNode("x", 2, "", (), ("r1",)))},
            "HyperNode r1 is in b1 and x",
        ),
        ({"p": "near"}, GroupTopology(hard=True), {}, "volcano may place it elsewhere"),
        ({"p": "near"}, GroupTopology(hard=False), {}, "volcano may place it elsewhere"),
    ],
)
def test_a_topology_that_cannot_be_kept_for_sure_keeps_the_pod(
    places: Mapping[str, str], topology: GroupTopology, fields: Mapping[str, Any], why: str
) -> None:
    """R2.4, X4: unknown tiers, a tree in doubt; hard without a tier is soft."""
    moved, found = volcano_plan(places, topology, **fields)
    assert moved == []
    assert why in found


NET = Topology("KAI", "net", (BLOCK, RACK))


def labelled_plan(
    places: Mapping[str, str], topology: GroupTopology, system: str = "KAI", **fields: Any
) -> tuple[list[str], str]:
    """Where a surplus pod of a group with a level moves, and else why it stays."""
    said = DeclaredGroup(system, "apps", "llama", 1, topology=topology)
    fields = {"topologies": (NET,), "marks": {"pod-group-name": "llama"}} | fields
    plan = gang_plan(places, declared_groups=(said,), **fields)
    details = [each.detail for each in plan.refusals if each.pod.name == "a"]
    return [e.expected_node for e in plan.evictions], "".join(details)


IN_RACK = GroupTopology(hard=True, level=RACK, topology="net")
NEAR_RACK = GroupTopology(hard=False, preferred_level=RACK, topology="net")


def test_a_surplus_pod_of_kai_stays_as_near_as_the_preferred_level_says() -> None:
    """R2.4, R0.3: also within a required one."""
    both = GroupTopology(hard=True, level=BLOCK, preferred_level=RACK, topology="net")
    for topology in (NEAR_RACK, both):
        assert labelled_plan({"p": "near"}, topology) == (["near"], "")
        moved, why = labelled_plan({"p": "near"}, topology, full=("near",))
        assert moved == []
        assert "outside its placement domain" in why
    moved, why = labelled_plan({"p": "near"}, NEAR_RACK, scheduler="kai-scheduler")
    assert moved == []
    assert "kai-scheduler may place it elsewhere" in why


def test_a_surplus_pod_of_kubernetes_keeps_the_value_of_its_label() -> None:
    """R2.4: whatever the levels above are."""
    rack = GroupTopology(hard=True, level=RACK)
    native: dict[str, Any] = {"system": "Kubernetes", "marks": {"other": "x"}, "topologies": ()}
    labels = {n: {BLOCK: n, RACK: rack} for n, rack in RACKS.items()}
    plan = labelled_plan({"p": "near"}, rack, labels=labels, in_group="llama", **native)
    assert plan == (["near"], "")
    plan = labelled_plan(
        {"p": "near"}, rack, labels=labels, in_group="llama", full=("near",), **native
    )
    assert plan[0] == []


@pytest.mark.parametrize(
    ("places", "topology", "fields", "why"),
    [
        ({"p": "near"}, IN_RACK, {"topologies": ()}, "Topology net is not known"),
        (
            {"p": "near"},
            IN_RACK,
            {"topologies": (Topology("Kueue", "net", (BLOCK, RACK)),)},
            "Topology net is not known",
        ),
        ({"p": "near"}, NEAR_RACK, {"topologies": ()}, "Topology net is not known"),
        (
            {"p": "near"},
            IN_RACK,
            {"topologies": (Topology("KAI", "net", (BLOCK,)),)},
            f"Topology net has no level {RACK}",
        ),
        ({"p": "near", "q": "next"}, IN_RACK, {}, f"its pods are in several domains of {RACK}"),
        (
            {"p": "near"},
            IN_RACK,
            {"labels": {n: {RACK: rack} for n, rack in RACKS.items()}},
            f"near lacks a label of {BLOCK} > {RACK}",
        ),
    ],
)
def test_a_level_that_is_not_known_keeps_the_pod(
    places: Mapping[str, str], topology: GroupTopology, fields: Mapping[str, Any], why: str
) -> None:
    """R2.4, X4."""
    moved, found = labelled_plan(places, topology, **fields)
    assert moved == []
    assert why in found


def modes(**by_name: DomainMode) -> Policy:
    """The known domains, of which some count otherwise."""
    keys = {"rack": RACK, "block": BLOCK, "group": GROUP, "tier1": "topology.volcano.sh/tier-1"}
    found = {keys[name]: mode for name, mode in by_name.items()}
    return moving(plugins=house(counting(found)))


def counting(modes: Mapping[str, DomainMode]) -> Networks:
    """The known domains, of which those with these labels count otherwise."""
    return Networks(msgspec.structs.replace(KNOWN_DOMAINS, modes=tuple(modes.items())))


PEERS = {"p": "near", "q": "far"}


@pytest.mark.parametrize(
    ("by", "full", "expected"),
    [
        (modes(rack=DomainMode.PREFER), (), "near"),
        (modes(rack=DomainMode.PREFER), ("near",), "next"),
        (modes(rack=DomainMode.PREFER), ("near", "next", "next2"), None),
        (modes(rack=DomainMode.PREFER, block=DomainMode.PREFER), ("near", "next", "next2"), "far"),
        (modes(rack=DomainMode.IGNORE), ("near", "next", "next2"), None),
        (modes(block=DomainMode.IGNORE), ("near",), None),  # a rack is in a block
        (modes(rack=DomainMode.IGNORE, block=DomainMode.IGNORE), ("near", "next", "next2"), "far"),
    ],
)
def test_each_level_is_required_preferred_or_ignored(
    by: Policy, full: tuple[str, ...], expected: str | None
) -> None:
    """R0.3: a preferred level is left if no move inside is possible, a required one never."""
    of_labels = gang_plan(PEERS, full=full, by=by)
    tiers = {RACK: "topology.volcano.sh/tier-1", BLOCK: "topology.volcano.sh/tier-2"}
    of_tiers = {tiers[key]: mode for key, mode in domains_of(by).modes}
    by = moving(plugins=house(counting(of_tiers)))
    tree = hyper_nodes()
    of_tree = gang_plan(PEERS, full=full, by=by, hyper_nodes=tree, labels=NOT_LABELLED)
    for plan in (of_labels, of_tree):
        assert [e.expected_node for e in plan.evictions] == ([expected] if expected else [])


BOTH = {"rack": DomainMode.PREFER, "block": DomainMode.PREFER}


@pytest.mark.parametrize(
    ("full", "where", "extra_cost"),
    [
        ((), ["near"], 0),
        (("near",), ["next", "next2"], 0.5),
        (("near", "next", "next2"), ["far"], 1),
    ],
)
def test_preferred_levels_are_left_one_by_one(
    full: tuple[str, ...], where: list[str], extra_cost: float
) -> None:
    """R0.3: the same block is preferred to another one, and costs less than to leave it."""
    plan, inside = (gang_plan(PEERS, full=each, by=modes(**BOTH)) for each in (full, ()))
    (move,) = plan.evictions
    assert move.expected_node in where
    assert move.likely_nodes <= set(where)
    assert move.cost == inside.evictions[0].cost + extra_cost


def test_a_level_by_two_sources_is_left_if_both_may_be() -> None:
    """R0.3: a mode of the tier alone leaves the label, which is required."""
    places: dict[str, Any] = {"full": ("near",), "hyper_nodes": hyper_nodes()}
    of_tier = modes(tier1=DomainMode.PREFER)
    assert reasons(gang_plan(PEERS, by=of_tier, **places))["a"] == "no_node_under_ceiling"
    of_both = modes(tier1=DomainMode.PREFER, rack=DomainMode.PREFER)
    assert evicted(gang_plan(PEERS, by=of_both, **places)) == ["a"]


def test_a_group_may_be_preferred() -> None:
    """R0.2, R0.3: and to leave it costs as much as another eviction."""
    by = modes(group=DomainMode.PREFER)
    inside = plan_of({GROUP: "pg1"}, {"near": {GROUP: "pg1"}, "far": {GROUP: "pg2"}}, by)
    outside = plan_of({GROUP: "pg1"}, {"far": {GROUP: "pg2"}}, by)
    assert [e.expected_node for e in inside.evictions] == ["near"]
    assert [e.expected_node for e in outside.evictions] == ["far"]
    assert outside.evictions[0].cost == inside.evictions[0].cost + 1.0


def test_to_leave_a_group_costs_as_much_if_the_model_is_left_as_well() -> None:
    """R0.3: what one limit lets a pod do is paid for, also where another one must give way."""
    plugins = house(counting({GROUP: DomainMode.PREFER}), Caches(CacheAffinity.PREFER))
    by = moving(plugins=plugins)
    named = {"annotations": {CACHE_KEY: "llama"}}
    inside = plan_of({GROUP: "pg1"}, {"near": {GROUP: "pg1"}}, by, **named)
    outside = plan_of({GROUP: "pg1"}, {"far": {GROUP: "pg2"}}, by, **named)
    assert outside.evictions[0].cost == inside.evictions[0].cost + 1.0


def test_a_pod_that_need_not_leave_its_domain_goes_first() -> None:
    """R0.3: of two pods of the same cost the one that stays inside, though its name comes later."""
    labels = {GROUP: "pg1", CLIQUE: "1"}
    nodes = [gpu_node("hot", labels), gpu_node("far", {GROUP: "pg1", CLIQUE: "2"})]
    gpu = amounts(1, 1, **{"nvidia.com/gpu": 1})
    pods = [pod("a", on="hot", request=gpu), pod("b", on="hot", request=amounts(1, 1), of=None)]
    pods[1] = msgspec.structs.replace(pods[1], owner=pods[0].owner)
    used = load({"hot": (0.9, 0.1), "far": (0.1, 0.1)}, dict.fromkeys("ab", (0.7, 0.1)))
    by = moving(plugins=house(counting({CLIQUE: DomainMode.PREFER})))
    plan = planned(snapshot(nodes, pods, used), by)
    assert evicted(plan) == ["b"]
