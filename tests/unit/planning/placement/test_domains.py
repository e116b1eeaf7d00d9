"""Pods stay in the domains of their nodes: placement groups, GPUs, and levels of the network."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from desched.model.cluster import Node
from desched.model.plan import Plan
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.placement.domains import NodeDomains
from desched.policy.placement_domains import KNOWN_DOMAINS, RUNGS, PlacementDomains
from desched.policy.policy import Policy, Protections
from tests.builders import (
    amounts,
    evicted,
    load,
    node,
    planned,
    pod,
    policy,
    reasons,
    snapshot,
)
from tests.repository import ROOT

DOCUMENT = ROOT / "docs" / "ai-clusters.md"
GROUP = "cloud.google.com/gke-placement-group"
CLIQUE = "nvidia.com/gpu.clique"
PRODUCT = "nvidia.com/gpu.product"
ZONE, BLOCK, RACK = (rung[0] for rung in RUNGS[:3])


def closeness(labels: Mapping[str, Mapping[str, str]], one: str) -> dict[str, int]:
    arrays = NodeArrays(node(name, labels=each) for name, each in labels.items())
    found = NodeDomains(arrays, KNOWN_DOMAINS.rungs).closeness(arrays.index[one])
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
    assert found == {"te0": 3, "te1": 2, "te2": 1, "te3": 1, **{f"te{i}": 0 for i in range(4, 8)}}


def gpu_node(name: str, labels: Mapping[str, str] | None = None) -> Node:
    devices = {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32}
    size = msgspec.structs.replace(amounts(4, 16, **devices), pods=110)
    return node(name, labels=dict(labels or {}), capacity=size, allocatable=size)


def moving(**fields: Any) -> Policy:
    return policy(protections=Protections(gpu_pods=False), **fields)


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
    assert with_room.evictions[0].landing_risk > 0.5  # the scheduler does not know the group
    (refusal,) = plan_of({GROUP: "pg1"}, {"far": {GROUP: "pg2"}, "none": {}}).refusals
    assert refusal.reason == "placement_domain"
    assert refusal.detail.startswith(f"{GROUP}=pg1: 0/3 nodes are available")
    assert "2 node(s) are outside its placement domain" in refusal.detail


def test_a_landing_outside_is_a_risk() -> None:
    """R0.2: kube-scheduler may choose a node of another group."""
    cool = {"near": {GROUP: "pg1"}, "far": {GROUP: "pg2"}}
    assert reasons(plan_of({GROUP: "pg1"}, cool, moving(max_landing_risk=0.15))) == {
        "a": "landing_risk"
    }


def test_another_scheduler_must_have_no_choice_but_the_domain() -> None:
    """R0.2, X4: where it would place the pod is not known."""
    cool = {"near": {GROUP: "pg1"}, "far": {GROUP: "pg2"}}
    found = plan_of({GROUP: "pg1"}, cool, scheduler="volcano").refusals[0]
    assert found.reason == "placement_domain"
    assert found.detail == f"{GROUP}=pg1: volcano may place it outside"
    alone = plan_of({GROUP: "pg1"}, {"near": {GROUP: "pg1"}}, scheduler="volcano")
    assert evicted(alone) == ["a"]


def test_only_pods_with_gpus_stay_where_gpus_are_connected() -> None:
    """R0.2, S3.6: a clique does not keep pods that use only the host."""
    elsewhere: dict[str, Mapping[str, str]] = {"far": {CLIQUE: "2"}}
    assert evicted(plan_of({CLIQUE: "1"}, elsewhere)) == ["a"]
    gpu = amounts(1, 1, **{"nvidia.com/gpu": 1})
    assert reasons(plan_of({CLIQUE: "1"}, elsewhere, request=gpu)) == {"a": "placement_domain"}
    assert evicted(plan_of({CLIQUE: "1"}, {"near": {CLIQUE: "1"}}, request=gpu)) == ["a"]


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


def test_a_policy_may_ignore_domains() -> None:
    ignoring = moving(domains=PlacementDomains())
    assert evicted(plan_of({GROUP: "pg1"}, {"far": {GROUP: "pg2"}}, ignoring)) == ["a"]


def gang_plan(places: Mapping[str, str], least: int = 2, **fields: Any) -> Plan:
    """Peers on the nodes of their names; racks r1 and r2 are in block b1, r3 is in b2."""
    marks = {
        "gang.scheduling.koordinator.sh/name": "llama",
        "gang.scheduling.koordinator.sh/min-available": str(least),
    }
    racks = {"hot": "r1", "near": "r1", "next": "r2", "next2": "r2", "far": "r3"}
    blocks = {"r1": "b1", "r2": "b1", "r3": "b2"}
    nodes = [gpu_node(n, {BLOCK: blocks[rack], RACK: rack}) for n, rack in racks.items()]
    one = pod("a", on="hot", request=amounts(1, 1), annotations=marks)
    peers = [pod(name, on=on, annotations=marks, of=None) for name, on in places.items()]
    cool = [name for name in racks if name != "hot"]
    full = fields.get("full", ())
    used = load(
        {"hot": (0.9, 0.1)} | {n: (0.75 if n in full else 0.1, 0.1) for n in cool},
        {"a": (1.0, 0.1)} | dict.fromkeys(places, (0.01, 0.01)),
    )
    return planned(snapshot(nodes, [one, *peers], used))


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
