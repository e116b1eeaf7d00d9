"""The logbook after further cycles, and the same in wider steps."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from desched.history.forecasts import after_cycle, both
from desched.history.logbook import (
    HIGHEST_PERCENT,
    KEPT,
    LONGEST_STEP_SECONDS,
    MOST_COUNTED,
    MOST_MOVES,
    SHORTEST_STEP_SECONDS,
    UNKNOWN,
    Entry,
    Logbook,
    LoggedLoad,
    LoggedMove,
    LoggedStep,
    SeenNode,
)
from desched.history.timeline import Lines
from desched.model.resources import Resource

SAME_MOVE = timedelta(hours=2)
"""A dry run that plans an eviction again within this time plans the same one."""

FAR_AHEAD = timedelta(hours=1)
_GOLDEN_RATIO = 0.618034

Bytes = NDArray[np.uint8]


def updated(book: Logbook | None, entries: Sequence[Entry], longest_gap_seconds: float) -> Logbook:
    """The logbook with further cycles, of which those that are not newer than it are left out.

    If it is far ahead of them, a clock was wrong: what is later than they are goes. A cycle stands
    for the time since the one before, at most for this gap.
    """
    first = entries[0]
    if book is not None and book.newest_at - entries[-1].at > FAR_AHEAD:
        book = _until(book, first.at)
    if book is None:
        number = int(first.at.timestamp()) // SHORTEST_STEP_SECONDS
        book = Logbook(
            target=first.target,
            instance=first.instance,
            newest_at=first.at - timedelta(seconds=longest_gap_seconds),
            step_seconds=SHORTEST_STEP_SECONDS,
            first_step=number,
        )
    draft = _Draft(book)
    for entry in entries:
        if entry.at > draft.newest_at:
            draft.add(entry, longest_gap_seconds)
    return draft.logbook()


def _until(book: Logbook, at: datetime) -> Logbook | None:
    """The steps of the logbook that had ended by then, None if there are none."""
    if book.started_at + timedelta(seconds=book.step_seconds) > at:
        return None
    draft = _Draft(book)
    draft.end(at)
    return draft.logbook()


def smaller(book: Logbook) -> Logbook | None:
    """The logbook in steps of twice the length, or else without its older half; None at the end."""
    if book.step_seconds < LONGEST_STEP_SECONDS:
        draft = _Draft(book)
        draft.double()
        return draft.logbook()
    if len(book.steps) > 1:
        draft = _Draft(book)
        draft.forget(book.first_step + len(book.steps) // 2)
        return draft.logbook()
    if len(book.moves) > 1:
        kept = book.moves[(len(book.moves) + 1) // 2 :]
        return replace(book, moves=kept, moves_since=kept[0].at)
    return None


def as_rows(values: bytes, book: Logbook) -> Bytes:
    """Bytes of a logbook as node x step; callers must not change them."""
    return np.frombuffer(values, dtype=np.uint8).reshape(len(book.nodes), len(book.steps))


class _Draft:
    """A logbook that changes; rows are nodes, columns are steps."""

    def __init__(self, book: Logbook) -> None:
        self._book = book
        self.newest_at = book.newest_at
        self._target, self._instance = book.target, book.instance
        self._step_seconds, self._first = book.step_seconds, book.first_step
        self._rows = {name: row for row, name in enumerate(book.nodes)}
        self._steps = list(book.steps)
        self._moves = list(book.moves)
        self._moves_since = book.moves_since
        self._hour = book.hour
        self._overloaded: Bytes = as_rows(book.overloaded, book).copy()
        self._percents: dict[Resource, Bytes] = {}
        self._lines: dict[Resource, list[Lines | None]] = {}
        for load in book.loads:
            self._percents[load.resource] = as_rows(load.percents, book).copy()
            self._lines[load.resource] = list(load.lines)

    def add(self, entry: Entry, longest_gap_seconds: float) -> None:
        """Add one cycle, which is newer than all others."""
        self.forget(int((entry.at - KEPT).timestamp()) // self._step_seconds)
        number = int(entry.at.timestamp()) // self._step_seconds
        if not self._steps:
            self._first = number
        step = number - self._first
        self._widen(step + 1)
        before = self._steps[step].cycles
        gap = min((entry.at - self.newest_at).total_seconds(), longest_gap_seconds)
        self._hour, forecast = after_cycle(self._hour, entry, gap)
        totals = replace(entry.totals, covered_seconds=gap, forecast=forecast)
        self._steps[step] = _sum(self._steps[step], totals)
        self._add_nodes(entry.nodes, step, before)
        for move in entry.moves:
            self._add_move(move)
        self._settle(entry.settled)
        self.newest_at, self._instance = entry.at, entry.instance
        self._target = entry.target

    def _add_nodes(self, nodes: Sequence[SeenNode], step: int, before: int) -> None:
        self._lengthen(node.name for node in nodes)
        rows = [self._rows[node.name] for node in nodes]
        column = self._overloaded[:, step]
        above = np.zeros(len(column), dtype=bool)
        above[rows] = [node.overloaded for node in nodes]
        column[:] = (
            column + above if before < MOST_COUNTED else _next(column, above * MOST_COUNTED, before)
        )
        found: dict[Resource, list[tuple[int, float]]] = {}
        for row, node in zip(rows, nodes, strict=True):
            for resource, ratio, lines in node.loads:
                found.setdefault(resource, []).append((row, ratio))
                self._of(resource)[1][row] = lines
        for resource, pairs in found.items():
            where = np.array([row for row, _ in pairs])
            now = np.clip(np.array([ratio for _, ratio in pairs]) * 100, 0, HIGHEST_PERCENT)
            column = self._of(resource)[0][:, step]
            old = column[where].astype(np.float64)
            column[where] = np.where(old == UNKNOWN, np.rint(now), _next(old, now, before))

    def _add_move(self, move: LoggedMove) -> None:
        for position in range(len(self._moves) - 1, -1, -1):
            other = self._moves[position]
            if move.at - other.last_at > KEPT:
                break
            if other.pod.uid != move.pod.uid or other.dry_run != move.dry_run:
                continue
            if move.dry_run and move.at - other.last_at <= SAME_MOVE:
                again = replace(other, last_at=move.at, cycles=other.cycles + 1)
                self._moves[position] = again
                return
            break
        self._moves.append(move)

    def _settle(self, settled: Iterable[LoggedMove]) -> None:
        open_moves = {
            move.pod.uid: position
            for position, move in enumerate(self._moves)
            if not move.dry_run and not move.result
        }
        for end in settled:
            position = open_moves.get(end.pod.uid)
            if position is not None:
                self._moves[position] = replace(
                    self._moves[position],
                    landed_on=end.landed_on,
                    settled_at=end.settled_at,
                    result=end.result,
                )

    def double(self) -> None:
        """Make one step of two."""
        if self._first % 2:
            self._steps.insert(0, LoggedStep())
            self._overloaded = np.pad(self._overloaded, ((0, 0), (1, 0)))
            for resource, values in self._percents.items():
                padded = np.pad(values, ((0, 0), (1, 0)), constant_values=UNKNOWN)
                self._percents[resource] = padded
            self._first -= 1
        self._widen(len(self._steps) + len(self._steps) % 2)
        cycles = np.array([step.cycles for step in self._steps])
        pairs = zip(self._steps[::2], self._steps[1::2], strict=True)
        self._steps = [_sum(one, other) for one, other in pairs]
        counts = self._overloaded * np.maximum(cycles / MOST_COUNTED, 1)
        together = np.maximum((cycles[::2] + cycles[1::2]) / MOST_COUNTED, 1)
        both = (counts[:, ::2] + counts[:, 1::2]) / together
        self._overloaded = np.rint(both).astype(np.uint8)
        self._percents = {r: _halved(values, cycles) for r, values in self._percents.items()}
        self._first //= 2
        self._step_seconds *= 2

    def end(self, at: datetime) -> None:
        """Drop all steps that had not ended by then, and later moves."""
        kept = int(at.timestamp()) // self._step_seconds - self._first
        self._steps = self._steps[:kept]
        self._overloaded = self._overloaded[:, :kept]
        self._percents = {r: values[:, :kept] for r, values in self._percents.items()}
        ended = (self._first + len(self._steps)) * self._step_seconds
        self.newest_at = datetime.fromtimestamp(ended, UTC) - timedelta.resolution
        self._moves = [move for move in self._moves if move.last_at <= self.newest_at]

    def forget(self, first: int) -> None:
        """Drop all steps before this one, and nodes of which nothing is left."""
        gone = min(first - self._first, len(self._steps))
        if first <= self._first:
            return
        self._first = first
        self._steps = self._steps[gone:]
        self._overloaded = self._overloaded[:, gone:]
        kept: NDArray[np.bool_] = np.any(self._overloaded, axis=1)
        for resource, values in self._percents.items():
            self._percents[resource] = values[:, gone:]
            kept |= (self._percents[resource] != UNKNOWN).any(axis=1)
        names = [name for name, row in self._rows.items() if kept[row]]
        self._lines = {
            resource: [line for line, keep in zip(lines, kept, strict=True) if keep]
            for resource, lines in self._lines.items()
        }
        self._overloaded = self._overloaded[kept]
        self._percents = {r: values[kept] for r, values in self._percents.items()}
        self._rows = {name: row for row, name in enumerate(names)}

    def logbook(self) -> Logbook:
        """The logbook as it is now, without what is too old."""
        earliest = self.newest_at - KEPT
        self.forget(int(earliest.timestamp()) // self._step_seconds)
        moves = [move for move in self._moves if move.last_at > earliest]
        if len(moves) > MOST_MOVES:
            moves = moves[-MOST_MOVES:]
            self._moves_since = moves[0].at
        return Logbook(
            target=self._target,
            instance=self._instance,
            newest_at=self.newest_at,
            step_seconds=self._step_seconds,
            first_step=self._first,
            nodes=tuple(self._rows),
            loads=tuple(
                LoggedLoad(resource, tuple(self._lines[resource]), values.tobytes())
                for resource, values in self._percents.items()
            ),
            overloaded=self._overloaded.tobytes(),
            steps=tuple(self._steps),
            moves=tuple(moves),
            moves_since=self._moves_since,
            hour=self._hour,
        )

    def _of(self, resource: Resource) -> tuple[Bytes, list[Lines | None]]:
        if resource not in self._percents:
            self._percents[resource] = np.full(self._overloaded.shape, UNKNOWN, dtype=np.uint8)
            self._lines[resource] = [None] * len(self._rows)
        return self._percents[resource], self._lines[resource]

    def _widen(self, steps: int) -> None:
        more = steps - len(self._steps)
        if more <= 0:
            return
        self._steps += [LoggedStep()] * more
        self._overloaded = np.pad(self._overloaded, ((0, 0), (0, more)))
        self._percents = {
            resource: np.pad(values, ((0, 0), (0, more)), constant_values=UNKNOWN)
            for resource, values in self._percents.items()
        }

    def _lengthen(self, names: Iterable[str]) -> None:
        new = [name for name in names if name not in self._rows]
        if not new:
            return
        self._rows |= {name: len(self._rows) + i for i, name in enumerate(new)}
        self._overloaded = np.pad(self._overloaded, ((0, len(new)), (0, 0)))
        for resource, values in self._percents.items():
            padded = np.pad(values, ((0, len(new)), (0, 0)), constant_values=UNKNOWN)
            self._percents[resource] = padded
            self._lines[resource] += [None] * len(new)


def _next(mean: NDArray[Any], value: NDArray[Any], before: int) -> NDArray[np.float64]:
    """The mean of so many cycles with one more, as a whole number.

    It is rounded up or down by turns: to the nearest, it would soon never change again.
    """
    exact = (mean * float(before) + value) / (before + 1)
    threshold = (0.5 + _GOLDEN_RATIO * before) % 1.0
    rounded: NDArray[np.float64] = np.floor(exact + threshold + 1e-9)  # for whole means
    return rounded


def _halved(values: Bytes, cycles: NDArray[np.int64]) -> Bytes:
    """The means of pairs of steps, weighted by their cycles; what is unknown does not count."""
    weights = np.where(values == UNKNOWN, 0, np.maximum(cycles, 1)).astype(np.float64)
    sums = values * weights
    total = weights[:, ::2] + weights[:, 1::2]
    mean = (sums[:, ::2] + sums[:, 1::2]) / np.maximum(total, 1)
    return np.where(total > 0, np.rint(mean), UNKNOWN).astype(np.uint8)


def _sum(one: LoggedStep, other: LoggedStep) -> LoggedStep:
    refused = dict(one.refused)
    for reason, (most, pods) in other.refused.items():
        before = refused.get(reason, (0, 0))
        refused[reason] = (max(before[0], most), before[1] + pods)
    return LoggedStep(
        cycles=one.cycles + other.cycles,
        dry_runs=one.dry_runs + other.dry_runs,
        covered_seconds=one.covered_seconds + other.covered_seconds,
        overloaded=one.overloaded + other.overloaded,
        relieved=one.relieved + other.relieved,
        idle=_counts(one.idle, other.idle),
        refused=refused,
        verdicts=_counts(one.verdicts, other.verdicts),
        forecast=both(one.forecast, other.forecast),
    )


def _counts(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return dict(Counter(one) + Counter(other))
