"""S0.5: load is compared and relieved within the domains of the level that the policy names."""

from collections.abc import Mapping
from typing import Any

import pytest

from desched.model.plan import NodeClass, NodeReason, Plan
from desched.network.placement_domains import PlacementDomains
from desched.planning.overload.balance_scope import BalanceScope
from desched.plugins.networks.plugin import Networks
from tests.builders import (
    evicted,
    house,
    load,
    node,
    planned,
    pod,
    policy,
    reasons,
    rule,
    snapshot,
)

GROUP = "cloud.google.com/gke-placement-group"


@pytest.mark.parametrize(
    ("scope", "expected"),
    [("", {"a": "", "b": ""}), (GROUP, {"a": "pg1", "b": None})],
)
def test_a_domain_is_the_value_of_a_label(scope: str, expected: Mapping[str, str | None]) -> None:
    nodes = [node("a", labels={GROUP: "pg1"}), node("b")]
    seen = snapshot(nodes, [], load({}))
    found = BalanceScope(seen.cluster, policy(balance_scope=scope, plugins=()))
    assert {each.name: found.domain(each) for each in nodes} == expected


def plan_of(loads: Mapping[str, float], pods: Mapping[str, str], **fields: Any) -> Plan:
    """Nodes in the group that their names begin with, and pods of one core on them."""
    nodes = [
        node(name, cpu=4, labels={GROUP: name.partition("-")[0]} if "-" in name else {})
        for name in loads
    ]
    measured = load(
        {name: (used, 0.1) for name, used in loads.items()}, dict.fromkeys(pods, (0.8, 0.1))
    )
    on = [pod(name, on=where) for name, where in pods.items()]
    return planned(snapshot(nodes, on, measured), policy(balance_scope=GROUP, **fields))


def test_a_node_is_relieved_only_towards_its_domain() -> None:
    """S0.5: the coolest node of all is in another placement group."""
    moved = plan_of({"pg1-hot": 0.9, "pg1-cool": 0.3, "pg2-idle": 0.0}, {"a": "pg1-hot"})
    assert [(e.expected_node, e.pool) for e in moved.evictions] == [("pg1-cool", "in pg1")]
    # Where only another group has room, or nodes of no group, it stays.
    stays = plan_of(
        {"pg1-hot": 0.9, "pg1-warm": 0.55, "pg2-idle": 0.0, "idle": 0.0}, {"a": "pg1-hot"}
    )
    (refusal,) = stays.refusals
    assert (refusal.reason, evicted(stays)) == ("no_node_under_ceiling", [])
    assert refusal.detail.startswith(f"{GROUP}=pg1: 0/4 nodes are available: ")
    assert "2 nodes are outside its placement domain" in refusal.detail


def test_the_scope_alone_keeps_pods_inside() -> None:
    """S0.5: whatever the policy says of placement domains."""
    loads = {"pg1-hot": 0.9, "pg1-warm": 0.55, "pg2-idle": 0.0}
    plugins = house(Networks(PlacementDomains()))
    stays = plan_of(loads, {"a": "pg1-hot"}, plugins=plugins)
    (refusal,) = stays.refusals
    assert (refusal.reason, evicted(stays)) == ("no_node_under_ceiling", [])
    moved = plan_of(
        loads | {"pg1-cool": 0.3}, {"a": "pg1-hot"}, plugins=house(Networks(PlacementDomains()))
    )
    assert [each.expected_node for each in moved.evictions] == ["pg1-cool"]
    assert moved.evictions[0].landing_risk == pytest.approx(1 / 3)  # of three like nodes


def test_without_a_plugin_that_keeps_pods_inside_none_moves() -> None:
    plan = plan_of({"pg1-hot": 0.9, "pg1-cool": 0.3}, {"a": "pg1-hot"}, plugins=())
    (refusal,) = plan.refusals
    assert (refusal.reason, evicted(plan)) == ("placement_domain", [])
    assert refusal.detail == "no plugin keeps pods within the balanceScope of the policy"


def test_nodes_without_a_domain_are_neither_relieved_nor_destinations() -> None:
    """S0.5, X4: and the report says so."""
    plan = plan_of({"hot": 0.9, "idle": 0.0, "pg1-idle": 0.0}, {"a": "hot"})
    found = {each.node: (each.node_class, each.reason) for each in plan.nodes}
    for name in ("hot", "idle"):
        assert found[name] == (NodeClass.OUT_OF_SCOPE, "without_domain")
    assert evicted(plan) == []


def test_relative_thresholds_are_those_of_the_domain() -> None:
    """S0.5: a group that is evenly busy has no overloaded node, though others are idle."""
    relative = {
        "deviation": True,
        "deviation_floor_ratio": 0.0,
        "rules": (rule(low_ratio=0.1, target_ratio=0.1),),
    }
    loads = {"pg1-a": 0.7, "pg1-b": 0.7, "pg2-a": 0.5, "pg2-b": 0.1}
    plan = plan_of(loads, {"a": "pg1-a", "b": "pg2-a"}, **relative)
    overloaded = [e.node for e in plan.nodes if e.node_class is NodeClass.OVERLOADED]
    assert overloaded == ["pg2-a"]
    assert [(e.pod.name, e.expected_node) for e in plan.evictions] == [("b", "pg2-b")]


def test_a_full_domain_needs_capacity_while_others_are_relieved() -> None:
    """S0.5: saturation is judged by domain."""
    loads = {"pg1-a": 0.9, "pg1-b": 0.9, "pg2-a": 0.9, "pg2-b": 0.1}
    plan = plan_of(loads, {"a": "pg1-a", "b": "pg2-a"})
    assert reasons(plan) == {"a": "no_node_under_ceiling"}
    assert {v.node: v.reason for v in plan.nodes}["pg1-a"] is NodeReason.POOL_SATURATED
    assert evicted(plan) == ["b"]
