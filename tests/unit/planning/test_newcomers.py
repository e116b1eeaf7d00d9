"""Which pods are new, what they show, and when more are due."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from desched.model.cluster import Owner
from desched.model.resources import Resource
from desched.model.state import LastCycle, Newcomers, State
from desched.planning.newcomers import due_jobs, seen_newcomers
from desched.planning.overload.pod_usage import UsageBook
from tests.builders import NOW, amounts, load, node, pod, policy, rule, snapshot

NAMES = tuple(f"n{i}" for i in range(10))
JOB: Mapping[str, Any] = {"of": None, "owner": Owner("Job", "batch-1", "uid-batch", "batch/v1")}


def seen_with(
    *uses: float, state: State | None = None, minutes: float = 10, jobs: bool = True
) -> Newcomers | None:
    """Young pods of Jobs on n0 that request a tenth of it, and use so many times that."""
    times: dict[str, Any] = dict.fromkeys(
        ("created_at", "started_at"), NOW - timedelta(minutes=minutes)
    )
    of_job: Mapping[str, Any] = {} if jobs else {"of": "web", "owner": None}
    pods = [
        pod(f"new{i}", on="n0", request=amounts(0.4, 1.6), **{**JOB, **of_job}, **times)
        for i in range(len(uses))
    ]
    of_load = load(
        dict.fromkeys(NAMES, (0.5, 0.1)),
        {f"new{i}": (0.4 * use, 0.1) for i, use in enumerate(uses)},
    )
    seen = snapshot([node(name) for name in NAMES], pods, of_load)
    return seen_newcomers(UsageBook(seen, policy(rule(Resource.CPU)), NOW), state or State())


def test_new_pods_show_what_they_use_and_how_many_come() -> None:
    found = seen_with(1.0, 2.0, 4.0)
    assert found is not None
    assert (round(found.use_of_requests, 6), found.at) == (2.0, NOW)
    assert found.requested_nodes == pytest.approx(0.3)
    assert found.requested_by_time[NOW.minute // 5 - 2] == pytest.approx(0.3)  # ten minutes ago


def test_after_an_hour_what_comes_at_each_time_is_known() -> None:
    first = seen_with(2.0, 2.0, 2.0)
    assert first is not None
    assert first.since == NOW
    for minutes, since in ((59, NOW - timedelta(minutes=59)), (60, None)):
        earlier = NOW - timedelta(minutes=minutes)
        later = seen_with(state=State(newcomers=replace(first, at=NOW, since=earlier)))
        assert later is not None
        assert later.since == since


def test_few_show_nothing_and_pods_that_are_old_or_of_other_owners_are_not_new() -> None:
    known = at_once(0.2)
    for state in (State(), State(newcomers=known)):
        assert seen_with(2.0, 2.0, state=state) == state.newcomers
        assert seen_with(2.0, 2.0, 2.0, minutes=61, state=state) == state.newcomers
    assert seen_with(2.0, 2.0, 2.0, jobs=False) is None


def test_more_pods_than_usual_are_those_of_a_new_cluster() -> None:
    found = seen_with(*[2.0] * 40)
    assert found is not None
    assert found.requested_nodes == pytest.approx(0.5)  # of the 4 nodes that they request


def test_what_was_seen_fades_and_is_forgotten() -> None:
    """Its use within 12 hours, its rate within 2."""
    state = State(newcomers=replace(at_once(0.4), at=NOW - timedelta(hours=12)))
    found = seen_with(2.0, 2.0, 2.0, state=state)
    assert found is not None
    assert found.use_of_requests == pytest.approx(4.0)
    assert found.requested_nodes == pytest.approx(0.3 + 0.4 / 2**6)
    few = seen_with(state=state)
    assert few is not None
    assert few.requested_nodes == pytest.approx(0.4 / 2**6)
    assert seen_with(state=State(newcomers=replace(at_once(0.4), at=NOW - timedelta(1)))) is None


# --- when they are due ---------------------------------------------------------------------------


def at_once(requested_nodes: float, minute: int = 0) -> Newcomers:
    """Jobs that all begin at the same minute of the hour."""
    by_time = [0.0] * 12
    by_time[minute // 5] = requested_nodes
    return Newcomers(8.0, tuple(by_time), NOW)


def due_at(minute: int, newcomers: Newcomers | None, interval_minutes: int | None = 5) -> bool:
    now = NOW.replace(minute=minute)
    last = None
    if interval_minutes is not None:
        last = LastCycle(now - timedelta(minutes=interval_minutes), "a", "evict", "nothing")
    return due_jobs(State(newcomers=newcomers, last_cycle=last), now).much


def test_jobs_are_due_when_others_came_an_hour_before() -> None:
    due = [minute for minute in range(60) if due_at(minute, at_once(0.3, minute=30))]
    assert due == list(range(20, 35))


def test_with_longer_intervals_they_are_due_sooner() -> None:
    assert not due_at(9, at_once(0.3, minute=30))
    assert due_at(9, at_once(0.3, minute=30), interval_minutes=12)
    assert all(due_at(minute, at_once(0.3), interval_minutes=30) for minute in range(60))


def test_jobs_that_come_at_any_time_are_always_due() -> None:
    evenly = replace(at_once(0.3), requested_by_time=(0.025,) * 12)
    assert all(due_at(minute, evenly) for minute in range(60))


def test_after_a_start_they_are_due_and_without_any_never() -> None:
    assert due_at(10, at_once(0.3, minute=30), interval_minutes=None)
    assert not due_at(10, None)
