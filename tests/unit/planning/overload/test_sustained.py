"""A node is relieved once it has been overloaded for long enough, by Prometheus' history."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from desched.cycle import run_cycle
from desched.cycle_report import CycleInfo
from desched.model.load import LoadHistory
from desched.model.plan import NodeReason
from desched.model.report import Mode
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.model.state import State
from desched.whatif.history import Usage
from desched.whatif.template import PodTemplate
from desched.whatif.world import Simulation
from tests.builders import (
    GIB,
    NOW,
    amounts,
    evicted,
    load,
    node,
    planned,
    pod,
    policy,
    reasons,
    rule,
    snapshot,
)

TEN_MINUTES = policy(sustained_seconds=600)
Points = list[float | None]


def hot_node(cpu: Points | None, memory: Points | None = None, **fields: Any) -> Snapshot:
    """`hot` at 85 % CPU and, where it has a history of it, 90 % memory."""
    memory_now = 0.9 if memory else 0.1
    seen = snapshot(
        [node("hot", **fields), node("cool")],
        [pod("a", on="hot"), pod("b", on="hot")],
        load({"hot": (0.85, memory_now), "cool": (0.05, 0.05)}, dict.fromkeys("ab", (0.5, 2.5))),
    )
    known = {Resource.CPU: cpu, Resource.MEMORY: memory}
    history = {r: LoadHistory(60, tuple(points)) for r, points in known.items() if points}
    return with_history(seen, history)


def with_history(seen: Snapshot, history: dict[Resource, LoadHistory]) -> Snapshot:
    kept = msgspec.structs.replace(seen.load, history={"hot": history})
    return msgspec.structs.replace(seen, load=kept)


def detail(seen: Snapshot) -> str:
    plan = planned(seen, TEN_MINUTES)
    verdict = next(v for v in plan.nodes if v.node == "hot")
    assert not plan.evictions
    assert verdict.reason is NodeReason.NOT_SUSTAINED_YET
    assert reasons(plan) == dict.fromkeys("ab", "not_sustained_yet")
    return verdict.detail


def test_a_node_that_was_hot_all_the_time_is_relieved() -> None:
    assert len(planned(hot_node([0.85] * 11), TEN_MINUTES).evictions) == 1


def test_a_fifth_of_the_points_may_be_below_the_target() -> None:
    dips: Points = [0.85, 0.7, 0.85, 0.85, 0.7, *[0.85] * 6]
    assert planned(hot_node(dips), TEN_MINUTES).evictions
    assert detail(hot_node([0.7, *dips[1:]])) == "overloaded for 7 of 10 minutes"


def test_a_node_that_has_just_become_hot_waits_and_the_plan_says_for_how_long_it_was() -> None:
    assert detail(hot_node([*[0.6] * 7, *[0.85] * 4])) == "overloaded for 4 of 10 minutes"


def test_a_load_on_its_target_is_not_above_it() -> None:
    assert detail(hot_node([0.8] * 11)) == "overloaded for 0 of 10 minutes"


def test_points_without_data_count_against_the_node() -> None:
    gaps: Points = [0.85, 0.85, None, None, None, *[0.85] * 6]
    assert (
        detail(hot_node(gaps)) == "overloaded for 7 of 10 minutes, without data for 3 of 10 minutes"
    )


def test_a_history_that_begins_later_is_too_short() -> None:
    short: Points = [None, *[0.85] * 10]
    assert (
        detail(hot_node(short))
        == "overloaded for 9 of 10 minutes, without data for 1 of 10 minutes"
    )


def test_without_any_history_nothing_is_evicted() -> None:
    assert detail(hot_node(None)) == "no history of its load is known"


def test_points_whose_window_began_before_the_node_did_are_not_its_own() -> None:
    young: dict[str, Any] = {"created_at": NOW - timedelta(minutes=13)}
    assert "without data for 2 of 10 minutes" in detail(hot_node([0.85] * 11, **young))


def test_one_resource_that_lasts_is_enough() -> None:
    seen = hot_node([*[0.5] * 10, 0.85], memory=[0.9] * 11)
    assert planned(seen, TEN_MINUTES).evictions


def test_zero_turns_it_off() -> None:
    assert planned(hot_node(None), policy(sustained_seconds=0)).evictions


def test_memory_that_is_hot_by_what_is_allocatable_is_taken_to_have_stood_as_much_higher() -> None:
    small = msgspec.structs.replace(amounts(4, 8), pods=110)
    seen = snapshot(
        [node("hot", allocatable=small), node("cool")],
        [pod("a", on="hot"), pod("b", on="hot")],
        load({"hot": (0.1, 0.45), "cool": (0.1, 0.1)}, dict.fromkeys("ab", (0.1, 3.6))),
    )
    lasting = with_history(seen, {Resource.MEMORY: LoadHistory(60, (0.45,) * 11)})
    assert planned(lasting, TEN_MINUTES).evictions
    recent = with_history(seen, {Resource.MEMORY: LoadHistory(60, (*[0.3] * 10, 0.45))})
    assert not planned(recent, TEN_MINUTES).evictions


@pytest.mark.parametrize(("age_minutes", "evictions"), [(5, 0), (20, 2)])
def test_the_number_of_pods_has_lasted_since_they_started(age_minutes: int, evictions: int) -> None:
    few = msgspec.structs.replace(amounts(4, 16), pods=10)
    since = NOW - timedelta(minutes=age_minutes)
    pods = [pod(f"p{i}", on="full", created_at=since, started_at=since) for i in range(9)]
    seen = snapshot(
        [node("full", allocatable=few), node("cool")],
        pods,
        load({"full": (0.2, 0.1), "cool": (0.1, 0.1)}, {p.name: (0.01, 0.01) for p in pods}),
    )
    by_count = policy(rule(Resource.PODS), sustained_seconds=600)
    assert len(evicted(planned(seen, by_count))) == evictions


def test_seconds_are_told_where_minutes_are_not_whole() -> None:
    plan = planned(hot_node([*[0.6] * 5, *[0.85] * 6]), policy(sustained_seconds=90))
    assert plan.nodes[1].detail == "overloaded for 49 of 90 seconds"


def test_memory_is_relieved_before_cpu() -> None:
    seen = hot_node([0.85] * 11, memory=[0.9] * 11)
    plan = planned(seen, TEN_MINUTES)
    overloaded = [p.resource for v in plan.nodes for p in v.pressures if p.overloaded]
    assert overloaded == [Resource.MEMORY, Resource.CPU]
    assert plan.evictions[0].memory_bytes == 2.5 * GIB


def test_a_dry_run_a_restart_and_the_running_service_agree_when_a_node_has_been_hot_enough() -> (
    None
):
    made = Simulation()
    for name in ("a", "b"):
        made.cluster.add_node(name)
    made.clock.advance(3600)
    busy = PodTemplate(usage=Usage(1700, 0))
    made.cluster.add_deployment("apps", "web", 2, busy, nodes=("a", "a"))
    by = policy(rule(Resource.CPU), sustained_seconds=600)
    memory = State()
    context = CycleInfo(1, Mode.DRY_RUN, "test")
    planned_at: list[int] = []
    for minute in range(20):
        report, _ = run_cycle(made.world(acting=False), by, memory, context)
        memory = report.state
        fresh, _ = run_cycle(made.world(acting=False), by, State(), context)
        assert fresh.plan == report.plan
        if report.plan.evictions:
            planned_at.append(minute)
        made.clock.advance(60)
    # The mean over five minutes is above 80 % from the fifth minute on; 9 points make 8 minutes.
    assert planned_at == list(range(13, 20))
