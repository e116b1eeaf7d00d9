"""The only place that reads the time."""

import time
from datetime import UTC, datetime
from queue import Empty, SimpleQueue

_BOOT_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)  # Linux only


def seconds_since_boot() -> float:
    """The monotonic clock, including the time in which the machine is suspended if possible."""
    return time.monotonic() if _BOOT_CLOCK is None else time.clock_gettime(_BOOT_CLOCK)


class SystemClock:
    """The Clock port with the machine's clocks; a signal handler may call `stop`.

    SimpleQueue wakes the waiting threads, because its `put` is reentrant: an Event would deadlock
    if the signal interrupted a thread that holds the Event's lock.
    """

    def __init__(self) -> None:
        self._stopping = False
        self._wake_ups: SimpleQueue[None] = SimpleQueue()

    def now(self) -> datetime:
        """The wall-clock time, in UTC."""
        return datetime.now(UTC)  # noqa: TID251  (this is the Clock port)

    def monotonic(self) -> float:
        """Seconds that never decrease."""
        return time.monotonic()

    def wait(self, seconds: float) -> bool:
        """Wait, and return true early if the process must stop."""
        if not self._stopping:
            try:
                self._wake_ups.get(timeout=seconds)
            except Empty:
                return self._stopping
            self._wake_ups.put(None)  # wake up the other threads, too
        return self._stopping

    def stopping(self) -> bool:
        """Whether the process must stop."""
        return self._stopping

    def stop(self) -> None:
        """Stop the process: no eviction starts from now on."""
        self._stopping = True
        self._wake_ups.put(None)
