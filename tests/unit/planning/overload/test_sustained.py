"""A node is relieved once it has been overloaded for long enough, by Prometheus' history."""

import math
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from desched.cycle import run_cycle
from desched.cycle_report import CycleInfo
from desched.model.load import LoadHistory
from desched.model.plan import NodeReason
from desched.model.report import Mode
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.model.state import State
from desched.policy.policy import Policy
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
Points = Sequence[float | None]


def hot_node(
    cpu: Points | None, memory: Points | None = None, *, step_seconds: int = 60, **fields: Any
) -> Snapshot:
    """`hot` at 85 % CPU and, where it has a history of it, 90 % memory."""
    memory_now = 0.9 if memory else 0.1
    seen = snapshot(
        [node("hot", **fields), node("cool")],
        [pod("a", on="hot"), pod("b", on="hot")],
        load({"hot": (0.85, memory_now), "cool": (0.05, 0.05)}, dict.fromkeys("ab", (0.5, 2.5))),
    )
    known = {Resource.CPU: cpu, Resource.MEMORY: memory}
    history = {r: LoadHistory(step_seconds, tuple(points)) for r, points in known.items() if points}
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


def test_a_tenth_of_the_time_may_be_below_the_target() -> None:
    """Between two points load is a straight line, so that a shallow dip is a short one."""
    dips: Points = [0.85, 0.85, 0.85, 0.76, 0.85, *[0.85] * 6]
    assert planned(hot_node(dips), TEN_MINUTES).evictions
    assert detail(hot_node([0.76, *dips[1:]])) == "overloaded for 9 of 10 minutes"
    deeper: Points = [0.85, 0.7, 0.85, 0.7, 0.85, *[0.85] * 6]
    assert detail(hot_node(deeper)) == "overloaded for 7 of 10 minutes"


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ([*[0.6] * 7, *[0.85] * 4], "overloaded for 3 of 10 minutes"),
        ([0.8] * 11, "overloaded for 0 of 10 minutes"),  # on its target
        (
            [0.85, 0.85, None, None, None, *[0.85] * 6],
            "overloaded for 6 of 10 minutes, without data for 4 of 10 minutes",
        ),
        ([None, *[0.85] * 10], "overloaded for 9 of 10 minutes, without data for 1 of 10 minutes"),
        (None, "no history of its load is known"),
    ],
)
def test_a_node_waits_and_the_plan_says_for_how_long_it_was_hot(
    points: Points | None, said: str
) -> None:
    assert detail(hot_node(points)) == said


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
    seen = hot_node([*[0.6] * 5, *[0.85] * 6], step_seconds=9)
    plan = planned(seen, policy(sustained_seconds=90))
    assert plan.nodes[1].detail == "overloaded for 47 of 90 seconds"


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
    # The mean over five minutes is above 80 % after 4 minutes and 42 seconds; 9 minutes later the
    # history, which is drawn as straight lines between minutes, has shown it for long enough.
    assert planned_at == list(range(14, 20))


# --- by the swing ------------------------------------------------------------------------------

BY_SWING = policy(sustained_seconds=1800, least_sustained_seconds=120)
STEPS, STEP_SECONDS = BY_SWING.history


def swinging(swing: float, above: int, level: float = 0.6) -> Points:
    """The last points are above the target; those before swing from one window to the next.

    A window of five minutes is two steps.
    """
    before = [level - (swing if i % 4 >= 2 else 0.0) for i in range(STEPS + 1 - above)]
    return [*reversed(before), *[0.85] * above]


def in_steps(points: Points, step_seconds: int = STEP_SECONDS) -> Snapshot:
    return hot_node(points, step_seconds=step_seconds)


def waiting(points: Points, by: Policy = BY_SWING) -> tuple[str, float] | None:
    """What the node waits for and for how many seconds; None if its pods may move."""
    plan = planned(in_steps(points, by.history.step_seconds), by)
    verdict = next(v for v in plan.nodes if v.node == "hot")
    if verdict.reason is not NodeReason.NOT_SUSTAINED_YET:
        return None
    assert verdict.until is not None
    assert plan.next_sustained_at == verdict.until
    return verdict.detail, (verdict.until - NOW).total_seconds()


def test_a_calm_node_is_relieved_after_the_shortest_time() -> None:
    assert waiting(swinging(0.0, above=2)) is None
    assert waiting(swinging(0.0, above=1)) == (
        (
            "overloaded for 30 of 120 seconds; this node's load swings by 0.0 points, so the "
            "overload must last until 12:01 UTC"
        ),
        78.0,
    )


def test_a_node_that_swings_waits_for_longer_and_the_plan_says_until_when() -> None:
    """Three times the swing of a calm node must last nine times as long: 18 minutes."""
    assert waiting(swinging(0.033, above=3)) == (
        (
            "overloaded for 5 of 18 minutes; this node's load swings by 3.3 points, so the "
            "overload must last until 12:10 UTC"
        ),
        642.0,
    )
    assert waiting(swinging(0.033, above=8)) is None


@pytest.mark.parametrize(
    ("points", "time"),
    [
        (0.5, "120 seconds"),
        (1.1, "120 seconds"),
        (1.5, "223 seconds"),
        (2.0, "7 minutes"),
        (2.7, "12 minutes"),
        (3.0, "15 minutes"),
        (4.3, "30 minutes"),
        (15.0, "30 minutes"),
    ],
)
def test_the_time_grows_with_the_square_of_the_swing(points: float, time: str) -> None:
    """The table of docs/operations.md."""
    found = waiting(swinging(points / 100, above=1))
    assert found is not None
    assert f" of {time}; this node's load swings by {points} points" in found[0]


@pytest.mark.parametrize("points", [[None] * 28, [None] * 24 + [0.6, None] * 2, [0.85] * 28])
def test_a_node_whose_swing_is_not_known_waits_for_twice_the_shortest_time(points: Points) -> None:
    assert waiting([*points, 0.85, 0.85, 0.85]) is None
    if points[-1] is None:
        found = waiting([*points, None, 0.85, 0.85])
        assert found == (
            (
                "overloaded for 150 of 240 seconds, without data for 90 of 240 seconds; how far "
                "this node's load swings is not known, so the overload must last until 12:01 UTC"
            ),
            90.0,
        )


@pytest.mark.parametrize(("last_step_seconds", "above"), [(0, 4), (60, 5)])
def test_the_time_since_the_last_regular_point_counts_as_it_is(
    last_step_seconds: int, above: int
) -> None:
    history = LoadHistory(60, (*[0.6] * 6, *[0.85] * 6), last_step_seconds)
    seen = with_history(hot_node(None), {Resource.CPU: history})
    assert detail(seen) == f"overloaded for {above} of 10 minutes"


def test_the_step_with_which_the_overload_begins_is_no_swing() -> None:
    assert waiting(swinging(0.0, above=2, level=0.1)) is None


def test_a_policy_that_has_one_time_keeps_exactly_that_one() -> None:
    exact = policy(sustained_seconds=1200)
    calm: Points = [*[0.6] * 4, *[0.85] * 7]
    assert waiting(calm, exact) == ("overloaded for 12 of 20 minutes", 336.0)


def test_an_end_on_another_day_has_its_date() -> None:
    late = msgspec.structs.replace(
        in_steps(swinging(0.0, above=1)), taken_at=NOW.replace(hour=23, minute=59, second=30)
    )
    (verdict,) = (v for v in planned(late, BY_SWING).nodes if v.node == "hot")
    assert verdict.detail.endswith("2026-05-02 00:00 UTC")


swings = st.floats(0.0, 0.1)


@given(swings, swings, st.integers(1, 20))
def test_more_swing_never_waits_less(one: float, other: float, above: int) -> None:
    calmer, wilder = (waiting(swinging(each, above)) for each in sorted((one, other)))
    assert not calmer or (wilder and calmer[1] <= wilder[1])


@given(
    st.lists(st.one_of(st.none(), st.floats(0.5, 1.0)), min_size=11, max_size=11),
    st.lists(st.floats(0.0, 0.2), min_size=11, max_size=11),
)
def test_a_higher_load_never_waits_longer(points: Points, more: list[float]) -> None:
    exact = policy(sustained_seconds=1200)
    higher = [None if a is None else a + b for a, b in zip(points, more, strict=True)]
    low, high = waiting(points, exact), waiting(higher, exact)
    assert not high or (low and high[1] <= low[1])


@given(st.lists(st.floats(0.5, 1.0), min_size=10, max_size=10))
def test_a_node_that_stays_overloaded_is_relieved_at_the_time_that_it_was_given(
    points: list[float],
) -> None:
    exact, seen = policy(sustained_seconds=1200), [*points, 0.85]
    if found := waiting(seen, exact):
        later = math.ceil(found[1] / 120)
        assert waiting([*seen[later:], *[0.85] * later], exact) is None
