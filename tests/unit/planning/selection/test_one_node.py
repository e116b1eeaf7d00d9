"""Which pods of one node go: those whose moves save most of the next hour's overload."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from desched.model.load import LoadHistory, PodPast, UnknownReason
from desched.model.plan import NodeReason, Plan
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.model.state import RecentMove, State
from desched.planning.eligibility.annotations import PREFER_NO_EVICTION_ANNOTATION
from desched.policy.policy import Policy, PriorityThreshold, Protections
from tests.builders import (
    GIB,
    NOW,
    evicted,
    load,
    no_limits_but,
    node,
    planned,
    pod,
    policy,
    reasons,
    rule,
    snapshot,
)

CPU = policy(rule(Resource.CPU))


def hot(
    ratio: float, cool: float = 0.1, by_pod: Mapping[str, Any] = {}, **cores: float
) -> Snapshot:
    """A node of 4 cores at this load with these pods, and another node."""
    return snapshot(
        [node("hot"), node("cool")],
        [pod(name, on="hot", **by_pod.get(name, {})) for name in cores],
        load(
            {"hot": (ratio, 0.1), "cool": (cool, 0.1)},
            {name: (used, 0.1) for name, used in cores.items()},
        ),
    )


def swinging(
    seen: Snapshot, nodes: Mapping[str, Sequence[float]], pods: Mapping[str, Sequence[float]]
) -> Snapshot:
    """The same with a past of nodes, as ratios, and of pods, in cores, each 5 minutes."""
    of_load = replace(
        seen.load,
        history={
            name: {Resource.CPU: LoadHistory(300, tuple(points))} for name, points in nodes.items()
        },
        pod_pasts={
            ("apps", name): PodPast(
                tuple(1000 * cores for cores in points), (0.1 * GIB,) * len(points)
            )
            for name, points in pods.items()
        },
    )
    return replace(seen, load=of_load)


def at_price(minutes: float) -> Policy:
    return replace(CPU, eviction_price_minutes=minutes)


def verdict(plan: Plan) -> NodeReason | UnknownReason | None:
    return next(v for v in plan.nodes if v.node == "hot").reason


def test_the_pod_goes_first_whose_move_saves_most_for_its_cost() -> None:
    plain = hot(0.95, valued=0.6, plain=0.5)
    assert evicted(planned(plain, CPU)) == ["valued", "plain"]
    dear = hot(0.95, by_pod={"valued": {"priority": 999_999}}, valued=0.6, plain=0.5)
    assert evicted(planned(dear, CPU)) == ["plain", "valued"]
    one = replace(CPU, limits=no_limits_but(node=1))
    assert evicted(planned(dear, one)) == ["plain"]


def test_of_like_pods_the_first_by_name_goes() -> None:
    plan = planned(hot(0.87, c=0.5, a=0.5, b=0.5), CPU)
    assert evicted(plan) == ["a"]
    assert reasons(plan) == {"b": "not_needed", "c": "not_needed"}


def test_each_move_is_judged_on_what_the_earlier_ones_leave() -> None:
    plan = planned(hot(1.0, a=0.5, b=0.5, c=0.5), CPU)
    first, second = plan.evictions
    assert first.saved_minutes < second.saved_minutes
    assert first.saved_minutes + second.saved_minutes == pytest.approx(96, abs=1)
    assert reasons(plan) == {"c": "not_needed"}


def test_relief_ends_when_what_is_left_is_worth_no_eviction() -> None:
    """At 79 % some overload is left: half of the minutes would be above the target."""
    seen = hot(0.88, a=0.36, b=0.36)
    assert evicted(planned(seen, at_price(5))) == ["a", "b"]
    assert evicted(planned(seen, at_price(30))) == ["a"]


def test_no_pod_goes_for_less_than_the_price() -> None:
    plan = planned(hot(0.84, a=0.1), at_price(60))
    assert evicted(plan) == []
    assert reasons(plan) == {"a": "no_relief"}
    assert verdict(plan) is NodeReason.EXCESS_NOT_MOVABLE
    (refusal,) = plan.refusals
    assert refusal.detail.startswith("its move would save ")


def test_a_node_whose_pods_only_the_limit_by_the_hour_keeps_says_so() -> None:
    """The others may not move at all, and are more."""
    moved = tuple(RecentMove("uid-web", NOW - timedelta(minutes=30), f"uid-{n}") for n in "xy")
    deferred = {"resizing": True, "resize_deferred": True}
    seen = hot(0.95, by_pod=dict.fromkeys("cde", deferred), a=0.9, b=0.9, c=0.5, d=0.5, e=0.5)

    plan = planned(
        seen,
        policy(rule(Resource.CPU), limits=no_limits_but(workload_hourly=2)),
        State(moves=moved),
    )

    assert reasons(plan) == {
        **dict.fromkeys("ab", "limit_hourly"),
        **dict.fromkeys("cde", "resize_under_way"),
    }
    (overloaded,) = [found for found in plan.nodes if found.node == "hot"]
    assert overloaded.reason is NodeReason.EXCESS_NOT_MOVABLE
    assert overloaded.detail == "no pod can move: resize_under_way keeps 3, limit_hourly keeps 2"
    assert {r.detail for r in plan.refusals if r.reason == "resize_under_way"} == {
        "it waits for room on its node"
    }


def test_a_node_says_what_the_policy_excludes_also_beside_pods_that_may_move() -> None:
    seen = hot(0.95, by_pod={name: {"priority": 200} for name in "ab"}, a=1.0, b=1.0, c=0.1)
    protections = Protections(priority_threshold=PriorityThreshold(value=100))

    plan = planned(seen, replace(at_price(60), protections=protections))

    (overloaded,) = [found for found in plan.nodes if found.node == "hot"]
    assert overloaded.reason is NodeReason.EXCESS_NOT_MOVABLE
    assert overloaded.detail == (
        "no move of a pod saves as much overload as an eviction costs; priority_threshold keeps 2"
    )


def test_overload_below_the_price_waits() -> None:
    plan = planned(hot(0.84, a=1.0), at_price(100))
    assert reasons(plan) == {"a": "overload_passes"}
    assert verdict(plan) is NodeReason.OVERLOAD_PASSES


def test_at_price_0_everything_moves_that_helps_and_nothing_else() -> None:
    seen = hot(0.9, a=0.1, nothing=0.0)
    assert evicted(planned(seen, at_price(5))) == []
    plan = planned(seen, at_price(0))
    assert evicted(plan) == ["a"]
    assert reasons(plan) == {"nothing": "no_relief"}


def test_a_dear_pod_must_save_more() -> None:
    """A move of 2.5 points saves 16 minutes; ten of them are the price of a usual pod."""
    prefers = {"a": {"annotations": {PREFER_NO_EVICTION_ANNOTATION: "true"}}}
    assert evicted(planned(hot(0.83, a=0.1), at_price(8))) == ["a"]
    plan = planned(hot(0.83, by_pod=prefers, a=0.1), at_price(8))
    assert reasons(plan) == {"a": "no_relief"}


def test_what_a_landing_costs_is_taken_off() -> None:
    near = replace(CPU, rules=(rule(ceiling_margin_ratio=0.0),))
    seen = hot(0.85, 0.62, a=0.6)
    (eviction,) = planned(seen, replace(near, eviction_price_minutes=0.0)).evictions
    assert 1 < eviction.cost_minutes < eviction.saved_minutes
    net = eviction.saved_minutes - eviction.cost_minutes
    most = net / eviction.cost
    assert planned(seen, replace(near, eviction_price_minutes=0.99 * most)).evictions
    assert not planned(seen, replace(near, eviction_price_minutes=1.01 * most)).evictions


def test_a_smaller_pod_goes_where_the_larger_one_would_cost_more_than_it_saves() -> None:
    near = policy(rule(Resource.CPU, ceiling_margin_ratio=0.0))
    plan = planned(hot(0.84, 0.7, large=0.4, small=0.24), near)
    assert evicted(plan) == ["small"]


def test_a_pod_that_swings_against_its_node_stays_and_one_that_makes_the_peaks_goes() -> None:
    """Now both use the same; `against` is idle whenever the node is above its target."""
    wave = [0.9, 0.9, 0.7, 0.7] * 6
    with_it, against = [1.2, 1.2, 0.0, 0.0] * 6, [0.0, 0.0, 1.2, 1.2] * 6
    cores: dict[str, Any] = {"with": 0.6, "against": 0.6}
    seen = hot(0.8, **cores)
    seen = swinging(
        seen,
        {"hot": [*wave, 0.82], "cool": [0.1] * 25},
        {"with": [*with_it, 0.6], "against": [*against, 0.6]},
    )
    seen = replace(
        seen, load=replace(seen.load, nodes=load({"hot": (0.82, 0.1), "cool": (0.1, 0.1)}).nodes)
    )
    plan = planned(seen, CPU)
    assert evicted(plan)[0] == "with"


def test_a_node_that_is_above_its_target_again_and_again_is_relieved_while_it_is_below() -> None:
    wave = [0.95, 0.95, 0.7, 0.7] * 6
    seen = swinging(hot(0.7, a=0.9), {"hot": [*wave, 0.7], "cool": [0.1] * 25}, {"a": [0.9] * 25})
    plan = planned(seen, CPU)
    assert verdict(plan) is NodeReason.RECURRING_OVERLOAD
    assert evicted(plan) == ["a"]
    # Its windows include a pod that has just ended: what is left shows in the next ones.
    ended = pod("b", on="hot", phase="Succeeded")
    cluster = replace(seen.cluster, pods=(*seen.cluster.pods, ended))
    nodes = load({"hot": (0.95, 0.1), "cool": (0.1, 0.1)}, {"b": (1.4, 0.1)})
    both = {**seen.load.pods, **nodes.pods}
    full = replace(seen, cluster=cluster, load=replace(seen.load, nodes=nodes.nodes, pods=both))
    assert verdict(planned(full, CPU)) is NodeReason.DEPARTED_LOAD
    assert evicted(planned(full, CPU)) == []


def test_a_peak_that_passes_moves_nobody() -> None:
    calm = [0.55, 0.6, 0.5, 0.65] * 6
    seen = swinging(hot(0.82, a=0.9), {"hot": [*calm, 0.82], "cool": [0.1] * 25}, {"a": [0.9] * 25})
    plan = planned(seen, CPU)
    assert verdict(plan) is NodeReason.OVERLOAD_PASSES
    assert evicted(plan) == []


def test_a_node_of_small_pods_is_relieved_too() -> None:
    """90 % of 4 cores by pods of 1.5 points each."""
    small: dict[str, Any] = {f"p{i:02}": 0.06 for i in range(60)}
    assert evicted(planned(hot(0.9, **small)))
