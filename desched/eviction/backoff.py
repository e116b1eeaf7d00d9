"""How long something is left alone: twice as long each time, up to a longest wait."""

from datetime import timedelta
from typing import NamedTuple

_HIGHEST_LEVEL = 32  # a longer wait than any policy allows, however short the first one is


class Backoff(NamedTuple):
    """Waits that double from level to level."""

    first_seconds: int
    longest_seconds: int

    def wait(self, level: int) -> timedelta:
        """How long to wait at a level; 0 is the first."""
        doubled_seconds = self.first_seconds * 2 ** max(0, min(level, _HIGHEST_LEVEL))
        return timedelta(seconds=min(doubled_seconds, self.longest_seconds))

    def raised(self, level: int) -> int:
        """The next level; none is above the longest wait, so that a few successes lead back."""
        longest = self.wait(level).total_seconds() >= self.longest_seconds
        return level if longest else level + 1
