"""Carrying a plan out in virtual time: the order of one eviction, and when all of it ends."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from msgspec.structs import replace

from desched.model.plan import RefusalReason, ResourceRelief
from desched.model.resources import Resource
from desched.plugins.gpus.drains.drain import GPU_DEMAND, Drain
from tests.builders import NOW
from tests.unit.eviction.stage import BLOCKED, FORBIDDEN, LOST, OK, TAKEN_OVER, Stage, throttled


def two(*, per_minute: int | None = None, deadline_seconds: int = 240) -> Stage:
    moves = ("a@hot of web", "b@warm of db")
    return Stage(*moves, per_minute=per_minute, deadline_seconds=deadline_seconds)


def details(stage: Stage) -> list[str]:
    return [outcome.detail for outcome in stage.outcomes]


# One after the other


def test_each_is_looked_at_written_down_asked_for_and_announced_in_the_plans_order() -> None:
    stage = two()
    assert stage.run() == ["evicted", "evicted"]
    steps = [(step, pod) for pod in "ab" for step in ("looked", "remembered", "asked")]
    steps += [("announced", "a"), ("announced", "b")]
    assert [(d.what, d.pod) for d in stage.log] == steps


def test_the_announcement_has_what_the_node_is_relieved_of_if_it_is() -> None:
    stage = two()
    first, second = stage.plan.evictions
    relieving = replace(first, relief=(ResourceRelief(Resource.CPU, 0.125),))
    stage.plan = replace(stage.plan, evictions=(relieving, second))
    stage.run()
    assert stage.notes == [
        (
            "Evicted apps/a from hot: node hot is hot; relieves it of cpu 12.5%; "
            "replacement expected on cool (100 %)"
        ),
        "Evicted apps/b from warm: node warm is hot; replacement expected on cool (100 %)",
    ]


def test_the_announcement_of_a_move_that_makes_room_has_no_relief() -> None:
    stage = two()
    first, second = stage.plan.evictions
    relief = (ResourceRelief(Resource.CPU, 0.125),)
    for_gpus = replace(first, relief=relief, reason="makes room on hot for x", purpose=GPU_DEMAND)
    stage.plan = replace(stage.plan, evictions=(for_gpus, second))
    stage.run()
    assert stage.notes[0] == (
        "Evicted apps/a from hot: makes room on hot for x; replacement expected on cool (100 %)"
    )


@pytest.mark.parametrize("waits", [True, False])
def test_a_pod_leaves_for_a_drain_only_while_what_it_is_for_waits(waits: bool) -> None:  # noqa: FBT001
    stage = two()
    first, second = stage.plan.evictions
    drain = Drain((second.pod,), ("hot",), 8, NOW, NOW)
    stage.plan = replace(stage.plan, evictions=(replace(first, undertaking=drain),))
    if waits:
        stage.present = lambda pod: replace(pod, node="") if pod.ref == second.pod else pod
    assert stage.run() == ["evicted" if waits else "not_confirmed"]
    if not waits:
        assert "does not wait any more" in details(stage)[0]


def test_what_is_refused_is_forgotten_and_not_announced() -> None:
    stage = two()
    stage.answers["a"] = [FORBIDDEN]
    assert stage.run() == ["forbidden", "evicted"]
    assert stage.remembered == {"b"}
    assert stage.times("announced", "a") == []


def test_what_a_webhook_takes_over_is_under_way() -> None:
    stage = two()
    stage.answers["a"] = [TAKEN_OVER]
    assert stage.run() == ["taken_over", "evicted"]
    assert stage.remembered == {"a", "b"}
    steps = ["looked", "remembered", "asked", "handed over", "announced"]
    assert [deed.what for deed in stage.log if deed.pod == "a"] == steps
    assert stage.times("handed over", "b") == []


def test_nothing_more_begins_when_a_take_over_cannot_be_written_down() -> None:
    stage = two()
    stage.answers["a"] = [TAKEN_OVER]
    stage.handing_over_fails_for = "a"
    assert stage.run() == ["taken_over", "not_begun"]
    assert details(stage)[1] == "somebody else changed the state"


def test_what_is_not_confirmed_is_neither_written_down_nor_asked_for() -> None:
    stage = two()
    stage.present = lambda one: replace(one, ready=one.name != "a")
    assert stage.run() == ["not_confirmed", "evicted"]
    assert stage.outcomes[0].refusal is RefusalReason.NOT_READY
    assert stage.asked == ["b"]
    assert stage.times("remembered", "a") == []


def test_an_eviction_whose_soft_taints_cannot_be_set_is_not_asked_for() -> None:
    stage = two()
    stage.unsteered = "a"
    assert stage.run() == ["not_confirmed", "evicted"]
    assert "a node changed" in stage.outcomes[0].detail
    assert stage.asked == ["b"]
    assert stage.times("remembered", "a") == []


# Several looks side by side


def apart(count: int, *, per_minute: int | None = None) -> Stage:
    """Moves that share nothing."""
    moves = (f"p{i}@n{i} of w{i} in s{i}" for i in range(count))
    return Stage(*moves, per_minute=per_minute)


def test_pods_that_share_nothing_are_looked_at_together_and_evicted_one_by_one() -> None:
    stage = apart(7)
    assert stage.run() == ["evicted"] * 7
    assert stage.looked_at == ["p0p1p2p3p4", "p5p6"]
    assert stage.asked == [f"p{i}" for i in range(7)]


def test_no_more_are_looked_at_than_may_be_evicted_now() -> None:
    stage = apart(5, per_minute=3)
    stage.run()
    assert stage.looked_at == ["p0p1p2", "p3", "p4"]


@pytest.mark.parametrize("second", ["b@hot of db in data", "b@warm of db in shop"])
def test_what_shares_a_node_or_a_namespace_is_looked_at_after_the_request(second: str) -> None:
    stage = Stage("a@hot of web in shop", second, "c@cold of api in core")
    assert stage.run() == ["evicted"] * 3
    assert stage.looked_at == ["ac", "b"]
    steps = [(d.what, d.pod) for d in stage.log if d.what in {"looked", "asked"} and d.pod in "ab"]
    assert steps == [("looked", "a"), ("asked", "a"), ("looked", "b"), ("asked", "b")]


def test_a_look_is_not_used_after_a_request_that_may_have_changed_what_it_saw() -> None:
    stage = Stage("a@hot of web in shop", "b@hot of db in data", "c@cold of sql in data")
    stage.run()
    assert stage.looked_at == ["ac", "b", "c"]
    assert stage.asked == ["a", "b", "c"]


def test_two_pods_of_a_budget_see_each_others_eviction() -> None:
    stage = Stage("a@hot of web in shop", "b@warm of db in shop")
    stage.allowed["web"] = lambda _: 1
    stage.covers_all = stage.spends = True
    assert stage.run() == ["evicted", "not_confirmed"]
    assert stage.asked == ["a"]
    assert stage.outcomes[1].refusal is RefusalReason.BUDGET_EXHAUSTED


def test_a_look_that_waited_too_long_is_taken_again() -> None:
    stage = apart(3)
    stage.seconds_by_deed = {"asked": 2.0}
    stage.run()
    assert stage.looked_at == ["p0p1p2"]
    stage = apart(3)
    stage.seconds_by_deed = {"asked": 3.0}
    stage.run()
    assert stage.looked_at == ["p0p1p2", "p2"]


def test_a_look_that_fails_ends_acting_only_when_its_turn_comes() -> None:
    stage = apart(3)
    stage.unreadable = "p1"
    assert stage.run() == ["evicted", "unreadable", "not_begun"]
    assert stage.asked == ["p0"]


# Events


def test_what_a_burst_evicted_is_announced_together_with_the_time_of_each() -> None:
    stage = apart(6)
    stage.seconds_by_deed = {"asked": 1.0}
    stage.run()
    steps = [deed.what for deed in stage.log if deed.what in {"asked", "announced"}]
    assert steps == ["asked"] * 5 + ["announced"] * 5 + ["asked", "announced"]
    ends = [(at - NOW).total_seconds() for at in stage.announced_times.values()]
    assert ends == [1, 2, 3, 4, 5, 6]


def test_what_was_evicted_is_announced_before_a_wait() -> None:
    stage = apart(3, per_minute=2)
    stage.run()
    assert stage.times("announced") == [0, 0, 30]


def test_what_was_evicted_is_announced_although_acting_ends() -> None:
    stage = apart(2)
    stage.answers["p1"] = [LOST]
    assert stage.run() == ["evicted", "unknown"]
    assert stage.times("announced", "p0")
    assert not stage.times("announced", "p1")


def test_an_eviction_is_in_doubt_only_if_its_answer_was_lost() -> None:
    stage = apart(4)
    stage.answers |= {"p0": [TAKEN_OVER], "p1": [FORBIDDEN], "p3": [LOST]}
    assert stage.run() == ["taken_over", "forbidden", "evicted", "unknown"]
    assert [deed.pod for deed in stage.log if deed.what == "doubted"] == ["p3"]


# When all of it ends


def test_nothing_begins_once_the_process_was_asked_to_stop() -> None:
    stage = two()
    stage.clock.stop()
    assert stage.run() == ["not_begun", "not_begun"]
    assert not stage.log
    assert details(stage) == ["desched is stopping"] * 2


@pytest.mark.parametrize("step", ["looked", "remembered"])
def test_a_stop_on_the_way_keeps_the_request_from_being_made(step: str) -> None:
    stage = two()
    stage.seconds_by_deed = {step: 2.0}
    stage.clock.call_later(1.0, stage.clock.stop)
    assert stage.run() == ["not_begun", "not_begun"]
    assert stage.asked == []
    assert not stage.remembered


def test_a_stop_ends_a_wait() -> None:
    stage = Stage("a@hot of web")
    stage.answers["a"] = [BLOCKED]
    stage.clock.call_later(1.0, stage.clock.stop)
    assert stage.run() == ["blocked_by_budget"]
    assert stage.asked == ["a"]


def test_after_leadership_is_lost_between_two_evictions_the_second_does_not_begin() -> None:
    stage = two()
    stage.fence = lambda: "a" not in stage.asked
    assert stage.run() == ["evicted", "not_begun"]
    assert details(stage)[1] == "leadership was lost"
    assert stage.times("looked", "b") == []


def test_leadership_lost_while_it_is_written_down_keeps_the_request_from_being_made() -> None:
    stage = two()
    stage.fence = lambda: not stage.times("remembered")
    assert stage.run() == ["not_begun", "not_begun"]
    assert stage.asked == []
    assert not stage.remembered


def test_what_cannot_be_written_down_is_not_asked_for_and_nothing_after_it() -> None:
    stage = two()
    stage.store_fails_for = "a"
    assert stage.run() == ["not_begun", "not_begun"]
    assert details(stage) == ["somebody else changed the state"] * 2
    assert stage.asked == []


def test_an_answer_that_is_missing_ends_acting_and_counts_as_under_way() -> None:
    stage = two()
    stage.answers["a"] = [LOST]
    assert stage.run() == ["unknown", "not_begun"]
    assert stage.remembered == {"a"}
    assert "no answer within 10 s" in details(stage)[1]


def test_what_is_left_when_the_time_is_over_has_not_begun() -> None:
    stage = Stage(*(f"p{i}@n{i} of w{i}" for i in range(4)), deadline_seconds=30)
    stage.seconds_by_deed = {"asked": 12.0}
    assert stage.run() == ["evicted"] * 3 + ["not_begun"]
    assert stage.times("asked") == [0, 12, 24]
    assert details(stage)[3] == "the cycle's time for acting is over"


def test_what_would_be_due_after_the_deadline_is_not_waited_for() -> None:
    stage = Stage("a@hot of web", deadline_seconds=4)
    stage.answers["a"] = [BLOCKED]
    assert stage.run() == ["blocked_by_budget"]
    assert stage.clock.monotonic() == 0


def test_acting_is_no_faster_than_the_rate() -> None:
    stage = Stage(*(f"p{i}@n{i} of w{i}" for i in range(8)), per_minute=20)
    assert stage.run() == ["evicted"] * 8
    assert stage.times("asked") == pytest.approx([0, 0, 0, 0, 0, 3, 6, 9])


def test_what_is_not_asked_for_does_not_count_against_the_rate() -> None:
    stage = Stage(*(f"p{i}@n{i} of w{i}" for i in range(8)), per_minute=2)
    stage.present = lambda one: None if one.name < "p6" else one
    assert stage.run() == ["gone"] * 6 + ["evicted"] * 2
    assert stage.times("asked") == [0, 0]


@pytest.mark.parametrize(
    ("seconds_before", "begins_at"), [((20.0,), 40.0), ((90.0,), 0.0), ((80.0, 20.0), 40.0)]
)
def test_evictions_of_earlier_cycles_and_processes_count_in_their_minute(
    seconds_before: tuple[float, ...], begins_at: float
) -> None:
    stage = Stage("a@hot of web", per_minute=1, seconds_before=seconds_before)
    assert stage.run() == ["evicted"]
    assert stage.times("asked") == [begins_at]


def test_an_eviction_of_a_clock_that_was_ahead_counts_as_one_of_this_moment() -> None:
    stage = Stage("a@hot of web", per_minute=1, seconds_before=(-3600.0,))
    assert stage.run() == ["evicted"]
    assert stage.times("asked") == [60.0]


def test_the_look_is_as_fresh_as_can_be_when_the_rate_lets_the_request_begin() -> None:
    stage = two(per_minute=1)
    stage.run()
    assert stage.times("looked") == stage.times("asked") == [0, 60]


# Budgets


def test_a_budget_that_never_frees_is_not_hammered() -> None:
    stage = Stage("a@hot of web", deadline_seconds=240)
    stage.allowed["web"] = lambda _: 1  # so its status says, and yet it refuses
    stage.answers["a"] = [BLOCKED] * 99
    assert stage.run() == ["blocked_by_budget"]
    assert stage.times("asked") == [0, 5, 15, 35, 75, 135]
    assert not stage.remembered


def test_while_its_status_allows_nothing_a_budget_is_looked_at_and_not_asked() -> None:
    stage = Stage("a@hot of web", deadline_seconds=240)
    stage.allowed["web"] = lambda now: 1 if now < 1 else 0
    stage.answers["a"] = [BLOCKED] * 99
    assert stage.run() == ["blocked_by_budget"]
    assert stage.times("asked") == [0]
    assert stage.times("looked") == [0, 5, 15, 35, 75, 135]
    assert details(stage) == ["needs 2 healthy pods"]


def test_a_budget_that_has_no_room_from_the_start_is_never_asked() -> None:
    stage = Stage("a@hot of web", deadline_seconds=240)
    stage.allowed["web"] = lambda _: 0
    assert stage.run() == ["not_confirmed"]
    assert stage.outcomes[0].refusal is RefusalReason.BUDGET_EXHAUSTED
    assert stage.asked == []


def test_a_budget_that_frees_up_is_used_at_the_next_look() -> None:
    stage = Stage("a@hot of web")
    stage.allowed["web"] = lambda now: 1 if now < 1 or now > 20 else 0
    stage.answers["a"] = [BLOCKED, OK]
    assert stage.run() == ["evicted"]
    assert stage.times("asked") == [0, 35]
    assert stage.remembered == {"a"}


@pytest.mark.parametrize("changes", [{"ready_replicas": 8}, {"rolling_out": True}])
def test_a_workload_that_is_short_of_a_replica_for_a_moment_is_waited_for(
    changes: dict[str, object],
) -> None:
    stage = Stage("a@hot of web")
    whole = stage.workloads["web"]
    stage.workloads["web"] = replace(whole, **changes)
    stage.clock.call_later(12.0, lambda: stage.workloads.update(web=whole))
    assert stage.run() == ["evicted"]
    assert stage.times("asked") == [15]


def test_others_go_first_while_one_waits() -> None:
    stage = two()
    stage.answers["a"] = [BLOCKED, OK]
    assert stage.run() == ["evicted", "evicted"]
    assert [(d.pod, d.at) for d in stage.log if d.what == "asked"] == [
        ("a", 0),
        ("b", 0),
        ("a", 5),
    ]


@pytest.mark.parametrize("second", ["b@hot of db", "b@warm of web"])
def test_no_eviction_overtakes_one_of_its_node_or_its_workload(second: str) -> None:
    stage = Stage("a@hot of web", second, "c@cold of api")
    stage.answers["a"] = [BLOCKED, OK]
    assert stage.run() == ["evicted"] * 3
    assert stage.asked == ["a", "c", "a", "b"]
    assert stage.times("looked", "b") == [5]


def test_whoever_is_held_back_has_its_turn_once_the_other_has_been_given_up() -> None:
    stage = Stage("a@hot of web", "b@hot of db")
    stage.answers["a"] = [BLOCKED] * 99
    assert stage.run() == ["blocked_by_budget", "evicted"]
    assert stage.times("asked", "b") == [135]


def test_a_budget_is_asked_once_in_each_wait_however_many_pods_it_covers() -> None:
    stage = Stage("a@hot of web", "b@warm of web2")
    stage.allowed["web"] = lambda _: 1
    stage.covers_all = True
    stage.answers = {"a": [BLOCKED] * 99, "b": [BLOCKED] * 99}
    stage.run()
    waits = stage.times("asked")
    assert waits[:5] == [0, 5, 15, 35, 75]
    assert all(later - earlier >= 5 for earlier, later in pairwise(waits))


def test_room_that_one_pod_found_is_tried_by_the_next_at_once() -> None:
    stage = Stage("a@hot of web", "b@warm of web2")
    stage.allowed["web"] = lambda _: 1
    stage.covers_all = True
    stage.answers = {"a": [BLOCKED, BLOCKED, OK], "b": [BLOCKED, OK]}
    assert stage.run() == ["evicted", "evicted"]
    assert stage.times("asked", "a") == [0, 5, 15]
    assert stage.times("asked", "b") == [15, 20]


def test_one_that_waits_is_confirmed_anew() -> None:
    stage = Stage("a@hot of web")
    stage.answers["a"] = [BLOCKED, OK]
    stage.present = lambda one: replace(one, ready=stage.clock.monotonic() < 1)
    assert stage.run() == ["not_confirmed"]
    assert stage.outcomes[0].refusal is RefusalReason.NOT_READY
    assert stage.asked == ["a"]


# Throttling


@pytest.mark.parametrize(("asked_for", "waited"), [(7.0, 7.0), (None, 1.0)])
def test_all_requests_wait_as_long_as_the_server_asks(
    asked_for: float | None, waited: float
) -> None:
    stage = two()
    stage.answers["a"] = [throttled(asked_for), OK]
    assert stage.run() == ["evicted", "evicted"]
    assert stage.times("asked") == [0, waited, waited]
    assert stage.asked == ["a", "a", "b"]


def test_throttling_that_lasts_ends_acting() -> None:
    stage = two()
    stage.answers["a"] = [throttled(1.0)] * 99
    assert stage.run() == ["throttled", "not_begun"]
    assert stage.times("asked") == [0, 1, 2]
    assert details(stage)[1] == "the API server keeps throttling: slow down"


def test_throttling_beyond_the_deadline_ends_acting_at_once() -> None:
    stage = two(deadline_seconds=240)
    stage.answers["a"] = [throttled(240.0)]
    assert stage.run() == ["throttled", "not_begun"]
    assert stage.clock.monotonic() == 0


def test_any_other_answer_ends_a_row_of_throttling() -> None:
    stage = Stage("a@hot of web", "b@warm of db", "c@cold of api")
    stage.answers = {
        "a": [throttled(1.0), throttled(1.0), FORBIDDEN],
        "b": [throttled(1.0), throttled(1.0), BLOCKED, OK],
    }
    assert stage.run() == ["forbidden", "evicted", "evicted"]


# Load


def test_a_load_that_has_become_too_old_is_not_acted_on() -> None:
    stage = Stage(*(f"p{i}@n{i} of w{i}" for i in range(4)), deadline_seconds=900)
    stage.seconds_by_deed = {"asked": 120.0}
    assert stage.run() == ["evicted"] * 3 + ["not_confirmed"]
    assert stage.outcomes[3].refusal is RefusalReason.LOAD_TOO_OLD


@pytest.mark.parametrize(
    "spoil",
    [
        lambda stage: stage.clock.stop(),
        lambda stage: setattr(stage, "fence", lambda: False),
        lambda stage: setattr(stage, "store_fails_for", "b"),
    ],
    ids=["stop", "fence", "store"],
)
def test_an_answer_that_was_given_before_acting_ended_is_reported(
    spoil: Callable[[Stage], None],
) -> None:
    stage = two()
    stage.answers["a"] = [BLOCKED]
    stage.seconds_by_deed = {"asked": 1.0}
    stage.clock.call_later(0.5, lambda: spoil(stage))
    assert stage.run() == ["blocked_by_budget", "not_begun"]
