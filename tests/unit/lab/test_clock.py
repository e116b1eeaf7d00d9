from desched.lab.clock import EPOCH, VirtualClock


def test_actions_run_in_order_of_time_at_the_time_when_they_are_due() -> None:
    clock = VirtualClock()
    seen: list[tuple[str, float]] = []
    clock.call_later(20, lambda: seen.append(("late", clock.monotonic())))
    clock.call_later(10, lambda: seen.append(("early", clock.monotonic())))
    clock.call_later(10, lambda: seen.append(("early too", clock.monotonic())))
    clock.advance(30)
    assert seen == [("early", 10), ("early too", 10), ("late", 20)]
    assert clock.monotonic() == 30
    assert (clock.now() - EPOCH).total_seconds() == 30


def test_an_action_waits_until_it_is_due() -> None:
    clock = VirtualClock()
    seen: list[float] = []
    clock.call_later(10, lambda: seen.append(clock.monotonic()))
    clock.advance(9)
    assert seen == []
    clock.advance(1)
    assert seen == [10]


def test_an_action_may_schedule_another_within_the_time() -> None:
    clock = VirtualClock()
    seen: list[float] = []
    clock.call_later(1, lambda: clock.call_later(1, lambda: seen.append(clock.monotonic())))
    clock.advance(5)
    assert seen == [2]


def test_an_action_may_let_time_pass_itself() -> None:
    clock = VirtualClock()
    seen: list[float] = []
    clock.call_later(1, lambda: clock.advance(10))
    clock.call_later(5, lambda: seen.append(clock.monotonic()))
    clock.advance(2)
    assert seen == [5]
    assert clock.monotonic() == 11


def test_waiting_advances_time_and_returns_whether_to_stop() -> None:
    clock = VirtualClock()
    assert not clock.wait(5)
    clock.stop()
    assert clock.stopping()
    assert clock.wait(5)
    assert clock.monotonic() == 10
