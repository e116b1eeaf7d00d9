"""The expected overload that a plan leaves on the nodes that it changes."""

import pytest
from msgspec.structs import replace

from desched.model.load import LoadHistory
from desched.model.plan import NodeOutlook, Plan
from desched.model.resources import Resource
from tests.builders import evicted, load, node, planned, pod, policy, snapshot


def outlooks(plan: Plan) -> dict[str, NodeOutlook]:
    return {each.node: each.outlook for each in plan.nodes if each.outlook is not None}


def test_the_source_is_left_with_what_its_move_does_not_save() -> None:
    used = {"a": (0.4, 0.1), "b": (0.4, 0.1)}
    seen = snapshot(
        [node("hot"), node("cool")],
        [pod("a", on="hot"), pod("b", on="hot", of=None)],
        load({"hot": (0.87, 0.1), "cool": (0.1, 0.1)}, used),
    )

    plan = planned(seen)

    assert evicted(plan) == ["a"]
    (hot,) = outlooks(plan).values()
    assert hot.overload_after is not None
    (move,) = plan.evictions
    assert hot.overload - hot.overload_after == pytest.approx(move.saved_minutes)
    assert hot.overload_after > 0


def test_a_destination_is_left_with_the_share_of_what_may_land_there() -> None:
    history = {"warm": {Resource.CPU: LoadHistory(300, (0.72, 0.5) * 6)}}
    loads = load({"hot": (0.87, 0.1), "warm": (0.5, 0.1)}, {"a": (0.4, 0.1)})
    seen = snapshot(
        [node("hot"), node("warm")],
        [pod("a", on="hot")],
        replace(loads, history=history),
    )

    plan = planned(seen, policy(max_landing_risk=1.0))

    assert evicted(plan) == ["a"]
    warm, (move,) = outlooks(plan)["warm"], plan.evictions
    assert warm.overload_after is not None
    assert move.cost_minutes > 0.5
    assert warm.overload_after - warm.overload == pytest.approx(move.cost_minutes, abs=0.5)


def test_a_plan_that_changes_a_node_in_nothing_says_nothing_of_it() -> None:
    seen = snapshot(
        [node("hot"), node("cool")],
        [pod("a", on="hot", of=None)],
        load({"hot": (0.95, 0.1), "cool": (0.1, 0.1)}, {"a": (1.0, 0.1)}),
    )
    assert {each.overload_after for each in outlooks(planned(seen)).values()} == {None}
