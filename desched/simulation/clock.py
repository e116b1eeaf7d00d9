"""Virtual time: nothing happens in between, so an hour passes at once."""

import heapq
import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class VirtualClock:
    """The Clock port for simulations: waiting moves time on and does what falls due on the way."""

    def __init__(self, start: datetime = EPOCH) -> None:
        self._start = start
        self._elapsed = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = (
            itertools.count()
        )  # of two things due at once, the earlier planned comes first
        self._stopping = False

    def now(self) -> datetime:
        """The virtual time, in UTC."""
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        """Seconds since the simulation began."""
        return self._elapsed

    def wait(self, seconds: float) -> bool:
        """Let the time pass, and return true if the process has been asked to stop."""
        self.advance(seconds)
        return self._stopping

    def stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stopping

    def stop(self) -> None:
        """Ask the process to stop, as SIGTERM does."""
        self._stopping = True

    def call_later(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something after this many seconds."""
        heapq.heappush(self._due, (self._elapsed + seconds, next(self._order), action))

    def advance(self, seconds: float) -> None:
        """Let the time pass; each action sees the clock at the moment for which it was planned."""
        end = self._elapsed + seconds
        while self._due and self._due[0][0] <= end:
            at, _, action = heapq.heappop(self._due)
            self._elapsed = max(self._elapsed, at)
            action()
        self._elapsed = max(self._elapsed, end)
