"""How fast evictions may follow one another, and how long what was refused is left alone.

All times are seconds of the monotonic clock.
"""

import math

BURST = 5
"""So many may begin at once before the rate holds; fewer where less are allowed in a minute."""

FIRST_WAIT_SECONDS = 5.0
LONGEST_WAIT_SECONDS = 60.0

SOON_SECONDS = 0.001


def is_ahead(due: float, now: float) -> bool:
    """Whether a time is far enough ahead to be waited for."""
    return due - now > SOON_SECONDS


class Rate:
    """At most so many requests a minute, evenly, after a first few at once; None is no limit.

    A token bucket: in any minute begin at most `per_minute` and the burst. It is kept as the time
    at which the bucket would be full again.
    """

    def __init__(self, per_minute: int | None) -> None:
        self._interval = 60.0 / per_minute if per_minute else 0.0
        self._tolerance = (min(BURST, per_minute) - 1) * self._interval if per_minute else 0.0
        self._full_at = -math.inf

    @property
    def next_at(self) -> float:
        """When the next request may begin; a time in the past is at once."""
        return self._full_at - self._tolerance

    def take(self, now: float) -> None:
        """Count a request that begins now."""
        self._full_at = max(self._full_at, now) + self._interval


class Patience:
    """Waits for what has no room now, each twice as long as the one before, up to a minute."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}
        self._next_wait: dict[str, float] = {}

    def due(self, key: str) -> float:
        """When to try again; a time in the past is at once."""
        return self._due.get(key, -math.inf)

    def refused(self, key: str, now: float) -> None:
        """Wait before the next try; a further refusal while waiting changes nothing."""
        if is_ahead(self.due(key), now):
            return
        seconds = self._next_wait.get(key, FIRST_WAIT_SECONDS)
        self._due[key] = now + seconds
        self._next_wait[key] = min(2 * seconds, LONGEST_WAIT_SECONDS)

    def accepted(self, key: str) -> None:
        """There was room: the next refusal is the first again."""
        self._next_wait.pop(key, None)
