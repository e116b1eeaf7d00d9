"""Virtual time, which passes at once."""

import heapq
import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class VirtualClock:
    """The Clock port for simulations: waiting advances the time and runs due actions."""

    def __init__(self, start: datetime = EPOCH) -> None:
        self._start = start
        self._elapsed = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()  # actions due at the same time run in this order
        self._stopping = False

    def now(self) -> datetime:
        """The virtual time, in UTC."""
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        """Seconds since the simulation began."""
        return self._elapsed

    def wait(self, seconds: float) -> bool:
        """Let the time pass, and return true if the process must stop."""
        self.advance(seconds)
        return self._stopping

    def stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stopping

    def stop(self) -> None:
        """Make the process stop, as SIGTERM does."""
        self._stopping = True

    def call_later(self, seconds: float, action: Callable[[], None]) -> None:
        """Schedule an action."""
        heapq.heappush(self._due, (self._elapsed + seconds, next(self._order), action))

    def advance(self, seconds: float) -> None:
        """Let the time pass; during an action, the clock shows the time at which it was due."""
        end = self._elapsed + seconds
        while self._due and self._due[0][0] <= end:
            at, _, action = heapq.heappop(self._due)
            self._elapsed = max(self._elapsed, at)
            action()
        self._elapsed = max(self._elapsed, end)
