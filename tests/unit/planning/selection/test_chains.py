"""Nodes whose pods fit nowhere, because requests fill the cluster."""

from datetime import timedelta

import msgspec
import pytest

from desched.model.chain import Chain, ChainUnderWay
from desched.model.cluster import Pod
from desched.model.plan import NodeReason, Plan
from desched.model.selectors import LabelSelector, Operator, Requirement
from desched.model.snapshot import Snapshot
from desched.model.state import MoveResult, Pause, PauseScope, RecentMove, State
from desched.planning.eligibility.annotations import PREFER_NO_EVICTION_ANNOTATION
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.eligibility import Eligibility
from desched.planning.overload.classification import classify
from desched.planning.overload.pod_usage import UsageBook
from desched.planning.placement.chains_under_way import BROKEN_RESTS
from desched.planning.planner import destinations_before
from desched.planning.selection.candidates import OverloadedNode, candidate_of
from desched.planning.selection.chains import Openings
from desched.planning.selection.limits import EvictionQuota
from desched.planning.selection.one_node import select_for_node
from desched.planning.selection.outcomes import Stuck
from desched.planning.selection.trial import Trial
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import NodePool, SteeringRules
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
    rule,
    snapshot,
    workload,
)
from tests.unit.eviction.moves import record, ref

USES = {"hot": 1.6, "small": 0.1, "large": 0.5, "wide": 0.5}
REQUESTS = {"hot": 3.0, "small": 1.5, "large": 2.0, "wide": 2.5}
BEGUN = Chain(ref("small"), ref("hot"), "te9", "te2", "te6", 100.0, 0.4)
UNTIL = NOW + timedelta(minutes=15)


def a_pod(name: str, on: str = "", **fields: object) -> Pod:
    requested = REQUESTS.get(name, 1.0)
    return pod(name, on, of=name, **({"request": amounts(requested, 0.1)} | fields))


def full_cluster(*more: Pod, without: str = "", small: Pod | None = None) -> Snapshot:
    """`te9` is hot; there is room for `hot` on `te2` once `small` has left it for `te6`."""
    pods = [
        a_pod("hot", "te9"),
        small or a_pod("small", "te2"),
        a_pod("large", "te2", request=amounts(1.0, 0.1)),
        a_pod("wide", "te6", request=amounts(2.5, 0.1)),
        *more,
    ]
    kept = [each for each in pods if each.name != without]
    loads = {"te9": (0.88, 0.1), "te2": (0.15, 0.1), "te6": (0.15, 0.1)}
    return snapshot(
        [node("te9"), node("te2"), node("te6")],
        kept,
        load(loads, {p.name: (USES.get(p.name, 0.1), 0.1) for p in kept}),
        [workload(name, 2) for name in {p.labels["app"] for p in kept}],
    )


def landed(**fields: object) -> State:
    """The first move is over: its replacement is `small-2` on `te6`."""
    first = record(
        "small", "small", node="te2", landing=certain("te6"), result=MoveResult.LANDED_AS_FORECAST
    )
    first = msgspec.structs.replace(first, replacement=ref("small-2"), landed_on="te6", **fields)
    return State(evictions=(first,), chains=(ChainUnderWay(BEGUN, UNTIL),))


def after_the_first_move(*more: Pod) -> Snapshot:
    return full_cluster(
        a_pod("small-2", "te6", request=amounts(1.5, 0.1), owner=None), *more, without="small"
    )


def with_load(
    seen: Snapshot, nodes: dict[str, float], pods: dict[str, float] | None = None
) -> Snapshot:
    """The same with this CPU load, of new nodes, too."""
    loads = load(
        {name: (ratio, 0.1) for name, ratio in nodes.items()},
        {name: (cores, 0.1) for name, cores in (pods or {}).items()},
    )
    new = [node(name) for name in nodes if name not in seen.cluster.node_by_name]
    changed = msgspec.structs.replace(
        seen.load,
        nodes={**seen.load.nodes, **loads.nodes},
        pods={**seen.load.pods, **loads.pods},
    )
    cluster = msgspec.structs.replace(seen.cluster, nodes=(*seen.cluster.nodes, *new))
    return msgspec.structs.replace(seen, cluster=cluster, load=changed)


def verdict(plan: Plan, name: str) -> tuple[object, str]:
    found = next(each for each in plan.nodes if each.node == name)
    return found.reason, found.detail


def test_a_pod_for_which_the_scheduler_only_prepares_a_node_makes_no_room_there() -> None:
    small = a_pod("small", nominated_node="te2", phase="Pending", ready=False)
    assert evicted(planned(full_cluster(small=small))) == []


def test_a_pod_of_little_use_makes_room_on_a_cool_node() -> None:
    plan = planned(full_cluster())
    (eviction,) = plan.evictions
    assert (eviction.pod, eviction.node, eviction.expected_node) == (ref("small"), "te2", "te6")
    assert eviction.chain == BEGUN
    assert eviction.reason.startswith("it makes room on te2 for apps/hot")
    assert reasons(plan) == {"hot": "room_being_made"}
    why = "apps/small makes room on te2 for apps/hot"
    assert verdict(plan, "te9") == (NodeReason.ROOM_BEING_MADE, why)


def test_no_room_is_made_for_a_node_that_is_only_levelled() -> None:
    busy = {f"busy{i}": 0.86 for i in range(12)}
    full = (a_pod(f"of-{name}", name, request=amounts(4, 0.1)) for name in busy)
    seen = full_cluster(*full)
    plan = planned(with_load(seen, {"te9": 0.93, "te2": 0.15, "te6": 0.15, **busy}))
    assert plan.evictions == ()
    assert verdict(plan, "te9")[0] is NodeReason.EXCESS_NOT_MOVABLE


def test_the_room_is_taken_once_the_first_move_has_landed() -> None:
    plan = planned(after_the_first_move(), state=landed())
    (eviction,) = plan.evictions
    assert (eviction.pod, eviction.node, eviction.expected_node) == (ref("hot"), "te9", "te2")
    assert eviction.chain == BEGUN
    assert plan.chains == landed().chains


def test_nothing_moves_while_the_first_move_is_under_way() -> None:
    state = landed(result=None)
    plan = planned(after_the_first_move(), state=state)
    assert evicted(plan) == []
    assert reasons(plan) == {"hot": "room_being_made"}
    assert plan.chains == state.chains


def test_no_other_move_of_the_plan_takes_the_room_that_it_makes() -> None:
    """The pod of `te8`, which comes later, would fit on `te2` once `small` has left it."""
    other = a_pod("other", "te8", request=amounts(2.9, 0.1))
    seen = with_load(full_cluster(other), {"te8": 0.85}, {"other": 1.6})
    assert evicted(planned(seen)) == ["small"]


def test_other_moves_leave_the_room_alone_meanwhile() -> None:
    """`te8` is hot as well; its pod would fit on `te2`, but only there."""
    other = a_pod("other", "te8", request=amounts(2.9, 0.1))
    seen = with_load(after_the_first_move(other), {"te8": 0.9}, {"other": 1.6})
    assert evicted(planned(seen, state=landed(result=None))) == []
    nothing_held = State(evictions=landed(result=None).evictions)
    assert evicted(planned(seen, state=nothing_held)) == ["other"]


def test_pending_pods_take_the_room_first() -> None:
    waiting = a_pod("waiting", request=amounts(2.8, 0.1), phase="Pending", created_at=NOW)
    plan = planned(after_the_first_move(waiting), state=landed())
    assert evicted(plan) == []
    (chain,) = plan.chains
    assert chain == ChainUnderWay(BEGUN, NOW + BROKEN_RESTS, NOW, "others took the room on te2")


def test_a_failed_first_move_breaks_the_chain() -> None:
    state = landed(result=MoveResult.BACK_ON_SOURCE)
    (chain,) = planned(full_cluster(without="small"), state=state).chains
    assert (chain.broken_at, chain.why) == (NOW, "the result of apps/small is back_on_source")


def test_a_chain_that_takes_too_long_is_broken() -> None:
    state = landed(result=None)
    state = msgspec.structs.replace(state, chains=(ChainUnderWay(BEGUN, NOW),))
    (chain,) = planned(after_the_first_move(), state=state).chains
    assert (chain.broken_at, chain.why) == (NOW, "the second move did not come in time")


def test_a_room_that_is_found_late_is_taken_then_or_never() -> None:
    late = msgspec.structs.replace(landed(), chains=(ChainUnderWay(BEGUN, NOW),))
    plan = planned(after_the_first_move(), state=late)
    assert evicted(plan) == ["hot"]
    assert plan.chains == ()


WARM = {"te2": 0.35}
"""The pod that the room is for would bring it above its ceiling."""


def test_a_node_above_its_ceiling_may_still_take_the_second_pod_later() -> None:
    warm = with_load(after_the_first_move(), WARM)
    plan = planned(warm, state=landed())
    assert evicted(plan) == []
    assert reasons(plan) == {"hot": "room_being_made"}
    assert plan.chains == landed().chains


def test_a_chain_breaks_whose_last_plan_does_not_use_its_room() -> None:
    warm = with_load(after_the_first_move(), WARM)
    late = msgspec.structs.replace(landed(), chains=(ChainUnderWay(BEGUN, NOW),))
    (chain,) = planned(warm, state=late).chains
    why = "the second move did not come in time"
    assert chain == ChainUnderWay(BEGUN, NOW + BROKEN_RESTS, NOW, why)


def beside_another_hot_node(*more: Pod) -> Snapshot:
    """The room is too warm for `hot`, but would do for `other` of `te8`."""
    other = a_pod("other", "te8", request=amounts(2.9, 0.1))
    seen = after_the_first_move(other, *more)
    return with_load(seen, {**WARM, "te8": 0.9, "te7": 0.1}, {"other": 0.8, "tiny": 0.6})


BLOCKER = a_pod("blocker", "te7", request=amounts(3.4, 0.1))
"""It leaves room for `tiny` on `te7`, and for no other pod."""


def test_room_that_is_ready_is_not_for_other_nodes() -> None:
    seen = beside_another_hot_node(BLOCKER)
    assert evicted(planned(seen, state=landed())) == []
    assert evicted(planned(seen, state=State(evictions=landed().evictions))) == ["other"]


def test_unless_the_node_that_it_is_for_needs_it_no_more() -> None:
    elsewhere = {"node_selector": (("kubernetes.io/hostname", "te7"),)}
    tiny = a_pod("tiny", "te9", request=amounts(0.5, 0.1), scheduling=elsewhere)
    seen = beside_another_hot_node(BLOCKER, tiny)
    assert evicted(planned(seen, state=landed())) == ["tiny", "other"]


def test_room_for_a_node_of_unknown_load_is_held() -> None:
    seen = beside_another_hot_node(BLOCKER)
    nodes = {name: value for name, value in seen.load.nodes.items() if name != "te9"}
    unknown = msgspec.structs.replace(seen, load=msgspec.structs.replace(seen.load, nodes=nodes))
    plan = planned(unknown, state=landed())
    assert evicted(plan) == []
    assert plan.chains == landed().chains


def test_after_a_broken_chain_no_other_one_begins_for_an_hour() -> None:
    broken = ChainUnderWay(BEGUN, NOW + timedelta(minutes=1), NOW - timedelta(minutes=59), "why")
    plan = planned(full_cluster(), state=State(chains=(broken,)))
    assert evicted(plan) == []
    assert plan.chains == (broken,)
    reason, detail = verdict(plan, "te9")
    assert reason is NodeReason.EXCESS_NOT_MOVABLE
    assert detail.endswith("no chain of two moves: one was broken at 11:01 UTC, why")
    over = msgspec.structs.replace(broken, until=NOW)
    assert evicted(planned(full_cluster(), state=State(chains=(over,)))) == ["small"]


def test_a_chain_is_over_once_any_pod_of_the_node_moves_into_the_room() -> None:
    other = record("api", "api", node="te9", landing=certain("te2"), result=None)
    state = landed()
    state = msgspec.structs.replace(state, evictions=(*state.evictions, other))
    assert planned(after_the_first_move(), state=state).chains == ()


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(State(chains=(ChainUnderWay(BEGUN, UNTIL),)), id="it did not begin"),
        pytest.param(
            State(chains=(ChainUnderWay(msgspec.structs.replace(BEGUN, source="te6"), UNTIL),)),
            id="the second pod is elsewhere",
        ),
    ],
)
def test_a_chain_without_a_meaning_is_forgotten(state: State) -> None:
    assert planned(full_cluster(), state=state).chains == ()


def test_a_single_move_wins() -> None:
    seen = full_cluster()
    cluster = msgspec.structs.replace(seen.cluster, nodes=(*seen.cluster.nodes, node("empty")))
    loads = {**seen.load.nodes, **load({"empty": (0.1, 0.1)}).nodes}
    roomy = msgspec.structs.replace(
        seen, cluster=cluster, load=msgspec.structs.replace(seen.load, nodes=loads)
    )
    assert evicted(planned(roomy)) == ["hot"]


@pytest.mark.parametrize(
    "small",
    [
        pytest.param(
            a_pod("small", "te2", annotations={PREFER_NO_EVICTION_ANNOTATION: "true"}),
            id="prefers no eviction",
        ),
        pytest.param(a_pod("small", "te2", priority=1_000_000), id="dear"),
        pytest.param(a_pod("small", "te2", owner=None), id="bare"),
        pytest.param(a_pod("small", "te2", ready=False), id="not ready"),
        pytest.param(a_pod("small", "te2", request=amounts(1.6, 0.1)), id="fits nowhere itself"),
    ],
)
def test_a_pod_that_must_not_move_or_would_not_help_makes_no_room(small: Pod) -> None:
    plan = planned(full_cluster(small=small))
    assert evicted(plan) == []
    _, detail = verdict(plan, "te9")
    assert detail.endswith(
        "no chain of two moves: no pod that may leave now could make room for one of its pods"
    )


def test_no_pod_of_a_paused_pool_makes_room() -> None:
    blue = LabelSelector((Requirement("kubernetes.io/hostname", Operator.IN, ("te2",)),))
    pools = policy(rule(), pools=(NodePool("blue", blue, (rule(),)),))
    assert evicted(planned(full_cluster(), pools)) == ["small"]
    paused = Pause(PauseScope.POOL, NOW, None, "blue", by="jane")
    assert evicted(planned(full_cluster(), pools, State(pauses=(paused,)))) == []


def test_a_pod_whose_room_is_not_enough_stays() -> None:
    crowded = full_cluster(a_pod("other", "te2", request=amounts(0.1, 0.1)))
    assert evicted(planned(crowded)) == []


def test_a_pod_that_the_plan_moves_already_makes_no_room() -> None:
    """Twice gone, `small` would leave room for `hot` beside `blocker`."""
    blocker = a_pod("blocker", "te2", owner=None, request=amounts(1.5, 0.1))
    wide = a_pod("wide-2", "te7", request=amounts(2.5, 0.1))
    seen = with_load(full_cluster(blocker, wide, without="large"), {"te7": 0.15})
    book = UsageBook(seen, policy(limits=no_limits_but()), NOW)
    context = EligibilityContext.of(book, State())
    pressure = classify(book, State())
    hot, small = (candidate_of(one, context) for one in seen.cluster.pods[:2])
    trial = Trial(destinations_before(context, pressure), None)
    assert not trial.move_all([small])
    eligibility = Eligibility(context)
    node_ = OverloadedNode(pressure.known["te9"], (hot,))
    stuck = select_for_node(node_, trial.destinations, EvictionQuota(eligibility))

    found = Openings(eligibility, pressure, ()).open_for(node_, stuck)

    assert isinstance(found.outcome, Stuck)


def test_a_pod_that_uses_much_makes_no_room() -> None:
    seen = full_cluster()
    usage = {**seen.load.pods, **load({}, {"small": (1.7, 0.1)}).pods}
    busy = msgspec.structs.replace(seen, load=msgspec.structs.replace(seen.load, pods=usage))
    assert evicted(planned(busy)) == []


def test_a_chain_obeys_limits_and_may_be_turned_off() -> None:
    assert evicted(planned(full_cluster(), policy(limits=no_limits_but(total=0)))) == []
    assert evicted(planned(full_cluster(), policy(chains=False))) == []
    state = landed()
    assert planned(after_the_first_move(), policy(chains=False), state).chains == ()


@pytest.mark.parametrize(
    ("mode", "lacking"),
    [
        (SteeringMode.OFF, "none is sought where steering is Off, unless chainedMoves is true"),
        (SteeringMode.WHEN_NEEDED, "chainedMoves is false"),
    ],
)
def test_a_node_says_why_no_chain_is_sought(mode: SteeringMode, lacking: str) -> None:
    without = policy(chains=False, steering=SteeringRules(mode))
    _, detail = verdict(planned(full_cluster(), without), "te9")
    found = f"the best moves clear 0% of its excess; no chain of two moves: {lacking}"
    assert detail == found


def of_stranger(seen: Snapshot, name: str = "small") -> Snapshot:
    """The same with the workload of this name, and its pod, in another namespace."""
    cluster, used = seen.cluster, dict(seen.load.pods)
    used["shop", name] = used.pop(("apps", name))
    pods = tuple(
        msgspec.structs.replace(p, namespace="shop") if p.name == name else p for p in cluster.pods
    )
    owners = dict(cluster.workloads)
    owners["shop", f"uid-{name}"] = workload(name, 2, "shop")
    declared = {**cluster.declared_owners, ("shop", f"uid-{name}"): {}}
    return msgspec.structs.replace(
        seen,
        cluster=msgspec.structs.replace(
            cluster, pods=pods, workloads=owners, declared_owners=declared
        ),
        load=msgspec.structs.replace(seen.load, pods=used),
    )


def moved(minutes: int) -> State:
    at = NOW - timedelta(minutes=minutes)
    return State(moves=(RecentMove("uid-small", at, "uid-old", "Deployment shop/small"),))


def test_a_workload_of_another_namespace_makes_room_once_an_hour_at_most() -> None:
    seen = of_stranger(full_cluster())
    assert evicted(planned(seen)) == ["small"]
    assert evicted(planned(seen, state=moved(59))) == []
    assert evicted(planned(seen, state=moved(61))) == ["small"]
    assert evicted(planned(full_cluster(), state=moved(59))) == ["small"]


def test_the_reason_names_the_pod_and_the_node_for_which_a_stranger_leaves() -> None:
    (eviction,) = planned(of_stranger(full_cluster())).evictions
    assert "apps/hot" in eviction.reason
    assert "te9" in eviction.reason


def test_the_limit_of_a_namespace_counts_for_the_pod_that_makes_room() -> None:
    limits = no_limits_but(namespace=0)
    assert evicted(planned(of_stranger(full_cluster()), policy(limits=limits))) == []
