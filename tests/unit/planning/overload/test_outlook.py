"""The past that a node would have had with the pods that are on it now."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from desched.model.cluster import Node, Owner, Pod, PodRef
from desched.model.load import ClusterLoad, LoadHistory, PodPast
from desched.model.resources import Resource
from desched.model.state import EvictionRecord, RecentMove, State
from desched.planning.overload.classification import Pressure, classify
from desched.planning.overload.forecast import running_share
from desched.planning.overload.node_load import Basis
from desched.planning.overload.outlook import Outlook, Pasts
from desched.planning.overload.pod_usage import UsageBook
from tests.builders import GIB, NOW, amounts, certain, load, node, pod, policy, rule, snapshot

STEP_SECONDS = 300
POINTS = 5
"""Of the past, with now: 20, 15, 10 and 5 minutes ago, and now. A window is 5 minutes."""

CPU = policy(rule(Resource.CPU))
JOB: dict[str, Any] = {"owner": Owner("Job", "batch-1", "uid-batch", "batch/v1"), "of": None}
Points = Sequence[float | None]


def history(points: Points) -> LoadHistory:
    return LoadHistory(STEP_SECONDS, tuple(points))


def pressure(
    points: Points | None,
    *pods: Pod,
    usage: Mapping[str, float] = {},
    pasts: Mapping[str, Points] = {},
    state: State | None = None,
    nodes: Sequence[Node] = (),
) -> Pressure:
    """A node `n` of 4 cores with this past, and pods with their use and past, in cores."""
    present = (points or [0.5])[-1]
    assert present is not None
    of_load: ClusterLoad = load(
        {"n": (present, 0.1)}, {name: (cores, 0.1) for name, cores in usage.items()}
    )
    found = {
        ("apps", name): PodPast(
            tuple(None if cores is None else cores * 1000 for cores in each),
            (0.1 * GIB,) * len(each),
            "n",
        )
        for name, each in pasts.items()
    }
    known = {} if points is None else {"n": {Resource.CPU: history(points)}}
    of_load = replace(of_load, history=known, pod_pasts=found)
    seen = snapshot(nodes or [node("n")], pods, of_load)
    book = UsageBook(seen, CPU, NOW)
    return classify(book, state or State())


def cpu(found: Pressure) -> list[float]:
    """The CPU of `n` with the pods of now."""
    column = found.outlook.past_of("n")[:, found.outlook.pasts.resources.index(Resource.CPU)]
    return [round(value, 4) for value in column.tolist()]


def gone(name: str, minutes_ago: float, cores: float, **fields: Any) -> EvictionRecord:
    """An eviction from `n` whose pod left so long ago."""
    left = NOW - timedelta(minutes=minutes_ago)
    record = EvictionRecord(
        PodRef("apps", name, f"uid-{name}"),
        "n",
        "uid-web",
        left,
        certain("m"),
        cpu_millicores=cores * 1000,
        left_at=left,
    )
    return replace(record, **fields)


def young(name: str, minutes: float, **fields: Any) -> Pod:
    born = NOW - timedelta(minutes=minutes)
    return pod(name, on="n", created_at=born, started_at=born, **fields)


# --- nodes --------------------------------------------------------------------------------------


def test_the_past_is_what_was_measured() -> None:
    assert cpu(pressure([0.5, 0.9, 0.7, 0.6, 0.55])) == [0.5, 0.9, 0.7, 0.6, 0.55]


def test_without_a_history_a_node_has_only_its_present_point() -> None:
    assert cpu(pressure(None)) == [0.5]


def test_an_unknown_point_is_unknown() -> None:
    found = pressure([None, 0.9, None, 0.6, 0.6]).outlook.past_of("n")
    assert np.isnan(found[:, 0]).tolist() == [True, False, True, False, False]


@pytest.mark.parametrize(("minutes", "known"), [(9, 0), (11, 1), (16, 2), (1000, 4)])
def test_what_a_node_did_in_its_first_five_minutes_is_unknown(minutes: float, known: int) -> None:
    born = NOW - timedelta(minutes=minutes)
    found = pressure([0.1] * POINTS, nodes=[node("n", created_at=born)])
    assert np.isfinite(found.outlook.past_of("n")[:-1, 0]).sum() == known


def test_a_history_of_another_length_counts_as_none() -> None:
    """A past is compared point by point, so a node without all of them stands still."""
    by = policy(rule(Resource.CPU), rule(Resource.MEMORY))
    of_load = load({"n": (0.5, 0.4)})
    both = {Resource.CPU: history([0.6] * POINTS), Resource.MEMORY: history([0.9] * 2)}
    seen = snapshot([node("n")], [], replace(of_load, history={"n": both}))
    outlook = classify(UsageBook(seen, by, NOW), State()).outlook
    memory = outlook.past_of("n")[:, outlook.pasts.resources.index(Resource.MEMORY)]
    assert memory.tolist() == pytest.approx([0.4] * POINTS)


@pytest.mark.parametrize("pasts", [{}, {"gone": [1.0] * POINTS}])
def test_a_pod_that_was_moved_away_leaves_the_past(pasts: Mapping[str, Points]) -> None:
    """It left 10 minutes ago, when it used a core: the points since do not have it."""
    state = State((gone("gone", 10, 1.0),))
    found = pressure([0.9, 0.9, 0.9, 0.65, 0.65], state=state, pasts=pasts)
    assert cpu(found) == [0.65, 0.65, 0.65, 0.65, 0.65]


def test_it_leaves_with_what_it_used_at_each_time() -> None:
    state = State((gone("gone", 10, 1.0),))
    pasts = {"gone": [2.0, 1.0, 0.4, None, None]}
    found = pressure([0.9, 0.9, 0.9, 0.65, 0.65], state=state, pasts=pasts)
    assert cpu(found) == [0.4, 0.65, 0.8, 0.65, 0.65]


def test_a_window_that_has_seen_a_part_of_it_loses_a_part() -> None:
    """It left 7.5 minutes ago: the point of 5 minutes ago has half of it."""
    state = State((gone("gone", 7.5, 1.0),))
    assert cpu(pressure([0.9, 0.9, 0.9, 0.775, 0.65], state=state)) == [0.65] * POINTS


def test_settled_moves_leave_the_past_too_and_none_leaves_twice() -> None:
    record = gone("gone", 10, 1.0)
    move = RecentMove(
        "uid-web",
        NOW - timedelta(minutes=10),
        pod=record.pod,
        node="n",
        left_at=NOW - timedelta(minutes=10),
        cpu_millicores=1000,
    )
    points = [0.9, 0.9, 0.9, 0.65, 0.65]
    assert cpu(pressure(points, state=State(moves=(move,)))) == [0.65] * POINTS
    assert cpu(pressure(points, state=State((record,), moves=(move,)))) == [0.65] * POINTS
    elsewhere = replace(move, node="m")
    assert cpu(pressure(points, state=State(moves=(elsewhere,)))) == points


ENDED = {"web-5d9f-x2x": [1.0, 1.0, 1.0, None, None]}
"""A pod that was there until ten minutes ago, by its name of a Deployment `web`."""


@pytest.mark.parametrize("name", ["web-5d9f-x2x", "web-0"])
def test_pods_that_left_without_desched_are_not_part_of_the_past_while_others_of_theirs_run(
    name: str,
) -> None:
    """A rollout has replaced them: they would count twice."""
    pasts = {name: ENDED["web-5d9f-x2x"]}
    points = [0.65] * POINTS
    found = pressure(points, young("new", 10), usage={"new": 1.0}, pasts=pasts)
    assert cpu(found) == points


@pytest.mark.parametrize("name", ["batch-17-x2x", "webs-5d9f-x2x", "web"])
def test_what_is_not_known_to_run_elsewhere_may_come_again(name: str) -> None:
    """It may be the pod of a Job."""
    points = [0.9, 0.9, 0.9, 0.65, 0.65]
    assert cpu(pressure(points, pasts={name: ENDED["web-5d9f-x2x"]})) == points


def test_a_finished_pod_leaves_the_past_unless_it_is_that_of_a_job() -> None:
    points, pasts = [0.9, 0.9, 0.9, 0.65, 0.65], {"old": ENDED["web-5d9f-x2x"]}
    evicted = pod("old", on="n", of=None, phase="Failed")
    assert cpu(pressure(points, evicted, pasts=pasts)) == [0.65] * POINTS
    assert cpu(pressure(points, pod("old", on="n", phase="Failed", **JOB), pasts=pasts)) == points


def test_a_pod_that_is_still_there_stays_in_the_past() -> None:
    here = pod("web-5d9f-x2x", on="n")
    points, pasts = [0.9] * POINTS, {here.name: [1.0] * POINTS}
    assert cpu(pressure(points, here, usage={here.name: 1.0}, pasts=pasts)) == points


def test_a_pod_that_desched_moved_leaves_the_past_once() -> None:
    state = State((gone("web-5d9f-x2x", 10, 1.0),))
    points = [0.9, 0.9, 0.9, 0.65, 0.65]
    assert cpu(pressure(points, state=state, pasts=ENDED)) == [0.65] * POINTS


def test_a_past_of_another_node_takes_nothing_away() -> None:
    points = [0.9, 0.9, 0.9, 0.65, 0.65]
    of_load = load({"n": (0.65, 0.1)}, {})
    past = PodPast((1000.0,) * 3 + (None,) * 2, node="m")
    known = {"n": {Resource.CPU: history(points)}}
    of_load = replace(of_load, history=known, pod_pasts={("apps", "web-5d9f-x2x"): past})
    seen = snapshot([node("n")], [], of_load)
    assert cpu(classify(UsageBook(seen, CPU, NOW), State())) == points


def test_pods_that_are_leaving_leave_the_past() -> None:
    leaving = pod("old", on="n", deleting=True)
    pasts = {"old": [1.0] * POINTS}
    found = pressure([0.9] * POINTS, leaving, usage={"old": 1.0}, pasts=pasts)
    assert cpu(found) == [0.65] * POINTS


def test_a_deleted_pod_that_is_overdue_stays_in_the_past() -> None:
    stuck = pod("old", on="n", deleting=True, leaves_at=NOW - timedelta(days=3))
    pasts = {"old": [1.0] * POINTS}
    found = pressure([0.9] * POINTS, stuck, usage={"old": 1.0}, pasts=pasts)
    assert cpu(found) == [0.9] * POINTS


def test_an_evicted_pod_that_is_still_there_leaves_once() -> None:
    leaving = pod("old", on="n", deleting=True)
    state = State((gone("old", 0, 1.0, left_at=None),))
    pasts = {"old": [1.0] * POINTS}
    found = pressure([0.9] * POINTS, leaving, usage={"old": 1.0}, pasts=pasts, state=state)
    assert cpu(found) == [0.65] * POINTS


def test_an_arrived_replacement_brings_the_past_of_the_pod_that_it_replaced() -> None:
    new = young("new", 10)
    record = gone("before", 11, 1.0, node="m", replacement=new.ref, landed_on="n")
    move = RecentMove("uid-web", NOW, new.uid, pod=record.pod, node="m")
    pasts = {"before": [2.0, 1.0, None, None, None], "new": [None, None, None, 1.0, 1.0]}
    for state in (State((record,)), State(moves=(move,))):
        found = pressure(
            [0.4, 0.4, 0.4, 0.65, 0.65], new, usage={"new": 1.0}, pasts=pasts, state=state
        )
        assert cpu(found) == [0.9, 0.65, 0.65, 0.65, 0.65]


def test_another_pod_that_arrived_counts_with_what_it_uses() -> None:
    found = pressure([0.4, 0.4, 0.4, 0.65, 0.65], young("new", 10), usage={"new": 1.0})
    assert cpu(found) == [0.65] * POINTS


@pytest.mark.parametrize(("sibling", "expected"), [({"old": 1.0}, 0.65), ({}, 0.5)])
def test_one_of_unknown_use_counts_with_that_of_its_siblings_or_with_its_request(
    sibling: Mapping[str, float], expected: float
) -> None:
    """The window does not show it yet."""
    new = young("new", 0, request=amounts(0.4, 0.1))
    old = pod("old", on="m")
    found = pressure([0.4] * POINTS, new, old, usage=sibling, nodes=[node("n"), node("m")])
    assert cpu(found)[:-1] == [expected] * (POINTS - 1)


def test_pods_of_jobs_came_before_too_and_are_part_of_the_past() -> None:
    """What ends by itself had others like it, which the points have."""
    points = [0.4, 0.9, 0.4, 0.65, 0.65]
    running = young("batch", 10, **JOB)
    assert cpu(pressure(points, running, usage={"batch": 1.0}))[:3] == points[:3]
    done = young("batch", 10, phase="Succeeded", **JOB)
    assert cpu(pressure(points, done))[:2] == points[:2]


def test_a_running_job_counts_for_as_long_as_it_is_expected_to_run() -> None:
    """It uses a quarter of the node, and runs for a third of the next hour."""
    points = [0.4, 0.4, 0.4, 0.65, 0.65]
    found = pressure(points, young("batch", 10, **JOB), usage={"batch": 1.0})
    left = round(0.4 + 0.25 * running_share(600), 4)
    assert cpu(found) == [0.4, 0.4, 0.4, left, left]
    lasting = found.outlook.pasts.lasting(young("batch", 10, **JOB))
    assert lasting[-1, 0] == pytest.approx(1000 * running_share(600))


def test_a_job_that_is_leaving_leaves_the_past_once() -> None:
    leaving = young("batch", 10, deleting=True, **JOB)
    pasts = {"batch": [0.0, 0.0, 0.0, 1.0, 1.0]}
    found = pressure([0.4, 0.4, 0.4, 0.65, 0.65], leaving, usage={"batch": 1.0}, pasts=pasts)
    assert cpu(found) == [0.4] * POINTS


def test_no_past_is_below_zero() -> None:
    assert cpu(pressure([0.1] * POINTS, state=State((gone("gone", 10, 1.0),))))[0] == 0.0


def test_memory_against_allocatable_is_judged_as_now() -> None:
    """7 of 14 allocatable GiB of 16; the difference to capacity counts for all points."""
    size = replace(amounts(4, 14), pods=110)
    seen = snapshot(
        [node("n", allocatable=size)],
        [pod("a", on="n")],
        replace(
            load({"n": (0.1, 0.25)}, {"a": (0.1, 7.0)}),
            history={"n": {Resource.MEMORY: history([0.35, 0.3, 0.2, 0.25, 0.25])}},
        ),
    )
    found = classify(UsageBook(seen, policy(rule(Resource.MEMORY)), NOW), State())
    outlook = found.outlook
    column = outlook.past_of("n")[:, outlook.pasts.resources.index(Resource.MEMORY)]
    assert column.tolist() == pytest.approx([0.6, 0.55, 0.45, 0.5, 0.5])


# --- pods ---------------------------------------------------------------------------------------


def past_of(one: Pod, found: Pressure) -> list[float]:
    column = found.outlook.pasts.of_pod(one)[:, 0]
    return [round(value / 1000, 4) for value in column.tolist()]


def test_a_pod_has_its_own_past_and_its_present_use() -> None:
    one = pod("a", on="n")
    pasts = {"a": [0.2, 0.4, 0.6, 0.8, 0.9]}
    found = pressure([0.5] * POINTS, one, usage={"a": 1.0}, pasts=pasts)
    assert past_of(one, found) == [0.2, 0.4, 0.6, 0.8, 1.0]
    assert found.outlook.pasts.has_own(one)


def test_a_pod_without_a_past_used_what_it_uses() -> None:
    one = pod("a", on="n")
    found = pressure([0.5] * POINTS, one, usage={"a": 1.0})
    assert past_of(one, found) == [1.0] * POINTS
    assert not found.outlook.pasts.has_own(one)


def test_gaps_of_a_past_count_as_what_it_uses() -> None:
    one = pod("a", on="n")
    found = pressure([0.5] * POINTS, one, usage={"a": 1.0}, pasts={"a": [0.2, None, 0.3, None, 1]})
    assert past_of(one, found) == [0.2, 1.0, 0.3, 1.0, 1.0]


def test_before_it_started_the_pod_that_it_replaced_counts() -> None:
    one = young("new", 10)
    state = State(
        moves=(RecentMove("uid-web", NOW, one.uid, pod=PodRef("apps", "before", "u"), node="m"),)
    )
    pasts = {"before": [2.0, 1.5, None, None, None], "new": [None, 9.0, 0.1, 0.9, 1.0]}
    found = pressure([0.5] * POINTS, one, usage={"new": 1.0}, pasts=pasts, state=state)
    # What has its name and is older is another pod, and the window that ended as it began shows
    # nothing of it.
    assert past_of(one, found) == [2.0, 1.5, 1.0, 0.9, 1.0]
    assert found.outlook.pasts.predecessor(one) == ("apps", "before")


# --- the forecast -------------------------------------------------------------------------------


def test_the_minutes_of_the_last_hour_are_those_of_the_pods_of_now() -> None:
    found = pressure([0.9, 0.9, 0.9, 0.65, 0.65], state=State((gone("gone", 10, 1.0),)))
    assert found.outlook.minutes_above_before("n") == 0
    found = pressure([0.9, 0.9, 0.9, 0.65, 0.65])
    assert found.outlook.minutes_above_before("n") == pytest.approx(15)
    assert found.outlook.resources_above("n") == {Resource.CPU}


def test_another_judgement_of_one_node_changes_only_that_node() -> None:
    seen = snapshot(
        [node("a"), node("b")],
        [],
        replace(
            load({"a": (0.9, 0.1), "b": (0.9, 0.1)}),
            history={name: {Resource.CPU: history([0.9] * POINTS)} for name in ("a", "b")},
        ),
    )
    book = UsageBook(seen, CPU, NOW)
    known = classify(book, State()).known
    outlook = Outlook(Pasts(book, State()), known.values())
    source = replace(known["a"].sources[0], bases=(Basis(4000.0, (0.5,)),))
    judged = outlook.with_node(replace(known["a"], sources=(source,)))
    assert judged.past_of("a")[:, 0].tolist() == pytest.approx([0.5] * POINTS)
    assert judged.of("a") == pytest.approx(0, abs=0.1)
    assert judged.of("b") == outlook.of("b") == outlook.of("a") > 70
