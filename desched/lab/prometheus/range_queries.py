"""Range queries over days: one at a time, in chunks of a bounded number of samples.

Prometheus, Thanos and Mimir limit how much one query may read and return.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import chain
from typing import NamedTuple

from desched.adapters.prometheus.client import PrometheusClient
from desched.errors import AnswerTooLarge
from desched.lab.prometheus.block import Block, Grid, block_of, joined
from desched.lab.prometheus.cache import BlockCache
from desched.promql.sources import CLUSTER_LABELS

MOST_SAMPLES = 1_000_000
"""The maximum number of samples of an answer, which has about 35 MB then."""

LONGEST_CHUNK_SECONDS = 86_400
"""Thanos and Mimir split longer queries anyway."""

COUNTED_TIMES = 8
"""At about so many times the series of an expression are counted before it is read."""

SETTLED_SECONDS = 600
"""The newest samples may still change, such as those of recording rules and of remote writes."""

Progress = Callable[[int, int], None]
"""Called with the number of chunks that are read, and of all."""


class Read(NamedTuple):
    """An expression to read, in chunks; without any series there is nothing to read."""

    expression: str
    chunks: tuple[Grid, ...]


class RangeQueries:
    """Reads expressions of one server; `now` is the current time.

    `warnings` are the distinct warnings of all answers; such answers are not kept. `cluster_values`
    are the values of labels that identify a cluster, "" if a series lacks a label that others have.
    With a `cache`, answers come from there, or are kept there.
    """

    def __init__(
        self,
        client: PrometheusClient,
        now: datetime,
        progress: Progress = lambda _done, _all: None,
    ) -> None:
        self._client = client
        self.cache: BlockCache | None = None
        self._settled_until = int(now.timestamp()) - SETTLED_SECONDS
        self._progress = progress
        self._done = self._all = 0
        self.warnings: dict[str, None] = {}
        self.cluster_values: dict[str, set[str]] = {}

    def plan(self, expression: str, *grids: Grid) -> Read:
        """How to read an expression on some grids, in chunks of at most about MOST_SAMPLES.

        Raises:
            ObservationError: Prometheus did not answer, or answered with an error.
        """
        series = next(filter(None, (self._series(expression, grid) for grid in grids)), 0)
        parts = (grid.chunks(chunk_steps(series, grid.step_seconds)) for grid in grids)
        read = Read(expression, tuple(chain.from_iterable(parts)) if series else ())
        self._all += len(read.chunks)
        return read

    def blocks(self, read: Read) -> Iterator[Block]:
        """The answer, chunk by chunk.

        Raises:
            ObservationError: Prometheus did not answer, or answered with an error.
        """
        for chunk in read.chunks:
            block = self._block(read.expression, chunk)
            if chunk is read.chunks[0]:
                self._learn_clusters(block)
            yield block
            self._done += 1
            self._progress(self._done, self._all)

    def _learn_clusters(self, block: Block) -> None:
        for label in CLUSTER_LABELS:
            values = {labels.get(label, "") for labels in block.labels}
            if values - {""}:
                self.cluster_values.setdefault(label, set()).update(values)

    def _series(self, expression: str, grid: Grid) -> int:
        """How many series the expression has, at most, at some times of the grid."""
        apart = max(1, (grid.steps - 1) // COUNTED_TIMES) * grid.step_seconds
        few = Grid(grid.begin + (grid.end - grid.begin) % apart, grid.end, apart)
        counted = self._block(f"count({expression})", few)
        return int(max(counted.values, default=0))

    def _block(self, expression: str, grid: Grid) -> Block:
        kept = self.cache.find(expression, grid) if self.cache else None
        if kept is not None:
            return kept
        try:
            answer = self._client.query_samples(expression, *grid)
        except AnswerTooLarge:
            if grid.steps == 1:
                raise
            return joined(grid, [self._block(expression, halve) for halve in _halves(grid)])
        self.warnings |= dict.fromkeys(answer.warnings)
        block = block_of(grid, answer.series)
        if self.cache and not answer.warnings and grid.end <= self._settled_until:
            self.cache.keep(expression, block)
        return block


def chunk_steps(series: int, step_seconds: int) -> int:
    """The number of times of a chunk: a power of two, so that a few series more change nothing."""
    most = min(MOST_SAMPLES // max(1, series), LONGEST_CHUNK_SECONDS // step_seconds)
    return 1 << (max(1, most).bit_length() - 1)


def _halves(grid: Grid) -> tuple[Grid, Grid]:
    middle = grid.begin + (grid.steps // 2) * grid.step_seconds
    return grid._replace(end=middle - grid.step_seconds), grid._replace(begin=middle)
