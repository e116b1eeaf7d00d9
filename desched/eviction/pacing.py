"""The rate of evictions, and the waits after refusals, in seconds of the monotonic clock."""

import math

BURST = 5
"""The number of evictions that may begin at once; fewer if the policy allows fewer in a minute."""

FIRST_WAIT_SECONDS = 5.0
LONGEST_WAIT_SECONDS = 60.0

SOON_SECONDS = 0.001


def is_ahead(due: float, now: float) -> bool:
    """Whether a time is far enough in the future to wait for it."""
    return due - now > SOON_SECONDS


class Rate:
    """A token bucket: at most `per_minute` plus the burst begin in any minute; None is no limit.

    The bucket is stored as the time when it will be full again.
    """

    def __init__(self, per_minute: int | None) -> None:
        self._interval = 60.0 / per_minute if per_minute else 0.0
        self._tolerance = (min(BURST, per_minute) - 1) * self._interval if per_minute else 0.0
        self._full_at = -math.inf

    @property
    def next_at(self) -> float:
        """When the next request may begin; a time in the past means at once."""
        return self._full_at - self._tolerance

    @property
    def full_at(self) -> float:
        """When no earlier request counts any more."""
        return self._full_at

    def free(self, now: float) -> int:
        """Return how many requests may begin now, up to the burst."""
        if not self._interval:
            return BURST
        spare_seconds = now + SOON_SECONDS - max(self._full_at, now) + self._tolerance
        return max(0, min(BURST, 1 + math.floor(spare_seconds / self._interval)))

    def take(self, now: float) -> None:
        """Count a request that begins now."""
        self._full_at = max(self._full_at, now) + self._interval


class Patience:
    """Waits after refusals, by budget or workload; each is twice as long, up to a minute."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}
        self._next_wait: dict[str, float] = {}

    def due(self, key: str) -> float:
        """When to try again; a time in the past means at once."""
        return self._due.get(key, -math.inf)

    def refused(self, key: str, now: float) -> None:
        """Wait before the next try; further refusals during the wait change nothing."""
        if is_ahead(self.due(key), now):
            return
        seconds = self._next_wait.get(key, FIRST_WAIT_SECONDS)
        self._due[key] = now + seconds
        self._next_wait[key] = min(2 * seconds, LONGEST_WAIT_SECONDS)

    def accepted(self, key: str) -> None:
        """Start again with the first wait."""
        self._next_wait.pop(key, None)
