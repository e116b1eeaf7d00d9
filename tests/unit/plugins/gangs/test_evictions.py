"""A gang is evicted as one: all of its pods, or none before the first."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from desched.errors import ObservationError, ObservationSource
from desched.model.cluster import Pod
from desched.model.plan import RefusalReason
from desched.model.report import EvictionVerdict
from desched.model.resources import Amounts
from desched.model.snapshot import Room
from desched.ports import EvictionAnswer
from tests.builders import node, pod
from tests.unit.eviction.stage import (
    BLOCKED,
    FORBIDDEN,
    GANG,
    LOST,
    TAKEN_OVER,
    Answer,
    Stage,
    throttled,
)

MOVES = ("a@n1 of llama", "b@n2 of llama", "c@n3 of llama", "d@n3 of llama")


def gang(*others: str, per_minute: int | None = None, deadline_seconds: int = 240) -> Stage:
    """Four pods that move whole, after other moves."""
    return Stage(
        *others, *MOVES, per_minute=per_minute, deadline_seconds=deadline_seconds, gang="abcd"
    )


def details(stage: Stage) -> list[str]:
    return [outcome.detail for outcome in stage.outcomes]


def test_all_pods_are_confirmed_and_tried_before_the_first_is_evicted() -> None:
    stage = gang()
    assert stage.run() == ["evicted"] * 4
    steps = [(deed.what, deed.pod) for deed in stage.log]
    assert steps == [
        (what, name)
        for what in ("looked", "tried", "remembered", "asked", "announced")
        for name in "abcd"
    ]
    assert stage.looked_at == ["abcd"]
    assert stage.remembered == {*"abcd"}


def test_moves_before_and_after_it_keep_their_order() -> None:
    stage = Stage("p@n1 of web", *MOVES, "q@n1 of web", gang="abcd")
    stage.allowed["web"] = lambda seconds: int(seconds >= 5)
    assert stage.run() == ["evicted"] * 6
    assert stage.asked == ["p", *"abcd", "q"]


@pytest.mark.parametrize("answer", [BLOCKED, FORBIDDEN, throttled(1.0)])
def test_none_is_evicted_if_a_dry_run_refuses_one(answer: EvictionAnswer) -> None:
    stage = gang("p@n9 of web")
    stage.dry_answers["c"] = answer
    verdict = answer.verdict.value
    assert stage.run() == ["evicted", *["not_confirmed"] * 2, verdict, "not_confirmed"]
    assert stage.asked == ["p"]
    assert stage.remembered == {"p"}
    assert details(stage)[3] == f"in a dry run: {answer.detail}"
    assert (
        details(stage)[4] == f"{GANG} moves whole only with apps/c: {verdict}: {details(stage)[3]}"
    )
    assert stage.outcomes[4].refusal is RefusalReason.CONFIRMATION_FAILED


def test_none_is_evicted_if_a_webhook_would_move_one_in_its_own_way() -> None:
    stage = gang()
    stage.dry_answers["a"] = TAKEN_OVER
    assert stage.run() == ["not_confirmed"] * 4
    assert stage.asked == []


def test_a_dry_run_without_an_answer_ends_the_cycle() -> None:
    stage = gang()
    stage.dry_answers["b"] = ObservationError(ObservationSource.CLUSTER, "no answer")
    assert stage.run() == ["not_confirmed", "unreadable", "not_confirmed", "not_confirmed"]
    assert stage.asked == []


def test_none_is_tried_if_one_cannot_be_read() -> None:
    stage = gang()
    stage.unreadable = "d"
    assert stage.run() == ["not_confirmed"] * 3 + ["unreadable"]
    assert stage.times("tried") == []


CHANGES: dict[str, tuple[Callable[[Pod], Pod | None], str, str]] = {
    "gone": (lambda p: None if p.name == "c" else p, "gone", "the pod is gone"),
    "moved": (lambda p: replace(p, node="n1") if p.name == "c" else p, "not_confirmed", "'n1'"),
    "opted out": (
        lambda p: (
            replace(p, annotations={"descheduler.alpha.kubernetes.io/evict": "false"})
            if p.name == "c"
            else p
        ),
        "not_confirmed",
        "opted_out",
    ),
    "left the gang": (
        lambda p: replace(p, labels={"app": "llama"}) if p.name == "c" else p,
        "not_confirmed",
        "",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_none_is_tried_if_one_is_not_as_planned(change: str) -> None:
    stage = gang()
    stage.present, verdict, detail = CHANGES[change]
    verdicts = stage.run()
    assert verdict in verdicts
    assert set(verdicts) <= {"not_confirmed", verdict}
    assert any(detail in each for each in details(stage))
    assert stage.times("tried") == []
    assert stage.remembered == set()


def test_none_is_tried_if_the_gang_has_a_pod_more() -> None:
    stage = gang("e@n9 of llama")
    labels = dict(stage.pods[1].labels)
    stage.present = lambda p: replace(p, labels=labels) if p.name == "e" else p
    stage.plan = replace(stage.plan, evictions=stage.plan.evictions[1:])
    assert stage.run() == ["not_confirmed"] * 4
    assert details(stage)[0] == f"{GANG}: apps/e has come or gone"


def test_a_budget_must_allow_that_all_of_them_leave() -> None:
    """Each dry run asks for one disruption alone."""
    stage = gang()
    stage.allowed["llama"] = lambda _: 3
    assert stage.run() == ["not_confirmed"] * 4
    assert stage.outcomes[3].refusal is RefusalReason.BUDGET_EXHAUSTED
    stage = gang()
    stage.allowed["llama"] = lambda _: 4
    assert stage.run() == ["evicted"] * 4


def test_the_nodes_where_they_are_expected_must_have_room_for_all_of_them() -> None:
    stage = gang()
    one = stage.pods[0]
    ample = replace(one.scheduling, requests=Amounts(cpu_millicores=1000))
    stage.present = lambda p: replace(p, scheduling=ample)
    stage.room = Room(node("cool"), (replace(pod("x", on="cool"), scheduling=ample),))
    assert stage.run() == ["not_confirmed"] * 4
    assert details(stage)[3] == "others took the room on cool: Insufficient cpu"
    # A pod of the gang that is there leaves first.
    stage = gang()
    stage.present = lambda p: replace(p, scheduling=ample)
    stage.room = Room(node("cool"), (replace(one, node="cool", scheduling=ample),))
    assert stage.run() == ["evicted"] * 4


def test_pods_that_are_being_deleted_there_still_have_their_room() -> None:
    stage = gang()
    ample = replace(stage.pods[0].scheduling, requests=Amounts(cpu_millicores=1000))
    stage.present = lambda p: replace(p, scheduling=ample)
    leaving = replace(pod("x", on="cool", deleting=True), scheduling=ample)
    stage.room = Room(node("cool"), (leaving,))
    assert stage.run() == ["not_confirmed"] * 4


def test_replacements_that_would_request_more_need_more_room() -> None:
    stage = gang()
    large = Amounts(cpu_millicores=1001)
    stage.workloads["llama"] = replace(stage.workloads["llama"], template_requests=large)
    assert stage.run() == ["not_confirmed"] * 4


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ready": False}, "node cool is not_ready now"),
        ({"unschedulable": True}, "node cool is cordoned now"),
    ],
)
def test_room_on_a_node_that_takes_no_pods_is_of_no_use(
    changes: dict[str, bool], said: str
) -> None:
    stage = gang()
    stage.room = Room(node("cool", **changes), ())
    assert stage.run() == ["not_confirmed"] * 4
    assert said in details(stage)


def test_neither_is_room_on_a_node_that_is_gone() -> None:
    stage = gang()
    stage.room = None
    assert stage.run() == ["not_confirmed"] * 4
    assert "node cool is gone" in details(stage)


def test_nothing_is_evicted_if_the_first_request_is_refused_after_all() -> None:
    stage = gang()
    stage.answers["a"] = [BLOCKED]
    assert stage.run() == ["blocked_by_budget", *["not_confirmed"] * 3]
    assert stage.asked == ["a"]
    assert stage.remembered == set()


def test_nothing_is_requested_that_could_not_be_recorded() -> None:
    stage = gang()
    stage.store_fails_for = "c"
    assert stage.run() == ["not_begun"] * 4
    assert stage.asked == []


def test_nothing_begins_once_leadership_is_lost() -> None:
    stage = gang()
    stage.fence = lambda: not stage.times("tried", "b")
    assert stage.run() == ["not_begun"] * 4
    assert stage.asked == []
    stage = gang()
    stage.fence = lambda: not stage.times("remembered")
    assert stage.run() == ["not_begun"] * 4
    assert stage.remembered == set()


def test_nothing_is_requested_if_a_soft_taint_is_missing() -> None:
    stage = gang()
    stage.unsteered = "c"
    assert stage.run() == ["not_confirmed"] * 4
    assert stage.times("remembered") == []


@pytest.mark.parametrize("answer", [BLOCKED, throttled(3.0)])
def test_a_later_refusal_is_tried_again_while_the_others_go_on(answer: Answer) -> None:
    stage = gang()
    stage.answers["b"] = [answer]
    assert stage.run() == ["evicted"] * 4
    assert stage.asked.count("b") == 2
    assert stage.looked_at == ["abcd"]


def test_what_stays_while_others_leave_is_a_broken_gang() -> None:
    stage = gang("p@n9 of web")
    stage.plan = replace(stage.plan, evictions=(*stage.plan.evictions[1:], stage.plan.evictions[0]))
    stage.answers["b"] = [FORBIDDEN]
    assert stage.run() == ["evicted", "gang_broken", "evicted", "evicted", "evicted"]
    said = f"3 of 4 pods of {GANG} are evicted, and this one is not: forbidden: no"
    assert details(stage)[1] == said
    assert stage.remembered == {*"abcdp"}  # the next cycle sees that it stayed


@pytest.mark.parametrize("verdict", [EvictionVerdict.GONE, EvictionVerdict.REPLACED])
def test_a_pod_that_leaves_by_itself_meanwhile_breaks_no_gang(verdict: EvictionVerdict) -> None:
    stage = gang()
    stage.answers["c"] = [EvictionAnswer(verdict, "no such pod")]
    assert stage.run() == ["evicted", "evicted", verdict.value, "evicted"]


def test_a_budget_that_never_allows_the_rest_breaks_the_gang_at_the_deadline() -> None:
    stage = gang(deadline_seconds=60)
    stage.answers["d"] = [BLOCKED] * 9
    assert stage.run() == ["evicted"] * 3 + ["gang_broken"]
    assert "blocked_by_budget: needs 2 healthy pods" in details(stage)[3]


def test_a_lost_answer_ends_the_cycle_and_may_have_broken_the_gang() -> None:
    stage = gang()
    stage.answers["b"] = [LOST]
    assert stage.run() == ["evicted", "unknown", "gang_broken", "gang_broken"]
    assert stage.asked == ["a", "b"]
    assert stage.remembered == {*"abcd"}
    assert details(stage)[3].startswith(f"2 of 4 pods of {GANG} are evicted, and this one is not")


# The rate limit and the deadline


def test_a_gang_waits_for_the_whole_burst_and_counts_as_one() -> None:
    stage = Stage("p@n9 of web", *MOVES, "q@n8 of web", per_minute=2, gang="abcd")
    assert stage.run() == ["evicted"] * 6
    assert stage.times("asked", *"abcd") == [30.0] * 4
    (last,) = stage.times("asked", "q")
    assert last == 30.0 + 4 * 30.0 - 30.0


def test_a_gang_without_enough_time_is_not_begun() -> None:
    stage = gang(deadline_seconds=8)
    assert stage.run() == ["evicted"] * 4
    stage = gang("p@n9 of web", deadline_seconds=7)
    assert stage.run() == ["evicted"] + ["not_begun"] * 4
    assert stage.looked_at == ["p"]
    assert GANG in details(stage)[1]
    stage = gang("p@n9 of web", deadline_seconds=37)
    stage.seconds_by_deed = {"asked": 30.0}
    assert stage.run() == ["evicted"] + ["not_begun"] * 4


def test_a_gang_whose_turn_comes_too_late_does_not_keep_others_waiting() -> None:
    """After `p` the rate limit has its whole burst again in 30 s; the gang needs 8 s more."""
    stage = Stage(
        "p@n9 of web", *MOVES, "q@n8 of web", per_minute=2, deadline_seconds=37, gang="abcd"
    )
    assert stage.run() == ["evicted", *["not_begun"] * 4, "evicted"]
    assert stage.times("asked", "q") == [0.0]
