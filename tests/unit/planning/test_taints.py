"""The nodes that get a soft taint, keep it and lose it."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from desched.model.cluster import STEERING_TAINT, Effect, Node, Taint, Toleration
from desched.model.landing import LandingChance
from desched.model.plan import NodeClass, Plan, PlannedTaint, Unsteered
from desched.model.snapshot import Snapshot
from desched.model.state import EvictionRecord, MoveResult, State
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.overload.classification import classify
from desched.planning.overload.pod_usage import UsageBook
from desched.planning.planner import plan_moves
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import Policy, SteeringRules
from desched.policy.share import Share
from tests.builders import (
    NOW,
    amounts,
    certain,
    evicted,
    load,
    no_limits_but,
    node,
    planned,
    pod,
    policy,
    reasons,
    selector,
    snapshot,
    workload,
)

HOT = ("hot1", "hot2", "hot3")
COLD = ("cold1", "cold2", "cold3")
LATER = NOW + timedelta(minutes=10)
OURS: dict[str, Any] = {"taints": (STEERING_TAINT,), "steered_until": LATER}
EXPIRED: dict[str, Any] = OURS | {"steered_until": NOW}
THEIRS: dict[str, Any] = {"taints": (STEERING_TAINT,)}


def trap(
    loads: Mapping[str, float] | None = None,
    tolerations: tuple[Toleration, ...] = (),
    **fields: Mapping[str, Any],
) -> Snapshot:
    """Pods on hot nodes request little: the scheduler prefers these to the full, idle nodes.

    `fields` are those of nodes, by name.
    """
    pods = [
        pod(f"web-{name}", on=name, scheduling={"tolerations": tolerations}) for name in HOT
    ] + [pod(f"fill-{name}", on=name, of="fill", request=amounts(3, 12)) for name in COLD]
    usage = {f"web-{name}": (0.6, 0.1) for name in HOT} | {
        f"fill-{name}": (0.1, 0.1) for name in COLD
    }
    cpu = dict.fromkeys(HOT, 0.85) | dict.fromkeys(COLD, 0.05) | dict(loads or {})
    return snapshot(
        [node(name, **fields.get(name, {})) for name in (*HOT, *COLD)],
        pods,
        load({name: (ratio, 0.1) for name, ratio in cpu.items()}, usage),
        [workload("web", 20), workload("fill", 20)],
    )


def steering(
    mode: SteeringMode = SteeringMode.WHEN_NEEDED, most: int | Share = 3, **fields: Any
) -> Policy:
    return policy(
        max_landing_risk=fields.pop("risk", 0.15), steering=SteeringRules(mode, most), **fields
    )


OFF = steering(SteeringMode.OFF)
ONE = no_limits_but(total=1)


def under_way(*steered: str, **fields: Any) -> EvictionRecord:
    defaults = {"workload_uid": "uid-web", "landing": certain("cold1"), "steered": steered}
    gone = pod("web-gone", on="hot1").ref
    return EvictionRecord(gone, "hot1", evicted_at=NOW, **(defaults | fields))


def nodes_of(plan: Plan) -> set[str]:
    return {taint.node for taint in plan.taints}


# --- for a move -------------------------------------------------------------------------------


def test_without_steering_pods_that_the_scheduler_would_put_onto_hot_nodes_stay() -> None:
    plan = planned(trap(), OFF)
    assert set(reasons(plan).values()) == {"landing_risk"}
    assert plan.taints == ()


def unpermitted(seen: Snapshot, by: Policy, state: State | None = None) -> Plan:
    """The plan of a desched that may not patch nodes."""
    context = EligibilityContext.of(UsageBook(seen, by, seen.taken_at), state or State())
    return plan_moves(context, classify(context.book, context.state), may_steer=False)


def test_without_the_right_the_plan_is_that_of_off_and_counts_what_taints_would_let_move() -> None:
    plan = unpermitted(trap(), steering())
    assert msgspec.structs.replace(plan, unsteered=None) == planned(trap(), OFF)
    moves = planned(trap(), steering()).evictions
    nodes = {eviction.node for eviction in moves}
    assert plan.unsteered == Unsteered(len(moves), len(nodes))
    assert len(nodes) > 1


def test_pods_that_move_without_taints_as_well_cost_nothing() -> None:
    everything = (Toleration(operator="Exists"),)
    assert unpermitted(trap(tolerations=everything), steering()).unsteered is None
    assert unpermitted(trap(), steering(risk=1.0)).unsteered is None
    assert unpermitted(trap(), OFF).unsteered is None
    cool = dict.fromkeys(HOT, 0.5)
    assert unpermitted(trap(cool), steering()).unsteered is None


def test_with_the_right_nothing_is_counted() -> None:
    assert planned(trap(), steering()).unsteered is None


def test_without_the_right_own_taints_count_as_gone_and_are_to_be_removed() -> None:
    plan = unpermitted(trap(hot1=OURS), steering())
    assert [removal.node for removal in plan.removed_taints] == ["hot1"]
    assert plan.taints == ()


def test_all_nodes_on_which_the_landing_would_do_harm_are_tainted_and_no_others() -> None:
    plan = planned(trap(), steering(limits=ONE))
    (eviction,) = plan.evictions
    assert eviction.steered == HOT
    assert eviction.landing_risk == 0.0
    assert {chance.node for chance in eviction.landing} == set(COLD)
    assert [(t.node, t.until_landed_of) for t in plan.taints] == [(n, eviction.pod) for n in HOT]
    assert all("must not receive" in taint.why for taint in plan.taints)


def test_later_moves_share_the_taints_of_the_earlier_ones() -> None:
    plan = planned(trap(), steering())
    assert sorted(evicted(plan)) == [f"web-{name}" for name in HOT]
    assert all(eviction.steered == HOT for eviction in plan.evictions)
    assert nodes_of(plan) == set(HOT)


def test_a_pod_that_lands_well_anyway_needs_no_taint() -> None:
    plan = planned(trap(), steering(risk=1.0))
    assert len(plan.evictions) == 3
    assert plan.taints == ()


@pytest.mark.parametrize("preferred", range(1, 7))
def test_hot_nodes_that_the_scheduler_likes_less_than_cool_ones_are_not_tainted(
    preferred: int,
) -> None:
    overloaded = [f"hot{i}" for i in range(6)]
    pods = [pod(f"web-{name}", on=name) for name in overloaded]
    pods += [
        pod(f"full-{name}", on=name, of=None, request=amounts(3, 15))
        for name in overloaded[preferred:]
    ]
    pods += [pod(f"fill-{name}", on=name, of=None, request=amounts(2, 12)) for name in COLD]
    loads = dict.fromkeys(overloaded, (0.85, 0.1)) | dict.fromkeys(COLD, (0.05, 0.1))
    nodes = [node(name) for name in (*overloaded, *COLD)]
    usage = {f"web-{name}": (0.6, 0.1) for name in overloaded}
    plan = planned(snapshot(nodes, pods, load(loads, usage)), steering(most=6, limits=ONE))
    assert plan.evictions[0].steered == tuple(overloaded[:preferred])


def test_only_so_many_nodes_as_allowed_are_tainted() -> None:
    plan = planned(trap(), steering(most=2))
    assert set(reasons(plan).values()) == {"landing_risk"}
    assert "soft taints on at most 2 nodes cannot prevent this" in plan.refusals[0].detail
    assert planned(trap(), steering(most=Share(0.5))).evictions
    assert not planned(trap(), steering(most=Share(0.49))).evictions
    assert not planned(trap(), steering(most=0)).evictions


def test_taints_that_are_there_already_count_towards_the_most() -> None:
    assert planned(trap(hot1=OURS, hot2=OURS), steering(most=3)).evictions
    # Of two that nobody needs one goes in this cycle.
    assert not planned(trap(cold1=OURS, cold2=OURS), steering(most=3)).evictions
    assert planned(trap(cold1=OURS, cold2=OURS), steering(most=4)).evictions


def test_taints_of_other_installations_do_not_count_towards_the_most() -> None:
    here: dict[str, Any] = {name: {"labels": {"pool": "web"}} for name in (*HOT, *COLD)}
    seen = trap(**here)
    theirs = [node(f"other{i}", **OURS) for i in range(3)]
    cluster = msgspec.structs.replace(seen.cluster, nodes=(*seen.cluster.nodes, *theirs))
    beside = msgspec.structs.replace(seen, cluster=cluster)
    for most, moves in ((3, True), (2, False)):
        by = steering(most=most, node_selector=selector(pool="web"))
        assert bool(planned(beside, by).evictions) == moves


def test_a_plan_does_not_count_on_a_taint_that_goes_before_it_is_acted_on() -> None:
    one = steering(limits=ONE)
    seen = trap(cold1=OURS)
    (eviction,) = planned(seen, one).evictions
    assert removed(seen, one) == ["cold1"]
    assert {chance.node for chance in eviction.landing} == set(COLD)


def test_a_policy_that_lets_nothing_move_keeps_no_taint_for_a_move() -> None:
    (eviction,) = planned(trap(), steering(limits=ONE)).evictions
    (node_name,) = set(eviction.steered) & set(HOT[:1])
    tainted: dict[str, Any] = {node_name: OURS}
    seen = trap(**tainted)
    assert removed(seen, steering(limits=ONE)) == []
    assert removed(seen, steering(limits=no_limits_but(total=0))) == [node_name]


def test_a_pod_that_tolerates_the_taint_is_not_steered() -> None:
    everything = (Toleration(operator="Exists"),)
    assert not planned(trap(tolerations=everything), steering()).evictions
    other_effect = (Toleration(operator="Exists", effect=Effect.NO_SCHEDULE),)
    assert planned(trap(tolerations=other_effect), steering()).evictions


def test_a_node_out_of_the_policys_sight_is_not_tainted() -> None:
    labelled: dict[str, Any] = {name: {"labels": {"pool": "web"}} for name in (*HOT[:2], *COLD)}
    narrow = steering(node_selector=selector(pool="web"))
    plan = planned(trap(**labelled), narrow)
    assert plan.evictions == ()
    assert plan.taints == ()


def test_a_taint_that_stands_is_renewed_by_the_move_that_needs_it() -> None:
    everywhere: dict[str, Any] = dict.fromkeys(HOT, OURS)
    plan = planned(trap(**everywhere), steering(limits=ONE))
    assert plan.evictions[0].steered == HOT
    assert nodes_of(plan) == set(HOT)


def test_a_taint_whose_time_is_over_counts_as_gone_and_is_set_anew() -> None:
    plan = planned(trap(hot1=EXPIRED, cold1=EXPIRED), steering(limits=ONE))
    assert plan.evictions[0].steered == HOT
    assert {chance.node for chance in plan.evictions[0].landing} == set(COLD)


def test_the_same_taint_of_somebody_else_works_and_is_left_to_them() -> None:
    everywhere: dict[str, Any] = dict.fromkeys(HOT, THEIRS)
    plan = planned(trap(**everywhere), steering())
    assert len(plan.evictions) == 3
    assert plan.taints == ()
    assert removed(trap(**everywhere), OFF) == []


@pytest.mark.parametrize("mode", [SteeringMode.WHEN_NEEDED, SteeringMode.ALWAYS])
def test_where_all_nodes_have_it_from_somebody_else_nothing_can_be_steered(
    mode: SteeringMode,
) -> None:
    everywhere: dict[str, Any] = dict.fromkeys((*HOT, *COLD), THEIRS)
    plan = planned(trap(**everywhere), steering(mode, 6))
    assert set(reasons(plan).values()) == {"landing_risk"}
    assert plan.taints == ()


def test_a_node_on_which_a_replacement_under_way_is_expected_is_not_tainted() -> None:
    chances = (LandingChance("hot2", 0.1),)
    awaited = State((under_way(landing=chances, workload_uid="uid-other"),))
    assert planned(trap(), steering(), awaited).evictions == ()
    landed = State((under_way(landing=chances, workload_uid="uid-other", landed_on="cold1"),))
    assert planned(trap(), steering(), landed).evictions


# --- whatever moves -----------------------------------------------------------------------------


def test_the_taints_of_a_move_under_way_are_kept_until_it_has_settled() -> None:
    cool = dict.fromkeys(HOT, 0.3)
    state = State((under_way("hot1", "gone"),))
    plan = planned(trap(cool, hot1=OURS), steering(), state)
    assert plan.taints == (
        PlannedTaint(
            "hot1", "the replacement of apps/web-gone is under way", state.evictions[0].pod
        ),
    )
    settled = State((under_way("hot1", result=MoveResult.LANDED_ELSEWHERE),))
    assert planned(trap(cool, hot1=OURS), steering(), settled).taints == ()


def test_always_taints_overloaded_nodes_hottest_first() -> None:
    loads = {"hot1": 0.85, "hot2": 0.95, "hot3": 0.9}
    always = steering(SteeringMode.ALWAYS, 2, limits=no_limits_but(total=0))
    plan = planned(trap(loads), always)
    assert [taint.node for taint in plan.taints] == ["hot2", "hot3"]
    assert plan.taints[0].until_landed_of is None
    assert "cpu 95.0%" in plan.taints[0].why
    assert planned(trap(loads), steering(limits=no_limits_but(total=0))).taints == ()


def test_always_keeps_a_taint_until_the_node_is_below_its_stop_line_and_no_trap() -> None:
    always = steering(SteeringMode.ALWAYS)
    between, below = dict.fromkeys(HOT, 0.78), dict.fromkeys(HOT, 0.35)
    assert nodes_of(planned(trap(between, hot1=OURS), always)) == {"hot1"}
    assert nodes_of(planned(trap(below, hot1=OURS), always)) == set()


def test_always_taints_what_a_move_needs_besides() -> None:
    # The third hot node is just below its target, and would be above it with the pod.
    plan = planned(trap({"hot3": 0.79}), steering(SteeringMode.ALWAYS, limits=ONE))
    assert {t.node for t in plan.taints if t.until_landed_of is None} == {"hot1", "hot2"}
    assert plan.evictions[0].steered == HOT


def test_a_cycle_that_is_held_taints_nothing() -> None:
    everything_hot = dict.fromkeys(COLD, 0.9)
    plan = planned(trap(everything_hot), steering(SteeringMode.ALWAYS))
    assert plan.hold is not None
    assert plan.taints == ()


# --- and when it goes -----------------------------------------------------------------------------


def removed(seen: Snapshot, by: Policy, state: State | None = None) -> list[str]:
    state = state or State()
    plan = planned(seen, by, state)
    return [removal.node for removal in plan.removed_taints if removal.why]


def test_switched_off_all_go_at_once() -> None:
    everywhere: dict[str, Any] = dict.fromkeys((*HOT, *COLD), OURS)
    assert removed(trap(**everywhere), OFF, State((under_way("hot1"),))) == sorted(everywhere)


def test_what_has_expired_goes_at_once_and_of_the_others_one_in_ten_at_least_one() -> None:
    quiet = dict.fromkeys(HOT, 0.5)
    some = trap(quiet, hot1=EXPIRED, hot2=EXPIRED, cold1=OURS, cold2=OURS)
    assert removed(some, steering()) == ["hot1", "hot2", "cold1"]
    many = [node(f"n{i:02}", **OURS) for i in range(25)]
    seen = snapshot(many, [], load({n.name: (0.5, 0.1) for n in many}))
    assert len(removed(seen, steering(most=25))) == 2


@pytest.mark.parametrize("by", [OFF, steering()])
def test_on_a_node_that_is_not_looked_at_a_taint_stays_for_its_time(by: Policy) -> None:
    here = msgspec.structs.replace(by, node_selector=selector(pool="here"))
    nodes = [node("ours", labels={"pool": "here"}, **OURS), node("of-others", **OURS)]
    seen = snapshot(nodes, [], load({n.name: (0.5, 0.1) for n in nodes}))
    assert removed(seen, here) == ["ours"]
    late = snapshot([node("of-others", **EXPIRED)], [], load({"of-others": (0.5, 0.1)}))
    assert removed(late, here) == ["of-others"]


def test_the_oldest_taint_goes_first() -> None:
    quiet = dict.fromkeys(HOT, 0.3)
    sooner = OURS | {"steered_until": NOW + timedelta(minutes=1)}
    assert removed(trap(quiet, hot1=OURS, hot2=sooner), steering()) == ["hot2"]


def test_a_taint_stays_while_a_move_needs_it_and_goes_when_that_has_settled() -> None:
    quiet = dict.fromkeys(HOT, 0.3)
    assert removed(trap(quiet, hot1=OURS), steering(), State((under_way("hot1"),))) == []
    settled = under_way("hot1", result=MoveResult.STILL_PENDING)
    assert removed(trap(quiet, hot1=OURS), steering(), State((settled,))) == ["hot1"]


def test_a_taint_that_this_plan_needs_stays_even_if_it_has_expired() -> None:
    everywhere: dict[str, Any] = dict.fromkeys(HOT, EXPIRED)
    assert removed(trap(**everywhere), steering()) == []


@pytest.mark.parametrize(("ratio", "gone"), [(0.85, []), (0.78, []), (0.35, ["hot1"])])
def test_always_removes_it_below_the_stop_line_if_it_is_no_trap(
    ratio: float, gone: list[str]
) -> None:
    seen = trap({"hot1": ratio, "hot2": 0.3, "hot3": 0.3}, hot1=OURS)
    assert removed(seen, steering(SteeringMode.ALWAYS)) == gone


def test_always_leaves_a_node_of_unknown_load_until_its_time_is_over() -> None:
    seen = trap(dict.fromkeys(HOT, 0.5), hot1=OURS)
    nodes = dict(seen.load.nodes)
    del nodes["hot1"]
    blind = msgspec.structs.replace(seen, load=msgspec.structs.replace(seen.load, nodes=nodes))
    always = steering(SteeringMode.ALWAYS)
    assert planned(blind, always).nodes[3].node_class is NodeClass.UNKNOWN
    assert removed(blind, always) == []


def test_a_mark_without_the_taint_is_cleared() -> None:
    seen = trap(dict.fromkeys(HOT, 0.5), hot1={"steered_until": LATER})
    assert removed(seen, steering()) == ["hot1"]


def test_a_node_says_by_whom_it_is_avoided() -> None:
    plain: Node = node("n")
    assert not plain.avoided
    assert node("n", **THEIRS).avoided
    hard = Taint(STEERING_TAINT.key, Effect.NO_SCHEDULE)
    assert not node("n", taints=(hard,)).avoided
