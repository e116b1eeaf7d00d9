"""The recent load of nodes: range queries, one per resource for the whole cluster."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from desched.adapters.prometheus.client import Grid
from desched.adapters.prometheus.cycle_queries import CycleQueries
from desched.adapters.prometheus.data_quality import HIGHEST_RATIO, LOWEST_RATIO
from desched.adapters.prometheus.nodes import NodeIndex
from desched.adapters.prometheus.queries import own_query
from desched.model.load import LoadHistory
from desched.policy.policy import DestinationWindow

HISTORY_STEPS = 10
"""Between the points that show whether load is sustained."""

MOST_STEPS = 60
"""Of a destination window; longer windows are read in wider steps, or by a recording rule."""

COVERED_SHARE = 0.8
"""Of the points that a destination window must have."""

Points = tuple[float | None, ...]


class LoadTracks(NamedTuple):
    """The history of one resource; `expression` reads the load over the shortest window."""

    queries: CycleQueries
    nodes: NodeIndex
    expression: str
    shortest_window_seconds: int

    def history(self, sustained_seconds: int) -> dict[str, LoadHistory]:
        """The load of each node at regular points of this time.

        If a node has several series, the lowest value counts: it leads to fewer evictions.
        """
        step_seconds = sustained_seconds // HISTORY_STEPS
        grids = self.queries.grids(self.expression, HISTORY_STEPS, step_seconds)
        found = self._by_node(grids, min)
        return {node: LoadHistory(step_seconds, points) for node, points in found.items()}

    def destination_ratios(
        self, windows: Sequence[DestinationWindow], own: str | None
    ) -> dict[str, tuple[float | None, ...]]:
        """For each node one value per window; `own` is the user's query for them.

        If a node has several series, the highest value counts.
        """
        columns = [
            self._computed(window) if own is None else self._asked(own, window.window_seconds)
            for window in windows
        ]
        nodes = sorted({node for column in columns for node in column})
        return {node: tuple(column.get(node) for column in columns) for node in nodes}

    def _asked(self, own: str, window_seconds: int) -> dict[str, float | None]:
        series = self.queries.vector(own_query(own, window_seconds))
        grids = (Grid(one.labels, (one.value,)) for one in series)
        return {node: points[0] for node, points in self._by_node(grids, max).items()}

    def _computed(self, window: DestinationWindow) -> dict[str, float | None]:
        step_seconds = max(self.shortest_window_seconds, -(-window.window_seconds // MOST_STEPS))
        steps = max(1, window.window_seconds // step_seconds)
        grids = self.queries.grids(self.expression, steps, step_seconds)
        found: dict[str, float | None] = {}
        for node, points in self._by_node(grids, max).items():
            known = [point for point in points if point is not None]
            if len(known) >= COVERED_SHARE * len(points):
                found[node] = window.of(known)
        return found

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


def _plausible(ratio: float | None) -> float | None:
    """The ratio within its bounds; None if it is impossible, such as NaN."""
    if ratio is None or not LOWEST_RATIO <= ratio <= HIGHEST_RATIO:
        return None
    return min(max(ratio, 0.0), 1.0)
