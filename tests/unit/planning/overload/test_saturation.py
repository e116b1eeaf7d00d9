"""Saturated pools, which moves cannot relieve, and saturated nodes, where usage is not demand."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from desched.model.load import PodUsage
from desched.model.plan import HoldReason, NodeReason, Plan
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.planning.overload.pod_usage import UsageBook
from desched.policy.policy import NodePool
from tests.builders import (
    NOW,
    STEERED,
    load,
    node,
    planned,
    pod,
    policy,
    rule,
    selector,
    snapshot,
    unknown,
)

CPU_ONLY = policy(rule(Resource.CPU))


def cluster(**cpu: float) -> Snapshot:
    """Nodes of 4 cores at so much CPU; `n1` has two pods of half a core."""
    return snapshot(
        [node(name) for name in cpu],
        [pod("a", on="n1"), pod("b", on="n1")],
        load({name: (ratio, 0.1) for name, ratio in cpu.items()}, dict.fromkeys("ab", (0.5, 0.1))),
    )


def reason_of(plan: Plan, name: str) -> str | None:
    found = next(v for v in plan.nodes if v.node == name).reason
    return found.value if found else None


CAREFUL = msgspec.structs.replace(CPU_ONLY, max_landing_risk=0.15)


def test_where_no_node_can_be_relieved_the_cycle_is_held_with_the_numbers() -> None:
    plan = planned(cluster(n1=0.86, n2=0.9, n3=0.74), CAREFUL)
    assert plan.hold is HoldReason.CLUSTER_SATURATED
    assert plan.hold_detail == (
        "cpu 83.3% on average, above the stop line of 75.0%; 1 more node would end that"
    )
    assert reason_of(plan, "n1") == "pool_saturated"


def with_left_out(**fields: Any) -> Snapshot:
    """Two hot nodes, and two of 10 % that these fields leave out."""
    seen = cluster(n1=0.86, n2=0.9, o1=0.1, o2=0.1)
    nodes = tuple(
        msgspec.structs.replace(each, **fields) if each.name[0] == "o" else each
        for each in seen.cluster.nodes
    )
    return msgspec.structs.replace(seen, cluster=msgspec.structs.replace(seen.cluster, nodes=nodes))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"unschedulable": True}, "; not counted: 2 cordoned (such as o1, 90.0% idle)"),
        ({"created_at": NOW}, "; not counted: 2 too_young (such as o1, 90.0% idle)"),
        ({"deleting": True}, ""),
    ],
)
def test_the_numbers_of_a_saturated_cluster_name_the_idle_nodes_that_do_not_count(
    fields: dict[str, Any], said: str
) -> None:
    plan = planned(with_left_out(**fields), CAREFUL)
    assert plan.hold is HoldReason.CLUSTER_SATURATED
    assert (
        plan.hold_detail.removeprefix(
            "cpu 88.0% on average, above the stop line of 75.0%; 1 more node would end that"
        )
        == said
    )


def test_the_numbers_of_a_saturated_cluster_name_nodes_of_unknown_load() -> None:
    seen = cluster(n1=0.86, n2=0.9, n3=0.9)
    unmeasured = {**seen.load.nodes, "n3": {Resource.CPU: unknown()}}
    seen = msgspec.structs.replace(seen, load=msgspec.structs.replace(seen.load, nodes=unmeasured))
    plan = planned(seen, CAREFUL)
    assert plan.hold_detail.endswith("; not counted: 1 absent (such as n3, of unknown load)")


def test_nodes_of_another_pool_are_no_room_for_a_saturated_one() -> None:
    batch = NodePool("batch", selector(pool="batch"), CPU_ONLY.rules)
    seen = with_left_out(unschedulable=True, labels={"pool": "batch"})
    plan = planned(seen, msgspec.structs.replace(CAREFUL, pools=(batch,)))
    assert plan.hold_detail.endswith("1 more node would end that")


def test_a_node_of_a_saturated_pool_is_relieved_where_one_is_cooler() -> None:
    """The mean is 76.7 %."""
    plan = planned(cluster(n1=0.95, n2=0.85, n3=0.5), CPU_ONLY)
    (move, *_) = plan.evictions
    assert (move.node, move.expected_node) == ("n1", "n3")
    assert move.reason == "node n1 cpu 95.0% > 80.0%"
    assert [each.ratio for each in move.levelled_to] == [pytest.approx(0.825)]
    assert reason_of(plan, "n2") == "pool_saturated"


def test_no_destination_becomes_fuller_than_the_source_is_left() -> None:
    assert not planned(cluster(n1=0.93, n2=0.77, n3=0.79), CAREFUL).evictions
    (move, *_) = planned(cluster(n1=0.94, n2=0.66, n3=0.67), CAREFUL).evictions
    assert move.levelled_to


def test_a_node_of_a_saturated_pool_loses_as_many_pods_as_others_have_room_for() -> None:
    plan = planned(cluster(n1=1.0, n2=0.9, n3=0.3, n4=0.9), CPU_ONLY)
    assert [move.expected_node for move in plan.evictions] == ["n3", "n3"]


@given(st.lists(st.floats(0.5, 1.0), min_size=2, max_size=6))
def test_in_a_saturated_pool_each_destination_is_no_fuller_than_the_source_is_left(
    others: list[float],
) -> None:
    careful = policy(rule(Resource.CPU), **STEERED)
    loads = {"n1": 0.97} | {f"n{i}": ratio for i, ratio in enumerate(others, 2)}
    plan = planned(cluster(**loads), careful)
    source, reached = loads["n1"], dict(loads)
    for move in plan.evictions:
        source -= 0.125
        reached[move.expected_node] += 0.125
        if move.levelled_to:
            assert reached[move.expected_node] <= source + 1e-9


def test_too_little_room_for_the_excess_holds_the_cycle_with_the_numbers() -> None:
    plan = planned(cluster(n1=0.9, n2=0.66, n3=0.68), CAREFUL)
    assert plan.hold is HoldReason.CLUSTER_SATURATED
    assert plan.hold_detail == (
        "cpu has room for 2.0% of the capacity under the ceilings, less than half of the "
        "excess of 5.0%"
    )


def test_room_for_half_of_the_excess_is_enough_to_act() -> None:
    plan = planned(cluster(n1=0.9, n2=0.54, n3=0.7), CPU_ONLY)
    assert plan.hold is None
    assert plan.evictions


def test_a_mean_on_the_stop_line_and_room_for_exactly_half_are_enough() -> None:
    exact = rule(Resource.CPU, target_ratio=0.75, stop_margin_ratio=0.25, ceiling_margin_ratio=0.5)
    assert planned(cluster(n1=1.0, n2=0.0), policy(exact)).hold is None


def test_nodes_where_no_pod_may_go_have_no_room() -> None:
    elsewhere = policy(rule(Resource.CPU), destination_selector=selector(pool="none"))
    assert planned(cluster(n1=0.9, n2=0.1), elsewhere).hold is HoldReason.CLUSTER_SATURATED


def test_the_mean_is_weighted_by_capacity() -> None:
    small = snapshot(
        [node("n1", cpu=2), node("n2", cpu=2), node("big", cpu=32)],
        [pod("a", on="n1")],
        load({"n1": (0.9, 0.1), "n2": (0.9, 0.1), "big": (0.5, 0.1)}, {"a": (0.4, 0.1)}),
    )
    assert planned(small, CPU_ONLY).hold is None


def test_a_cool_cluster_is_never_held_for_it() -> None:
    assert planned(cluster(n1=0.78, n2=0.78), CPU_ONLY).hold is None


def test_a_saturated_pool_waits_while_another_is_relieved() -> None:
    batch = NodePool("batch", selector(pool="batch"), CPU_ONLY.rules)
    seen = snapshot(
        [node("b1", labels={"pool": "batch"}), node("n1"), node("n2")],
        [pod("x", on="b1", scheduling={"node_selector": (("pool", "batch"),)}), pod("a", on="n1")],
        load(
            {"b1": (0.899, 0.1), "n1": (0.9, 0.1), "n2": (0.1, 0.1)}, dict.fromkeys("ax", (0.8, 0))
        ),
    )
    plan = planned(seen, policy(rule(Resource.CPU), pools=(batch,)))
    assert plan.hold is None
    assert [e.pod.name for e in plan.evictions] == ["a"]
    found = next(v for v in plan.nodes if v.node == "b1")
    assert found.reason is NodeReason.POOL_SATURATED
    assert found.detail.startswith(
        "pool batch: cpu 89.9% on average, above the stop line of 75.0%; 1 more node"
    )


def demand(seen: Snapshot, name: str = "a") -> float:
    one = next(p for p in seen.cluster.pods if p.name == name)
    return UsageBook(seen, CPU_ONLY, NOW).demand(one, Resource.CPU)


def test_a_pod_on_a_node_with_cpu_to_spare_is_charged_what_it_uses() -> None:
    assert demand(cluster(n1=0.94, n2=0.1)) == 500


def test_on_a_saturated_node_a_pod_is_charged_half_as_much_again() -> None:
    assert demand(cluster(n1=0.95, n2=0.1)) == 750


def throttled(seen: Snapshot, *names: str) -> Snapshot:
    pods = frozenset(("apps", name) for name in names)
    return msgspec.structs.replace(seen, load=msgspec.structs.replace(seen.load, throttled=pods))


def test_a_throttled_pod_is_charged_half_as_much_again_where_its_siblings_are_throttled_too() -> (
    None
):
    assert demand(throttled(cluster(n1=0.5, n2=0.1), "a", "b")) == 750


@pytest.mark.parametrize(("sibling_cores", "charged"), [(0.9, 900), (0.2, 500)])
def test_siblings_that_are_not_held_back_show_the_demand(
    sibling_cores: float, charged: float
) -> None:
    seen = throttled(cluster(n1=0.5, n2=0.1), "a")
    used = {**seen.load.pods, ("apps", "b"): PodUsage((sibling_cores * 1000,), (1.0,))}
    seen = msgspec.structs.replace(seen, load=msgspec.structs.replace(seen.load, pods=used))
    assert demand(seen) == charged


def test_relief_counts_what_was_measured_although_the_destination_is_charged_more() -> None:
    plan = planned(cluster(n1=0.96, n2=0.1), CPU_ONLY)
    (first, *_) = plan.evictions
    assert first.relief[0].ratio == pytest.approx(0.125)
    after = next(v for v in plan.nodes if v.node == "n2").pressures[0].after_ratio
    assert after == pytest.approx(0.1 + len(plan.evictions) * 0.1875)
