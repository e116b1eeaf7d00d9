"""The recent load of nodes: range queries for the whole cluster."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from desched.adapters.kept_history import KeptTracks, Points, Span
from desched.adapters.prometheus.client import Grid
from desched.adapters.prometheus.cycle_queries import CycleQueries, Query
from desched.adapters.prometheus.nodes import NodeIndex
from desched.adapters.prometheus.queries import own_query
from desched.model.load import LoadHistory
from desched.model.resources import Resource
from desched.policy.policy import DestinationWindow, HistoryGrid, ResourceRule
from desched.promql.data_quality import HIGHEST_RATIO, LOWEST_RATIO, Sighting

LAST_HOUR = HistoryGrid(steps=12, step_seconds=300)
"""What is read for people."""

MOST_STEPS = 60
"""Of a destination window; longer windows are read in wider steps, or by a recording rule."""

COVERED_SHARE = 0.8
"""Of the points that a destination window must have."""


class Now(NamedTuple):
    """The present load of nodes by a resource: as it was measured, and where it is known."""

    measured: Mapping[str, float]
    known: Mapping[str, float]


class LoadTracks(NamedTuple):
    """The recent load of nodes; `expressions` read it over the shortest window of each resource.

    `window_seconds` is the shortest of all.
    """

    queries: CycleQueries
    nodes: NodeIndex
    expressions: Mapping[Resource, Query]
    window_seconds: float

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
        self, span: Span, kept: KeptTracks, now: Mapping[Resource, Now]
    ) -> dict[Resource, dict[str, LoadHistory]]:
        """The load of each node at these times and now; what is kept is not read again."""
        if not self.queries.evaluated:
            return {}
        tracks = {r: kept.of((r, query), span) for r, query in self.expressions.items()}
        near = span.near(self.queries.now, self.window_seconds)
        behind: dict[Span, list[Resource]] = {}
        for resource, points in tracks.items():
            if near is not None and resource in now:
                measured = {node: (ratio,) for node, ratio in now[resource].measured.items()}
                points.add(near, 1, measured)
            if (missing := points.missing()) is not None:
                behind.setdefault(missing, []).append(resource)
        for missing, resources in behind.items():
            parts = {f"{resource}_load": self.expressions[resource] for resource in resources}
            answers = self.queries.points(parts, missing)
            for resource in resources:
                missed = self._by_node(answers[f"{resource}_load"], min)
                tracks[resource].add(missing.first, missing.size, missed)
        current = {resource: of.known for resource, of in now.items()}
        return {
            resource: {
                node: span.history(of, self.queries.now, current.get(resource, {}).get(node))
                for node, of in points.all_points().items()
            }
            for resource, points in tracks.items()
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
            values: dict[str, float | None] = {}
            for node, points in self._by_node(grids[steps], max).items():
                measured = [point for point in points if point is not None]
                if len(measured) >= COVERED_SHARE * len(points):
                    values[node] = window.of(measured)
            columns.append(values)
        return columns

    def _by_node(
        self, grids: Iterable[Grid], choose: Callable[[Iterable[float]], float]
    ) -> dict[str, Points]:
        points_of: dict[str, Points] = {}
        for grid in grids:
            node = self.nodes.resolve(grid.labels)
            if node is None:
                continue
            points = tuple(map(_plausible, grid.values))
            if node in points_of:
                both = zip(points_of[node], points, strict=True)
                measured = ([point for point in pair if point is not None] for pair in both)
                points = tuple(choose(pair) if pair else None for pair in measured)
            points_of[node] = points
        return points_of


def _steps(window: DestinationWindow, shortest_window_seconds: int) -> tuple[int, int]:
    """The number of steps of a range query, and their length in seconds."""
    step_seconds = max(shortest_window_seconds, -(-window.window_seconds // MOST_STEPS))
    return max(1, window.window_seconds // step_seconds), step_seconds


def lowest(sightings: Mapping[str, Sequence[Sighting]]) -> dict[str, float]:
    """The lowest possible value of each node, as in a history."""
    ratios_of = {
        node: [ratio for series in of if (ratio := _plausible(series.value)) is not None]
        for node, of in sightings.items()
    }
    return {node: min(ratios) for node, ratios in ratios_of.items() if ratios}


def _plausible(ratio: float | None) -> float | None:
    """The ratio within its bounds; None if it is impossible, such as NaN."""
    if ratio is None or not LOWEST_RATIO <= ratio <= HIGHEST_RATIO:
        return None
    return min(max(ratio, 0.0), 1.0)
