"""Reserves of GPUs that the nodes of a cluster cannot give."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from desched.model.cluster import Node
from desched.model.load import ClusterLoad
from desched.network.objects import HyperNode, NetworkObjects
from desched.plugins.gpus.drains.impossible_reserves import impossible_reserves
from desched.plugins.gpus.drains.rules import GpuDrainRules, Reserve
from desched.plugins.gpus.plugin import Gpus
from tests.builders import amounts, node, policy, selector, snapshot

RACK = "example.com/rack"
TIER = "topology.volcano.sh/tier-1"
EIGHT = amounts(64, 512, **{"nvidia.com/gpu": 8})


def in_racks(**racks: int) -> list[Node]:
    """This number of nodes with eight GPUs in each rack, and one without GPUs."""
    return [
        node("plain", labels={RACK: "plain"}),
        *(
            node(f"{name}-{i}", labels={RACK: name}, allocatable=EIGHT)
            for name, count in racks.items()
            for i in range(count)
        ),
    ]


def found(reserve: Reserve, nodes: Sequence[Node], tiers: Sequence[int] = ()) -> tuple[str, ...]:
    reserve = replace(reserve, place="p:3: reserve[0]")
    hyper_nodes = tuple(HyperNode(f"h{tier}", tier) for tier in tiers)
    cluster = snapshot(
        nodes, [], ClusterLoad({}, {}), extras=NetworkObjects(hyper_nodes).extras
    ).cluster
    return impossible_reserves([reserve], policy(), cluster)


@pytest.mark.parametrize(
    ("reserve", "racks", "why"),
    [
        (Reserve(16), {"a": 2}, "no node has 16 GPUs, the most is 8"),
        (Reserve(1), {}, "no node has 1 GPU, the most is 0"),
        (Reserve(8, 3), {"a": 2}, "it needs 3 nodes with 8 GPUs, the cluster has 2"),
        (Reserve(8, 1, "zone"), {"a": 2}, "no node with 8 GPUs has the label zone"),
        (
            Reserve(8, 3, RACK),
            {"a": 1, "b": 2},
            f"no {RACK} has 3 nodes with 8 GPUs, the largest (b) has 2",
        ),
        (Reserve(8, 1, TIER), {"a": 2}, "there is no HyperNode of tier 1"),
    ],
)
def test_a_reserve_that_no_node_can_give_is_named_with_its_place(
    reserve: Reserve, racks: dict[str, int], why: str
) -> None:
    (text,) = found(reserve, in_racks(**racks), tiers=[2])
    assert text.startswith(f"p:3: reserve[0]: {why}; ")


@pytest.mark.parametrize(
    "reserve", [Reserve(8, 2), Reserve(4, 2, RACK), Reserve(8, 2, TIER), Reserve(1)]
)
def test_one_that_a_drain_could_give_is_not(reserve: Reserve) -> None:
    assert found(reserve, in_racks(a=1, b=2), tiers=[1]) == ()


def test_only_nodes_that_the_policy_looks_at_count() -> None:
    by = policy(node_selector=selector(**{RACK: "plain"}))
    cluster = snapshot(in_racks(a=1), [], ClusterLoad({}, {})).cluster
    assert "the most is 0" in impossible_reserves([Reserve(8)], by, cluster)[0]


def test_without_the_plugin_there_is_nothing_to_check() -> None:
    cluster = snapshot([], [], ClusterLoad({}, {})).cluster
    assert Gpus().warnings(policy(), cluster) == ()
    assert Gpus(GpuDrainRules(reserves=(Reserve(8),))).warnings(policy(), cluster) != ()
