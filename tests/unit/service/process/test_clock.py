import threading
from datetime import UTC

from desched.service.process.clock import SystemClock


def test_the_time_is_in_utc_and_the_monotonic_clock_does_not_run_backwards():
    clock = SystemClock()
    assert clock.now().tzinfo is UTC
    first = clock.monotonic()
    assert clock.monotonic() >= first


def test_waiting_ends_with_the_time_without_a_stop():
    clock = SystemClock()
    assert clock.wait(0.001) is False
    assert clock.stopping() is False


def test_a_stop_wakes_every_waiting_thread():
    clock = SystemClock()
    woken = []
    waiters = [threading.Thread(target=lambda: woken.append(clock.wait(60))) for _ in range(3)]
    for waiter in waiters:
        waiter.start()
    clock.stop()
    for waiter in waiters:
        waiter.join(timeout=60)
    assert woken == [True, True, True]


def test_once_stopped_nothing_waits_any_more():
    clock = SystemClock()
    clock.stop()
    clock.stop()
    assert clock.wait(60) is True
    assert clock.wait(60) is True
    assert clock.stopping() is True
