"""The recent past at regular times, kept from cycle to cycle, so that no point is read twice.

Times are multiples of the step, so what is kept is what another process would read.
"""

import math
from array import array
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from desched.model.load import LoadHistory, PodPast
from desched.model.resources import Resource
from desched.policy.policy import HistoryGrid

NEAR_SHARE = 0.1
"""Of a window, or of a step if that is shorter: what a cycle measures that near to a regular time
counts for it.

The usage of a pod that came or left in between is wrong there by no more than this share.
"""

FORGOTTEN_AFTER_CYCLES = 6
"""So many cycles after the last one that needs the pods of a node, their past is forgotten."""

MOST_GONE_PODS = 250
"""Of a node, besides those that are on it, because a tenant may create and end any number."""

MOST_GONE_PODS_TOGETHER = 100_000
"""Of all nodes that are kept; they take less than 100 MB."""

LONGEST_NAME = 253
"""The characters that the API server permits."""

K = TypeVar("K")

Points = tuple[float | None, ...]
PodKey = tuple[str, str]
PodResource = tuple[Resource, PodKey]
OfPods = Mapping[PodResource, float]


class Span(NamedTuple):
    """Regular times, multiples of the step, as Unix seconds from the first to the last."""

    first: int
    last: int
    step_seconds: int

    @classmethod
    def before(cls, now: float, grid: HistoryGrid) -> "Span":
        """The times of a history that ends before now."""
        step = grid.step_seconds
        last = (int(now) - 1) // step * step
        return cls(last - grid.steps * step, last, step)

    @property
    def size(self) -> int:
        """The number of times."""
        return (self.last - self.first) // self.step_seconds + 1

    @property
    def times(self) -> range:
        """Each time."""
        return range(self.first, self.last + 1, self.step_seconds)

    @property
    def halves(self) -> tuple["Span", "Span"]:
        """The earlier times and the later ones, of at least two."""
        at = self.times[self.size // 2]
        return self._replace(last=at - self.step_seconds), self._replace(first=at)

    def near(self, now: float, window_seconds: float) -> int | None:
        """The regular time for which counts what is measured now, None if none is near."""
        nearest = round(now / self.step_seconds) * self.step_seconds
        most_seconds = NEAR_SHARE * min(self.step_seconds, window_seconds)
        return nearest if abs(now - nearest) <= most_seconds else None

    def history(self, points: Points, now: float, ratio: float | None) -> LoadHistory:
        """The load at these times and now."""
        return LoadHistory(self.step_seconds, (*points, ratio), int(now) - self.last)


class KeptPoints(Generic[K]):
    """The values of some keys at the times of a span that moves on, and one step after it.

    A time is read once, for all keys.
    """

    def __init__(self, span: Span) -> None:
        self._span = span
        self._read: set[int] = set()
        self._new: set[int] = set()
        self._values: dict[K, array[float]] = {}

    def move(self, span: Span) -> None:
        """Begin a cycle: forget what is before its times, or after a clock that was set back."""
        self._new.clear()
        self._read &= set(span.times) | {span.last + span.step_seconds}
        gone = (span.first - self._span.first) // span.step_seconds
        self._span = span
        if gone:
            moved = ((key, self._moved(values, gone)) for key, values in self._values.items())
            self._values = {k: of for k, of in moved if not all(map(math.isnan, of))}

    def missing(self) -> Span | None:
        """The shortest span with all times that have not been read."""
        left = [at for at in self._span.times if at not in self._read]
        return Span(left[0], left[-1], self._span.step_seconds) if left else None

    def add(self, first: int, count: int, values_of: Mapping[K, Sequence[float | None]]) -> None:
        """Keep so many values of each key; a time that was read before keeps its own."""
        step = self._span.step_seconds
        new = [
            (i, (at - self._span.first) // step)
            for i, at in enumerate(range(first, first + count * step, step))
            if at not in self._read and self._span.first <= at <= self._span.last + step
        ]
        if not new:
            return
        added = {self._span.first + place * step for _, place in new}
        self._read |= added
        self._new |= added
        for key, values in values_of.items():
            for i, place in new:
                if (value := values[i]) is not None:
                    self._row(key)[place] = value

    def read_again_after(self, at: float) -> None:
        """Let later times be read once more, because their values may change."""
        self._read = {time for time in self._read if time <= at}

    def undo(self) -> None:
        """Forget what was added in this cycle."""
        self._read -= self._new
        for at in self._new:
            place = (at - self._span.first) // self._span.step_seconds
            for values in self._values.values():
                values[place] = math.nan
        self._new.clear()

    def keep_only(self, keys: Collection[K]) -> None:
        """Forget all other keys."""
        self._values = {key: of for key, of in self._values.items() if key in keys}

    @property
    def keys(self) -> Iterable[K]:
        """All keys that may have a value."""
        return self._values.keys()

    def points(self, key: K) -> Points:
        """The values at the times of the span."""
        row = self._values.get(key, ())
        return tuple(None if math.isnan(value) else value for value in row[: self._span.size])

    def latest(self, key: K) -> int:
        """The place of the latest value of a key, -1 without any."""
        row = self._values.get(key, ())
        return max((i for i, value in enumerate(row) if not math.isnan(value)), default=-1)

    def all_points(self) -> dict[K, Points]:
        """The values of each key that has any."""
        points_of = ((key, self.points(key)) for key in self._values)
        return {key: of for key, of in points_of if any(value is not None for value in of)}

    def _row(self, key: K) -> "array[float]":
        if key not in self._values:
            self._values[key] = array("d", [math.nan]) * (self._span.size + 1)
        return self._values[key]

    @staticmethod
    def _moved(values: "array[float]", gone: int) -> "array[float]":
        """The values from so many steps later on; before the first one there is nothing."""
        count = len(values)
        unread = array("d", [math.nan]) * min(abs(gone), count)
        return values[gone:] + unread if gone > 0 else (unread + values)[:count]


class KeptTracks:
    """The load of nodes by what it was read with; only that of the latest cycle stays."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Hashable, int, int], KeptPoints[str]] = {}
        self._used: set[tuple[Hashable, int, int]] = set()

    def begin(self) -> None:
        """Begin a cycle."""
        self._kept = {key: kept for key, kept in self._kept.items() if key in self._used}
        self._used = set()

    def of(self, read_with: Hashable, span: Span) -> KeptPoints[str]:
        """The points of nodes at these times."""
        key = read_with, span.size, span.step_seconds
        self._used.add(key)
        points = self._kept.setdefault(key, KeptPoints(span))
        points.move(span)
        return points

    def undo(self) -> None:
        """Forget what was added in this cycle."""
        for key in self._used:
            self._kept[key].undo()


class KeptPasts:
    """The past of the pods on the nodes that some cycle has lately needed."""

    def __init__(self) -> None:
        self._read_with: Hashable = None
        self._cycle = 0
        self._span = Span(0, 0, 1)
        self._nodes: dict[str, KeptPoints[PodResource]] = {}
        self._used: dict[str, int] = {}

    def begin(self, read_with: Hashable, span: Span) -> None:
        """Begin a cycle that reads these times; what was read with something else is forgotten."""
        read_with = read_with, span.size, span.step_seconds
        if read_with != self._read_with:
            self._read_with, self._nodes, self._used = read_with, {}, {}
        self._cycle += 1
        self._span = span
        since = self._cycle - FORGOTTEN_AFTER_CYCLES
        self._used = {node: at for node, at in self._used.items() if at >= since}
        self._nodes = {node: of for node, of in self._nodes.items() if node in self._used}

    def of(self, node: str) -> KeptPoints[PodResource]:
        """The points of the pods of a node, which this cycle needs."""
        if self._used.get(node) != self._cycle:
            self._used[node] = self._cycle
            self._nodes.setdefault(node, KeptPoints(self._span)).move(self._span)
        return self._nodes[node]

    def undo(self) -> None:
        """Forget what was added in this cycle."""
        for node, at in self._used.items():
            if at == self._cycle:
                self._nodes[node].undo()

    def pasts(
        self, now: Mapping[str, OfPods], node_of: Callable[[PodKey], str | None]
    ) -> dict[PodKey, PodPast]:
        """The past of the pods of the nodes in `now`, which has their present usage.

        `node_of` is where a pod is, None if it is gone. A pod that is elsewhere has no past here.
        Where a gone one has been on several of the nodes at a time, nothing is known of it.
        """
        found: dict[PodResource, Points] = {}
        where: dict[PodKey, str] = {}
        most_gone = min(MOST_GONE_PODS, MOST_GONE_PODS_TOGETHER // max(1, len(self._nodes)))
        for node, of_now in now.items():
            points = self.of(node)
            bounded = _bounded(node, points, node_of, most_gone)
            points.keep_only(bounded)
            count = self._span.size
            for key in bounded | {key for key in of_now if node_of(key[1]) == node}:
                past = points.points(key) or (None,) * count
                own = (*past, of_now.get(key))
                found[key] = _of_both(found[key], own) if key in found else own
                where[key[1]] = node if where.get(key[1], node) == node else ""
        cpu, memory = _OF_PODS
        pods = {pod for (_, pod), of in found.items() if any(value is not None for value in of)}
        return {
            pod: PodPast(found.get((cpu, pod), ()), found.get((memory, pod), ()), where[pod])
            for pod in sorted(pods)
        }


_OF_PODS = (Resource.CPU, Resource.MEMORY)


def _bounded(
    node: str,
    points: KeptPoints[PodResource],
    node_of: Callable[[PodKey], str | None],
    most_gone: int,
) -> set[PodResource]:
    """What is kept of a node: its pods, and of those that are gone the latest ones."""
    keys = set(points.keys)
    pods = {pod for _, pod in keys}
    on_node = {pod for pod in pods if node_of(pod) == node}
    gone = [pod for pod in pods if node_of(pod) is None and max(map(len, pod)) <= LONGEST_NAME]
    if len(gone) > most_gone:
        latest = {pod: max(points.latest((r, pod)) for r in _OF_PODS) for pod in gone}
        gone = sorted(gone, key=lambda pod: (-latest[pod], pod))[:most_gone]
    kept = on_node.union(gone)
    return {key for key in keys if key[1] in kept}


def _of_both(one: Points, other: Points) -> Points:
    """The values that only one of them has."""
    return tuple(
        b if a is None else a if b is None else None for a, b in zip(one, other, strict=True)
    )
