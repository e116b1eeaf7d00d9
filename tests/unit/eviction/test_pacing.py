"""How fast, and how patient."""

from desched.eviction.pacing import Patience, Rate, is_ahead


def begun(rate: Rate, seconds: float) -> list[float]:
    """When requests begin if there is always one more to make."""
    now, times = 0.0, []
    while now < seconds:
        if is_ahead(rate.next_at, now):
            now = rate.next_at
        else:
            rate.take(now)
            times.append(round(now, 6))
    return times


def test_a_few_begin_at_once_and_the_others_evenly() -> None:
    assert begun(Rate(20), 10) == [0, 0, 0, 0, 0, 3, 6, 9]


def test_a_low_rate_has_a_small_burst() -> None:
    assert begun(Rate(2), 70) == [0, 0, 30, 60]
    assert begun(Rate(1), 130) == [0, 60, 120]


def test_rest_fills_the_burst_again_and_no_more_than_that() -> None:
    rate = Rate(60)
    for _ in range(5):
        rate.take(0.0)
    assert rate.next_at == 1.0
    for _ in range(5):
        assert not is_ahead(rate.next_at, 1000.0)
        rate.take(1000.0)
    assert rate.next_at == 1001.0


def test_without_a_rate_nothing_waits() -> None:
    rate = Rate(None)
    for _ in range(100):
        rate.take(7.0)
    assert not is_ahead(rate.next_at, 7.0)


def test_waits_double_up_to_a_minute() -> None:
    patience, now, waits = Patience(), 0.0, []
    for _ in range(6):
        patience.refused("guard", now)
        waits.append(patience.due("guard") - now)
        now = patience.due("guard")
    assert waits == [5, 10, 20, 40, 60, 60]


def test_a_refusal_while_waiting_does_not_lengthen_the_wait() -> None:
    patience = Patience()
    patience.refused("guard", 0.0)
    patience.refused("guard", 1.0)
    assert patience.due("guard") == 5.0


def test_budgets_are_waited_for_each_by_itself() -> None:
    patience = Patience()
    patience.refused("guard", 100.0)
    assert not is_ahead(patience.due("other"), 100.0)


def test_after_room_was_found_waits_are_short_again() -> None:
    patience = Patience()
    patience.refused("guard", 0.0)
    patience.accepted("guard")
    patience.refused("guard", 5.0)
    assert patience.due("guard") == 10.0
