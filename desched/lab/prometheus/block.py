"""The answer for one expression and one stretch of time, as one array."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from desched.adapters.prometheus.client import Samples

Labels = Mapping[str, str]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_NO_NUMBERS: Integers = np.zeros(0, dtype=np.int64)


class Grid(NamedTuple):
    """Regular times in Unix seconds: `begin`, one step later, and so on until `end`."""

    begin: int
    end: int
    step_seconds: int

    @property
    def steps(self) -> int:
        """The number of times."""
        return (self.end - self.begin) // self.step_seconds + 1

    def chunks(self, steps: int) -> Iterator["Grid"]:
        """The grid in parts of at most this number of times.

        Their borders do not depend on where the grid begins and ends, so that another grid has the
        same parts inside.
        """
        begin = self.begin
        while begin <= self.end:
            left = steps - begin // self.step_seconds % steps
            end = min(begin + (left - 1) * self.step_seconds, self.last)
            yield Grid(begin, end, self.step_seconds)
            begin = end + self.step_seconds

    @property
    def last(self) -> int:
        """The last time."""
        return self.begin + (self.steps - 1) * self.step_seconds


class Block(NamedTuple):
    """Series on a grid: row i has `counts[i]` values from time number `firsts[i]` of the grid on.

    The values of all rows follow each other in `values`; NaN where a series has none.
    """

    grid: Grid
    labels: Sequence[Labels]
    firsts: Integers
    counts: Integers
    values: Floats

    @property
    def lowest(self) -> Floats:
        """The lowest value of each row."""
        return self._reduced(np.fmin)

    @property
    def highest(self) -> Floats:
        """The highest value of each row."""
        return self._reduced(np.fmax)

    @property
    def newest(self) -> Floats:
        """The last value of each row."""
        return self.values[np.cumsum(self.counts) - 1]

    def _reduced(self, function: np.ufunc) -> Floats:
        starts = np.cumsum(self.counts) - self.counts
        reduced: Floats = function.reduceat(self.values, starts) if len(starts) else np.zeros(0)
        return reduced

    def rows(self) -> Iterator[tuple[Labels, int, Floats]]:
        """Each series: its labels, the number of its first time, and its values."""
        ends = np.cumsum(self.counts)
        places = zip(
            self.firsts.tolist(), (ends - self.counts).tolist(), ends.tolist(), strict=True
        )
        for labels, (first, begin, end) in zip(self.labels, places, strict=True):
            yield labels, first, self.values[begin:end]


def block_of(grid: Grid, series: Sequence[Samples]) -> Block:
    """The block of an answer; samples at other times than those of the grid are left out."""
    nothing = [np.zeros(0)]
    steps = np.concatenate(nothing + [one.times for one in series])
    steps = (steps - grid.begin) / grid.step_seconds
    values = np.concatenate(nothing + [one.values for one in series])
    row_of = np.repeat(np.arange(len(series)), [len(one.times) for one in series])
    on_grid = (steps == np.floor(steps)) & (steps >= 0) & (steps < grid.steps)
    places, values, row_of = steps[on_grid].astype(np.int64), values[on_grid], row_of[on_grid]
    rows, starts = np.unique(row_of, return_index=True)
    if not len(rows):
        return Block(grid, [], _NO_NUMBERS, _NO_NUMBERS, np.zeros(0))
    firsts, lasts = (function.reduceat(places, starts) for function in (np.minimum, np.maximum))
    counts = lasts - firsts + 1
    begins = np.cumsum(counts) - counts
    block_values = np.full(int(counts.sum()), np.nan)
    sizes = np.diff(starts, append=len(places))
    block_values[places + np.repeat(begins - firsts, sizes)] = values
    return Block(grid, [series[row].labels for row in rows.tolist()], firsts, counts, block_values)


def joined(grid: Grid, blocks: Sequence[Block]) -> Block:
    """The blocks of the parts of a grid as one block of more rows."""
    shifts = [(block.grid.begin - grid.begin) // grid.step_seconds for block in blocks]
    firsts = [each.firsts + shift for each, shift in zip(blocks, shifts, strict=True)]
    return Block(
        grid,
        [labels for block in blocks for labels in block.labels],
        np.concatenate([_NO_NUMBERS, *firsts]),
        np.concatenate([_NO_NUMBERS, *(block.counts for block in blocks)]),
        np.concatenate([np.zeros(0), *(block.values for block in blocks)]),
    )
