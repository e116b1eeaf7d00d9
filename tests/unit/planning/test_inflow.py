"""What new pods will do to the nodes is a cost of a move, and soft taints keep them off."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from desched.model.cluster import STEERING_TAINT, Effect, Owner, Pod, Taint
from desched.model.plan import NodeReason, Plan, RefusalReason
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.model.state import EvictionRecord, LastCycle, MoveResult, Newcomers, RecentMove, State
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.inflow import Inflow
from desched.planning.newcomers import Due
from desched.planning.overload.classification import classify
from desched.planning.overload.pod_usage import UsageBook
from desched.planning.placement.destination import Destination
from desched.planning.planner import before_moves
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import SteeringRules
from desched.policy.schedulers import SchedulerRules, ScoringStrategy
from tests.builders import (
    NOW,
    amounts,
    certain,
    load,
    node,
    planned,
    pod,
    policy,
    rule,
    snapshot,
    workload,
)

NAMES = tuple(f"n{i}" for i in range(10))
JOB: Mapping[str, Any] = {"of": None, "owner": Owner("Job", "batch-1", "uid-batch", "batch/v1")}


def steering(most: int = 9, mode: SteeringMode = SteeringMode.WHEN_NEEDED) -> Any:
    return policy(rule(Resource.CPU), steering=SteeringRules(mode, most))


def relieved(*names: str) -> State:
    """Nodes that lost a pod an hour ago."""
    at = NOW - timedelta(hours=1)
    return State(moves=tuple(RecentMove("uid-web", at, node=name, left_at=at) for name in names))


def cluster(
    requested: Mapping[str, float], *more: Pod, ratio: float = 0.76, **ratios: float
) -> Snapshot:
    """Ten nodes of 4 cores, of which 2 are requested, or so many; all have this load."""
    pods = [
        pod(f"on-{name}", on=name, request=amounts(requested.get(name, 2), 0.1)) for name in NAMES
    ]
    loads = dict.fromkeys(NAMES, ratio) | ratios
    return snapshot(
        [node(name) for name in NAMES],
        [*pods, *more],
        load({name: (level, 0.1) for name, level in loads.items()}),
        [workload("web", 20)],
    )


def at_any_time(requested_nodes: float) -> tuple[float, ...]:
    """What Jobs request if they come evenly over the hour."""
    return (requested_nodes / 12,) * 12


def tainted(plan: Plan) -> list[str]:
    return [taint.node for taint in plan.taints]


def test_a_relieved_node_with_few_requests_is_tainted_and_says_why() -> None:
    plan = planned(cluster({"n0": 0.4}), steering(), relieved("n0"))
    (taint,) = plan.taints
    assert taint.node == "n0"
    assert taint.why.startswith("only 5% of its CPU and memory is requested: new pods would come")
    assert taint.until_landed_of is None


def test_until_jobs_have_been_seen_only_a_relieved_node_is_tainted() -> None:
    assert tainted(planned(cluster({"n0": 0.4}), steering())) == []
    assert tainted(planned(cluster({"n0": 0.4}), steering(), relieved("n1"))) == []
    jobs = State(newcomers=Newcomers(2.0, at_any_time(0.3), NOW))
    assert tainted(planned(cluster({"n0": 0.4}), steering(), jobs)) == ["n0"]


@pytest.mark.parametrize(("minutes", "expected"), [(59, ["n0"]), (None, [])])
def test_until_jobs_have_been_seen_for_an_hour_a_relieved_node_is_tainted_at_any_time(
    minutes: int | None, expected: list[str]
) -> None:
    """Those that have come so far are not due, and would not be too many."""
    by_time = [0.0] * 12
    by_time[NOW.minute // 5 - 2] = 0.01
    since = None if minutes is None else NOW - timedelta(minutes=minutes)
    last = LastCycle(NOW - timedelta(minutes=1), "a", "evict", "nothing")
    seen = Newcomers(2.0, tuple(by_time), NOW, since)
    state = replace(relieved("n0"), newcomers=seen, last_cycle=last)
    assert tainted(planned(cluster({"n0": 0.4, "n1": 0.4}), steering(), state)) == expected


def test_a_node_with_more_requests_than_others_is_not_tainted() -> None:
    assert tainted(planned(cluster({"n0": 3}), steering(), relieved("n0"))) == []


@pytest.mark.parametrize(("ratio", "expected"), [(0.75, ["n0"]), (0.73, [])])
def test_a_node_that_bears_what_would_come_is_not_tainted(
    ratio: float, expected: list[str]
) -> None:
    """A pod of 3 points, that uses twice its request."""
    plan = planned(cluster({"n0": 0.4}, ratio=ratio), steering(), relieved("n0"))
    assert tainted(plan) == expected


def test_pods_that_end_by_themselves_do_not_fill_a_node() -> None:
    job = pod("job", on="n0", request=amounts(3, 0.1), **JOB)
    assert tainted(planned(cluster({"n0": 0.4}, job), steering(), relieved("n0"))) == ["n0"]
    done = pod("done", on="n0", request=amounts(3, 0.1), phase="Succeeded")
    assert tainted(planned(cluster({"n0": 0.4}, done), steering(), relieved("n0"))) == ["n0"]


def test_the_limit_of_the_policy_counts_too() -> None:
    requested = {f"n{i}": 0.4 + i / 10 for i in range(2)}
    assert len(tainted(planned(cluster(requested), steering(1), relieved(*requested)))) == 1
    off = steering(mode=SteeringMode.OFF)
    assert tainted(planned(cluster(requested), off, relieved(*requested))) == []


def test_where_the_scheduler_prefers_full_nodes_nothing_is_expected() -> None:
    by = replace(steering(), scheduler=SchedulerRules(strategy=ScoringStrategy.MOST_ALLOCATED))
    assert tainted(planned(cluster({"n0": 0.4}), by, relieved("n0"))) == []


def test_no_pods_are_expected_on_nodes_that_keep_them_off() -> None:
    """Else the node with few requests would not seem to be the first choice."""
    seen = cluster({"n0": 0.4, "n1": 0})
    dedicated = node("n1", taints=(Taint("dedicated", Effect.NO_SCHEDULE),))
    nodes = (seen.cluster.nodes[0], dedicated, *seen.cluster.nodes[2:])
    seen = replace(seen, cluster=replace(seen.cluster, nodes=nodes))
    few = State(newcomers=Newcomers(8.0, at_any_time(0.05), NOW))
    assert tainted(planned(seen, steering(), few)) == ["n0"]
    assert tainted(planned(cluster({"n0": 0.4, "n1": 0}, n1=0.2), steering(), few)) == []


def test_a_node_that_awaits_a_replacement_is_not_tainted() -> None:
    gone = pod("gone", on="n9").ref
    record = EvictionRecord(gone, "n9", "uid-other", NOW, certain("n0"))
    state = State((record,), moves=relieved("n0").moves)
    assert tainted(planned(cluster({"n0": 0.4}), steering(), state)) == []


def test_the_taint_stays_as_long_as_it_helps() -> None:
    ours: dict[str, Any] = {
        "taints": (STEERING_TAINT,),
        "steered_until": NOW + timedelta(minutes=10),
    }
    for requested, removed in ((0.4, []), (3, ["n0"])):
        seen = cluster({"n0": requested})
        nodes = (node("n0", **ours), *seen.cluster.nodes[1:])
        seen = replace(seen, cluster=replace(seen.cluster, nodes=nodes))
        plan = planned(seen, steering(), relieved("n0"))
        assert [removal.node for removal in plan.removed_taints] == removed


def test_no_node_is_tainted_by_a_load_that_may_be_forged() -> None:
    context = EligibilityContext.of(
        UsageBook(cluster({"n0": 0.4}), steering(), NOW), relieved("n0")
    )
    pressure = classify(context.book, context.state)
    assert [taint.node for taint in Inflow.of(context, pressure, 5).taints()] == ["n0"]
    forged = replace(pressure.known["n0"].verdict, reason=NodeReason.LOAD_NOT_SHOWN)
    known = {**pressure.known, "n0": replace(pressure.known["n0"], verdict=forged)}
    assert not list(Inflow.of(context, replace(pressure, known=known), 5).taints())


def test_moves_whose_pods_have_not_settled_relieve_a_node_too() -> None:
    record = EvictionRecord(
        pod("gone", on="n9").ref,
        "n0",
        "uid-other",
        NOW,
        certain("n9"),
        result=MoveResult.NEVER_CAME,
    )
    assert tainted(planned(cluster({"n0": 0.4}), steering(), State((record,)))) == ["n0"]


# --- what a move costs ---------------------------------------------------------------------------


JOBS = Newcomers(use_of_requests=4.0, requested_by_time=at_any_time(0.2), at=NOW)
"""They fill ten equal nodes by 2 points of requests, and add 8 points of load to each."""

HALF = pod("half", on="n0", request=amounts(0.4, 1.6))
"""It requests a tenth of a node."""


def inflow(
    *shares: float,
    room: float = 0.1,
    newcomers: Newcomers | None = JOBS,
    taints: int = 0,
    due: float = 0.0,
) -> Inflow:
    """Ten nodes of which a half is requested, or of the first ones so much."""
    of_nodes = np.array([*shares, *[0.5] * (10 - len(shares))])
    rooms = np.full(10, room)
    nodes, due_jobs = [node(name) for name in NAMES], Due(due, much=True)
    found = Inflow(nodes, of_nodes, rooms, rooms + 0.2, newcomers, due_jobs)
    return found.steered(np.ones(10, dtype=bool), taints)


def test_where_all_nodes_bear_what_comes_new_pods_add_no_overload() -> None:
    assert inflow().minutes == 0
    assert inflow(room=0.05).minutes > 0


def test_what_a_move_frees_attracts_new_pods_that_use_more_than_they_request() -> None:
    """All new pods come to the node that has lost the pod."""
    assert inflow().cost_minutes(HALF, "n1") > 60
    assert inflow(room=0.9).cost_minutes(HALF, "n1") == 0


def test_cpu_that_is_missing_counts_for_more_than_load_above_the_target() -> None:
    """New pods add 32 points of load to the one, where 10 are below the target and 30 in all."""
    few = replace(JOBS, requested_by_time=at_any_time(0.08))
    assert inflow(0.42, newcomers=few).minutes < 90
    assert inflow(0.42, room=-0.1, newcomers=few).minutes > 180


def test_as_long_as_none_have_been_seen_a_move_costs_nothing() -> None:
    assert inflow(newcomers=None).cost_minutes(HALF, "n1") == 0


def test_a_taint_on_the_node_that_was_left_lets_the_others_bear_what_comes() -> None:
    assert inflow(room=0.2).cost_minutes(HALF, "n1") > 30
    assert inflow(room=0.2, taints=5).cost_minutes(HALF, "n1") == 0


def test_a_pod_that_fills_a_node_sends_elsewhere_what_would_have_come_there() -> None:
    """The node that the pod leaves is full all the same."""
    full = inflow(0.9, room=0.085)
    assert full.minutes > 0
    assert full.cost_minutes(HALF, "n1") > 0


@pytest.mark.parametrize(("newcomers", "moves"), [(None, 1), (JOBS, 0)])
def test_a_pod_stays_if_new_pods_would_undo_what_its_move_saves(
    newcomers: Newcomers | None, moves: int
) -> None:
    """It requests 20 points of a node and uses 12; Jobs use four times what they request."""
    web = pod("web", on="n0", request=amounts(0.8, 3.2))
    others = [pod(f"on-{n}", on=n, request=amounts(2, 8)) for n in NAMES[1:]]
    own = pod("own", on="n0", request=amounts(1.2, 4.8), of=None)
    of_load = load({"n0": (0.85, 0.1), **dict.fromkeys(NAMES[1:], (0.4, 0.1))}, {"web": (0.5, 0.1)})
    seen = snapshot([node(n) for n in NAMES], [web, own, *others], of_load, [workload("web", 20)])
    plan = planned(seen, steering(mode=SteeringMode.OFF), State(newcomers=newcomers))
    assert len(plan.evictions) == moves
    if not moves:
        (refusal,) = (r for r in plan.refusals if r.pod == web.ref)
        assert refusal.reason is RefusalReason.NO_RELIEF


def test_soft_taints_for_a_replacement_cost_what_due_jobs_do_to_the_other_nodes() -> None:
    """On all nodes, taints keep nobody off."""
    assert inflow(due=0.2).steering_minutes([], NAMES[2:]) > 60
    assert inflow(due=0.2).steering_minutes([], NAMES[2:3]) == 0
    assert inflow(due=0.2).steering_minutes(NAMES[2:], NAMES[2:]) == 0
    assert inflow(due=0.2).steering_minutes([], NAMES) == 0
    assert inflow().steering_minutes([], NAMES[2:]) == 0


@pytest.mark.parametrize(("minutes_ahead", "moves"), [(7, 0), (25, 1)])
def test_a_move_that_needs_many_soft_taints_waits_until_due_jobs_have_come(
    minutes_ahead: int, moves: int
) -> None:
    """All nodes but one would be too full, and would get the taint; the Jobs would fill the one."""
    web = pod("web", on="n0", request=amounts(0.1, 0.4))
    own = pod("own", on="n0", request=amounts(3, 12), of=None)
    others = [pod(f"on-{n}", on=n, request=amounts(2, 8)) for n in NAMES[1:]]
    busy = dict.fromkeys(NAMES[1:9], (0.6, 0.1))
    of_load = load({"n0": (0.95, 0.1), **busy, "n9": (0.3, 0.1)}, {"web": (1.0, 0.1)})
    seen = snapshot([node(n) for n in NAMES], [web, own, *others], of_load, [workload("web", 20)])
    by_time = [0.0] * 12
    by_time[(NOW + timedelta(minutes=minutes_ahead)).minute // 5] = 0.3
    last = LastCycle(NOW - timedelta(minutes=5), "a", "evict", "nothing")
    state = State(newcomers=Newcomers(4.0, tuple(by_time), NOW), last_cycle=last)
    plan = planned(seen, replace(steering(), max_landing_risk=0.15), state)
    assert [len(eviction.steered) for eviction in plan.evictions] == [8] * moves
    details = [refusal.detail for refusal in plan.refusals if refusal.pod == web.ref]
    assert [detail.startswith("its move would add ") for detail in details] == [True] * (1 - moves)


def test_a_move_counts_for_what_the_next_one_costs() -> None:
    """They fill the node by 5 points: the first move frees less, and both free more."""
    webs = [pod(f"web-{i}", on="n0", request=amounts(0.2, 0.8)) for i in range(2)]
    own = pod("own", on="n0", request=amounts(1.6, 6.4), of=None)
    others = [pod(f"on-{n}", on=n, request=amounts(2, 8)) for n in NAMES[1:]]
    of_load = load(dict.fromkeys(NAMES, (0.6, 0.1)) | {"n0": (0.85, 0.1)})
    seen = snapshot([node(n) for n in NAMES], [*webs, own, *others], of_load, [workload("web", 9)])
    book = UsageBook(seen, steering(mode=SteeringMode.OFF), NOW)
    context = EligibilityContext.of(book, State(newcomers=JOBS))
    destinations = before_moves(context, classify(book, context.state)).destinations
    charge = {Resource.CPU: 100.0}
    first, alone = (destinations.destination_of(web, charge) for web in webs)
    assert isinstance(first, Destination)
    assert isinstance(alone, Destination)
    destinations.take(first, webs[0], charge)
    second = destinations.destination_of(webs[1], charge)
    assert isinstance(second, Destination)
    assert second.cost_minutes > alone.cost_minutes + 1 > 1


def test_of_nodes_outside_the_scope_nothing_is_known() -> None:
    elsewhere = pod("elsewhere", on="far", request=amounts(0.4, 1.6))
    assert inflow().cost_minutes(elsewhere, "farther") == 0


def test_few_taints_are_set_where_few_are_enough() -> None:
    assert not inflow(0.45, 0.45, room=0.9, taints=5).off.any()
    assert np.flatnonzero(inflow(0.45, 0.4, room=0.15, taints=5).off).tolist() == [1]


def test_at_most_a_twentieth_of_the_nodes_is_tainted() -> None:
    """What comes must find room."""
    many = replace(JOBS, requested_by_time=at_any_time(0.4))
    assert inflow(0.3, 0.3, room=0.2, newcomers=many, taints=9).off.sum() == 1
