"""The recent load of nodes: range queries for the whole cluster."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from desched.adapters.prometheus.client import Grid
from desched.adapters.prometheus.cycle_queries import CycleQueries, Query
from desched.adapters.prometheus.data_quality import HIGHEST_RATIO, LOWEST_RATIO
from desched.adapters.prometheus.nodes import NodeIndex
from desched.adapters.prometheus.queries import own_query
from desched.model.load import LoadHistory
from desched.model.resources import Resource
from desched.policy.policy import DestinationWindow, HistoryGrid, ResourceRule

LAST_HOUR = HistoryGrid(steps=12, step_seconds=300)
"""What is read for people."""

MOST_STEPS = 60
"""Of a destination window; longer windows are read in wider steps, or by a recording rule."""

COVERED_SHARE = 0.8
"""Of the points that a destination window must have."""

Points = tuple[float | None, ...]


SETTLED_SECONDS = 60
"""So long after a point, samples that count for it may still arrive; it is read once more."""


class _Past(NamedTuple):
    """The points of each node from `first` to `last`, Unix seconds that are multiples of a step."""

    first: int
    last: int
    points: Mapping[str, Points]


class KeptPoints:
    """What was read of the past, so that a later cycle reads only what is newer.

    Points are at multiples of the step, so what is kept is what another process would read. Only
    those of the latest queries stay, of nodes that had a load in the meantime.
    """

    def __init__(self) -> None:
        self._by_query: dict[tuple[str, int], _Past] = {}

    def since(self, promql: str, step_seconds: int, first: int, last: int) -> _Past:
        """What is kept of the points from `first` on; none of them is after `last`."""
        kept = self._by_query.get((promql, step_seconds))
        if kept is None or not kept.first <= first <= kept.last <= last:
            return _Past(first, first - step_seconds, {})
        gone = (first - kept.first) // step_seconds
        return _Past(first, kept.last, {node: of[gone:] for node, of in kept.points.items()})

    def keep(self, found: Mapping[str, _Past], step_seconds: int, now: int) -> None:
        """Keep these points, by query, without those that may change."""
        self._by_query = {}
        for promql, past in found.items():
            young = max(0, -(-(past.last - now + SETTLED_SECONDS) // step_seconds))
            points = {node: of[: len(of) - young] for node, of in past.points.items()}
            known = {n: of for n, of in points.items() if any(ratio is not None for ratio in of)}
            settled = _Past(past.first, past.last - young * step_seconds, known)
            self._by_query[promql, step_seconds] = settled


class LoadTracks(NamedTuple):
    """The recent load of nodes; `expressions` read it over the shortest window of each resource."""

    queries: CycleQueries
    nodes: NodeIndex
    expressions: Mapping[Resource, Query]

    def history(self, grid: HistoryGrid) -> dict[Resource, dict[str, LoadHistory]]:
        """The load of each node at these points.

        If a node has several series, the lowest value counts: it leads to fewer evictions.
        """
        parts = {f"{resource}_load": query for resource, query in self.expressions.items()}
        grids = self.queries.grids(parts, *grid)
        return {
            resource: {
                node: LoadHistory(grid.step_seconds, points)
                for node, points in self._by_node(grids[f"{resource}_load"], min).items()
            }
            for resource in self.expressions
        }

    def until_now(
        self, grid: HistoryGrid, kept: KeptPoints, now: Mapping[str, Mapping[Resource, float]]
    ) -> dict[Resource, dict[str, LoadHistory]]:
        """The load of each node at multiples of the grid's step, as far back, and now.

        `now` is the present load by node. Points that are kept are not read again.
        """
        at, step = self.queries.evaluated_at, grid.step_seconds
        if at is None:
            return {}
        end = int(at.timestamp())
        last = (end - 1) // step * step
        first = last - grid.steps * step
        past = {r: kept.since(q.promql, step, first, last) for r, q in self.expressions.items()}
        for begin in {each.last for each in past.values()} - {last}:
            behind = [resource for resource, each in past.items() if each.last == begin]
            parts = {f"{resource}_load": self.expressions[resource] for resource in behind}
            missing = (last - begin) // step
            grids = self.queries.grids(parts, missing - 1, step, end - last)
            for resource in behind:
                new = self._by_node(grids[f"{resource}_load"], min)
                past[resource] = _extended(past[resource], new, missing, last)
        if not self.queries.warnings:
            kept.keep({q.promql: past[r] for r, q in self.expressions.items()}, step, end)
        return {
            resource: {
                node: LoadHistory(step, (*of, now.get(node, {}).get(resource)), end - last)
                for node, of in each.points.items()
            }
            for resource, each in past.items()
        }

    def destination_ratios(
        self, rule: ResourceRule, own: str | None
    ) -> dict[str, tuple[float | None, ...]]:
        """For each node one value per destination window; `own` is the user's query for them.

        If a node has several series, the highest value counts.
        """
        if own is None:
            columns = self._computed(rule)
        else:
            columns = [self._asked(own, w.window_seconds) for w in rule.destination_windows]
        nodes = sorted({node for column in columns for node in column})
        return {node: tuple(column.get(node) for column in columns) for node in nodes}

    def _asked(self, own: str, window_seconds: int) -> dict[str, float | None]:
        series = self.queries.vector(own_query(own, window_seconds))
        grids = (Grid(one.labels, (one.value,)) for one in series)
        return {node: points[0] for node, points in self._by_node(grids, max).items()}

    def _computed(self, rule: ResourceRule) -> list[dict[str, float | None]]:
        steps_of = [_steps(w, rule.windows_seconds[0]) for w in rule.destination_windows]
        part = {"load": self.expressions[rule.resource]}
        grids = {
            steps: self.queries.grids(part, *steps)["load"] for steps in dict.fromkeys(steps_of)
        }
        columns = []
        for window, steps in zip(rule.destination_windows, steps_of, strict=True):
            found: dict[str, float | None] = {}
            for node, points in self._by_node(grids[steps], max).items():
                known = [point for point in points if point is not None]
                if len(known) >= COVERED_SHARE * len(points):
                    found[node] = window.of(known)
            columns.append(found)
        return columns

    def _by_node(
        self, grids: Iterable[Grid], choose: Callable[[Iterable[float]], float]
    ) -> dict[str, Points]:
        found: dict[str, Points] = {}
        for grid in grids:
            node = self.nodes.resolve(grid.labels)
            if node is None:
                continue
            points = tuple(map(_plausible, grid.values))
            if node in found:
                both = zip(found[node], points, strict=True)
                known = ([point for point in pair if point is not None] for pair in both)
                points = tuple(choose(pair) if pair else None for pair in known)
            found[node] = points
        return found


def _extended(past: _Past, new: Mapping[str, Points], count: int, last: int) -> _Past:
    """The past with so many newer points, the last of them at this time."""
    step_seconds = (last - past.last) // count
    unread: Points = (None,) * ((past.last - past.first) // step_seconds + 1)
    points = {
        node: past.points.get(node, unread) + new.get(node, (None,) * count)
        for node in past.points.keys() | new.keys()
    }
    return _Past(past.first, last, points)


def _steps(window: DestinationWindow, shortest_window_seconds: int) -> tuple[int, int]:
    """The number of steps of a range query, and their length in seconds."""
    step_seconds = max(shortest_window_seconds, -(-window.window_seconds // MOST_STEPS))
    return max(1, window.window_seconds // step_seconds), step_seconds


def _plausible(ratio: float | None) -> float | None:
    """The ratio within its bounds; None if it is impossible, such as NaN."""
    if ratio is None or not LOWEST_RATIO <= ratio <= HIGHEST_RATIO:
        return None
    return min(max(ratio, 0.0), 1.0)
