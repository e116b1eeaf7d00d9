"""Samples of one node or pod, and what they say about any stretch of time."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import starmap
from typing import NamedTuple

MILLIONTHS = 1_000_000
"""The unit of shares, because kept samples are rounded to whole numbers."""

SET_BACK_SECONDS = 180.0
"""A sample that is this much older than the one before comes from a clock that was set back.

One of another replica of metrics-server may be older by its resolution, a minute, and some more.
"""


class Sample(NamedTuple):
    """Usage over `seconds` that ended `at` a time, in seconds since 1970.

    CPU is the mean over these seconds, in millicores; memory is that at their end, in bytes. Both
    are in millionths of a node's capacity where the source has only shares.
    """

    at: float
    seconds: float
    cpu: float
    memory: float


class Mean(NamedTuple):
    """Mean usage over the part of a stretch that samples cover."""

    covered_seconds: float
    cpu: float
    memory: float


class Track:
    """The kept samples of one node or pod, oldest first."""

    __slots__ = ("_columns",)

    def __init__(self, samples: Iterable[Sample] = ()) -> None:
        self._columns = tuple(array("d") for _ in Sample._fields)
        for sample in samples:
            self.add(sample)

    def __iter__(self) -> Iterator[Sample]:
        return starmap(Sample, zip(*self._columns, strict=True))

    @property
    def newest_at(self) -> float | None:
        """The end of the newest sample, None without any."""
        ends = self._columns[0]
        return ends[-1] if ends else None

    @property
    def newest_cpu(self) -> float:
        """The CPU usage of the newest sample, 0 without any."""
        usage = self._columns[2]
        return usage[-1] if usage else 0.0

    def add(self, sample: Sample) -> None:
        """Add a sample; one that is known already changes nothing."""
        newest = self.newest_at
        if newest is not None and sample.at <= newest:
            if sample.at > newest - SET_BACK_SECONDS:
                return
            self.forget_before(float("inf"))
        for column, value in zip(self._columns, sample, strict=True):
            column.append(value)

    def forget_before(self, at: float) -> None:
        """Forget the samples that ended before a time."""
        gone = bisect_left(self._columns[0], at)
        for column in self._columns:
            del column[:gone]

    def curve(self, longest_gap_seconds: float, since: float) -> "Curve":
        """The usage over time, by the samples that ended after a time."""
        return Curve((s for s in self if s.at > since), longest_gap_seconds, since)


class Curve:
    """Usage over time: each sample stands for the time since the one before.

    After a longer gap it stands only for the seconds that it measured; the rest is not covered.
    Nothing is covered before `since`.
    """

    def __init__(self, samples: Iterable[Sample], longest_gap_seconds: float, since: float) -> None:
        self._samples: list[tuple[float, Sample]] = []
        self._ends: list[float] = []
        self._sums: list[tuple[float, float, float]] = []
        before, sums = since, (0.0, 0.0, 0.0)
        for sample in samples:
            gap = sample.at - before
            is_close = bool(self._ends) and gap <= longest_gap_seconds
            stands = gap if is_close else min(sample.seconds, gap)
            self._samples.append((sample.at - stands, sample))
            self._ends.append(sample.at)
            sums = _plus(sums, sample, stands)
            self._sums.append(sums)
            before = sample.at

    def mean(self, begin: float, end: float) -> Mean | None:
        """The mean usage between two times, None if no sample covers any of it."""
        until, from_ = self._sum_to(end), self._sum_to(begin)
        covered, cpu, memory = (a - b for a, b in zip(until, from_, strict=True))
        if covered <= 0.0:
            return None
        return Mean(covered, cpu / covered, memory / covered)

    def _sum_to(self, at: float) -> tuple[float, float, float]:
        index = bisect_left(self._ends, at)
        before = self._sums[index - 1] if index else (0.0, 0.0, 0.0)
        if index == len(self._ends):
            return before
        begin, sample = self._samples[index]
        return _plus(before, sample, max(0.0, at - begin))


def _plus(
    sums: tuple[float, float, float], sample: Sample, seconds: float
) -> tuple[float, float, float]:
    covered, cpu, memory = sums
    return (
        covered + seconds,
        cpu + sample.cpu * seconds,
        memory + sample.memory * seconds,
    )
