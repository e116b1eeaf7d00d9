"""What SIGTERM and SIGINT do: ask to stop; a second one ends the process at once."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopRequest:
    """Which signal asked to stop; None as long as none did."""

    received: signal.Signals | None = None


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[StopRequest]:
    """Call `stop` at the first signal, from the main thread, wherever that is at the time."""
    request = StopRequest()

    def handle(number: int, _frame: object) -> None:
        for each in STOP_SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        request.received = signal.Signals(number)
        stop()

    before = {number: signal.signal(number, handle) for number in STOP_SIGNALS}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
