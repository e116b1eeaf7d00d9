"""The one place that reads the time."""

import time
from datetime import UTC, datetime
from queue import Empty, SimpleQueue

_BOOT_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)  # Linux only


def seconds_since_boot() -> float:
    """Like the monotonic clock, but it goes on while the machine is suspended, where it can."""
    return time.monotonic() if _BOOT_CLOCK is None else time.clock_gettime(_BOOT_CLOCK)


class SystemClock:
    """The Clock port on the machine's clocks; `stop` may be called from a signal handler.

    The wake-up goes through a SimpleQueue because its `put` is reentrant: an Event would deadlock
    if the signal arrived while the interrupted thread holds the Event's lock.
    """

    def __init__(self) -> None:
        self._stopping = False
        self._wake_ups: SimpleQueue[None] = SimpleQueue()

    def now(self) -> datetime:
        """The wall-clock time, in UTC."""
        return datetime.now(UTC)  # noqa: TID251  (this is the Clock port)

    def monotonic(self) -> float:
        """Seconds that never run backwards."""
        return time.monotonic()

    def wait(self, seconds: float) -> bool:
        """Wait, and return true early if the process has been asked to stop."""
        if not self._stopping:
            try:
                self._wake_ups.get(timeout=seconds)
            except Empty:
                return self._stopping
            self._wake_ups.put(None)  # whoever else waits has to wake up too
        return self._stopping

    def stopping(self) -> bool:
        """Whether the process has been asked to stop."""
        return self._stopping

    def stop(self) -> None:
        """Ask the process to stop: no eviction begins from now on."""
        self._stopping = True
        self._wake_ups.put(None)
