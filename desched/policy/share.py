"""Counts that are given as a share of a whole."""

import math
from functools import lru_cache

import msgspec


class Share(msgspec.Struct, frozen=True):
    """A part of a whole, never below `at_least` and never above `at_most`.

    It is rounded down, with `rounded_up` it is rounded up.
    """

    ratio: float
    at_most: int | None = None
    at_least: int = 1
    rounded_up: bool = False

    def of(self, whole: int) -> int:
        """The count for a whole of this size."""
        exact = round(whole * self.ratio, 6)  # the product of 100 and 0.29 is a little below 29
        part = max(self.at_least, math.ceil(exact) if self.rounded_up else math.floor(exact))
        return part if self.at_most is None else min(part, self.at_most)


@lru_cache(maxsize=1024)  # asked for every pod, of few limits and sizes
def count_of(limit: int | Share | None, whole: int) -> int | None:
    """The limit as a number for a whole of this size, None if there is no limit."""
    return limit.of(whole) if isinstance(limit, Share) else limit
