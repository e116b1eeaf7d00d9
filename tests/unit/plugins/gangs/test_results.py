"""A gang that left as a whole is followed up as one, counts once, and is paused if it broke."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from desched.eviction.follow_up import FollowUp
from desched.model.cluster import Pod
from desched.model.state import (
    SUCCESSES,
    CoolDown,
    EvictionRecord,
    MoveResult,
    Pause,
    PauseScope,
    State,
)
from desched.policy.follow_up import FollowUpRules
from tests.builders import NOW, followed_up, pod, policy, workload
from tests.unit.eviction.moves import (
    DUE,
    POLICY,
    followed,
    look,
    minutes,
    record,
    replacement,
)

GANG = "gang apps/llama (Volcano)"


def gang(*names: str, of: str = "web", **fields: object) -> tuple[EvictionRecord, ...]:
    """Pods that left n0, n1, … together; they were all healthy but n0."""
    return tuple(
        record(name, of, node=f"n{i}", gang=GANG, **fields) for i, name in enumerate(names)
    )


def results(after: FollowUp) -> dict[str, MoveResult | None]:
    return {each.pod.name: each.result for each in after.state.evictions}


def test_no_pod_has_a_result_before_all_have_one() -> None:
    state = State(gang("web-0", "web-1"))
    one, other = replacement("web-8", "n1"), replacement("web-9", "n2", ready=False)
    waiting = followed(state, look([one, other]))
    assert results(waiting) == {"web-0": None, "web-1": None}
    assert waiting.settled == ()
    assert {each.landed_on for each in waiting.state.evictions} == {""}
    after = followed(waiting.state, look([one, replace(other, ready=True)]))
    assert set(results(after).values()) <= SUCCESSES
    assert {each.landed_on for each in after.settled} == {"n1", "n2"}


def test_a_pod_that_moved_alone_does_not_wait_for_a_gang() -> None:
    state = State((*gang("web-0"), record("db-0", "db")))
    after = followed(state, look([replacement("db-9", "n1", of="db")]))
    assert results(after) == {"web-0": None, "db-0": MoveResult.LANDED_AS_FORECAST}


@pytest.mark.parametrize(
    ("load_ratio", "expected"),
    [(0.5, MoveResult.LANDED_ELSEWHERE), (0.95, MoveResult.BACK_ON_SOURCE)],
)
def test_a_pod_may_come_back_to_a_node_that_bears_it(
    load_ratio: float, expected: MoveResult
) -> None:
    state = State(gang("web-0"))
    calm = dict.fromkeys(("n0", "n1", "n2", "n3"), 0.5)
    seen = look([replacement("web-9", "n0")], calm | {"n0": load_ratio})
    assert results(followed(state, seen)) == {"web-0": expected}


def test_a_pod_that_is_not_ready_in_time_has_not_come_back_to_the_node_that_it_left() -> None:
    """A pod of a gang may return there."""
    after = followed(State(gang("web-0")), look([replacement("web-9", "n0", ready=False)]), DUE)
    assert results(after) == {"web-0": MoveResult.NOT_READY}


FAILED = MoveResult.STILL_PENDING


def failed() -> FollowUp:
    """Of a gang with two workloads, one pod has landed and another is still pending at the end."""
    state = State((*gang("web-0", "web-1"), *gang("db-0", of="db")))
    pods = [
        replacement("web-8", "n1"),
        replacement("web-9", "", ready=False),
        replacement("db-9", "n3", of="db"),
    ]
    return followed(state, look(pods), DUE)


def test_all_workloads_cool_down_after_the_worst_result_and_once() -> None:
    first, second = failed().state.cool_downs
    assert {first.workload, second.workload} == {"Deployment apps/web", "Deployment apps/db"}
    assert (first.result, first.level) == (FAILED, second.level)
    alone = followed(State((record("web-1"),)), look([]), DUE).state.cool_downs[0]
    assert (first.level, first.until) == (alone.level, alone.until)


def test_a_success_lowers_the_level_once() -> None:
    cool_down = CoolDown("uid-web", "Deployment apps/web", NOW - minutes(1), 2)
    state = State(gang("web-0", "web-1"), cool_downs=(cool_down,))
    after = followed(state, look([replacement("web-8", "n1"), replacement("web-9", "n2")]))
    assert [each.level for each in after.state.cool_downs] == [1]


def test_a_failure_counts_once_and_results_are_shown_for_each_pod() -> None:
    after = failed()
    assert [(f.result, f.workload) for f in after.state.failures] == [
        (FAILED, "Deployment apps/db")
    ]
    shown = sorted(each.result.value for each in after.settled if each.result)
    assert shown == ["landed_as_forecast", "landed_elsewhere", "still_pending"]


def test_its_landings_say_nothing_about_forecasts() -> None:
    after = followed(State(gang("web-0")), look([replacement()]))
    assert after.settled
    assert after.state.forecasts == ()


# Broken gangs


def broken(*present: Pod, names: tuple[str, ...] = ("web-0", "web-1", "web-2")) -> FollowUp:
    """The first cycle after the process has ended while it evicted a gang."""
    state = State(gang(*names, left_at=None))
    observed = state.observed(present, NOW, timedelta(hours=1))
    rules = FollowUpRules(pause_first_seconds=1800)
    return followed_up(observed.state, look(present), policy(follow_up=rules), NOW, observed.stayed)


def test_one_pod_that_left_breaks_a_gang() -> None:
    after = broken(*(pod(name, on="n1") for name in ("web-1", "web-2")))
    (pause,) = after.state.pauses
    assert pause.why == f"{GANG} was to move whole: 1 of its pods left, 2 stayed"


def test_a_gang_that_was_evicted_in_part_is_paused() -> None:
    stays, leaves = pod("web-1", on="n1"), pod("web-2", on="n2", deleting=True)
    after = broken(stays, leaves)
    why = f"{GANG} was to move whole: 2 of its pods left, 1 stayed"
    pause = Pause(PauseScope.WORKLOAD, NOW, NOW + minutes(30), "Deployment apps/web", why)
    assert after.state.pauses == (pause,)
    assert [(each.pod.name, each.result) for each in after.settled] == [
        ("web-1", MoveResult.STAYED)
    ]
    assert results(after) == {"web-0": None, "web-2": None}


def test_a_gang_of_which_all_or_none_left_is_not_broken() -> None:
    none = broken(*(pod(f"web-{i}", on=f"n{i}") for i in range(3)))
    assert (none.state.pauses, none.state.evictions, none.settled) == ((), (), ())
    assert broken().state.pauses == ()


def test_a_new_break_renews_the_pause_but_not_one_by_a_person() -> None:
    by_person = Pause(PauseScope.WORKLOAD, NOW, None, "Deployment apps/web", by="alex")
    earlier = replace(by_person, by="", until=NOW + minutes(1))
    stays = pod("web-1", on="n1")
    state = State(gang("web-0", "web-1", left_at=None), pauses=(by_person, earlier))
    observed = state.observed([stays], NOW, timedelta(hours=1))
    after = followed_up(observed.state, look([stays]), POLICY, NOW, observed.stayed)
    assert [pause.by for pause in after.state.pauses] == ["alex", ""]
    assert after.state.pauses[1].since == NOW


def test_the_pause_ends_without_a_probe() -> None:
    """No single move could show that the gang may move."""
    state = broken(pod("web-1", on="n1")).state
    later = NOW + minutes(31)
    assert followed(state, look(), NOW + minutes(29)).state.pauses == state.pauses
    assert followed(state, look(workloads=[workload("web")]), later).state.pauses == ()
