"""What SIGTERM and SIGINT do: ask to stop; a second one ends the process at once."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first signal, from the main thread, wherever that is at the time."""

    def handle(_number: int, _frame: object) -> None:
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        stop()

    before = {number: signal.signal(number, handle) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
