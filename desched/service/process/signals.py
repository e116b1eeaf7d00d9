"""SIGTERM and SIGINT stop the process cleanly; a second signal ends it at once."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopRequest:
    """The signal that stopped the process; None before."""

    received: signal.Signals | None = None


@contextmanager
def stop_on_signals(stop: Callable[[], None]) -> Iterator[StopRequest]:
    """Call `stop` at the first signal, in the main thread."""
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
