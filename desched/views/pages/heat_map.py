"""The load of many nodes over time as a heat map, with the evictions on top."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from bokeh.models import ColumnDataSource, Image, LinearColorMapper
from bokeh.plotting import figure
from numpy.typing import NDArray

from desched.history.timeline import Lines, LoadOverTime, Timeline
from desched.model.resources import Resource
from desched.views.pages.charts import TimeAxis, add_tooltip, plot
from desched.wording.formatting import plain

UNKNOWN_CELL = 0
CELLS = (
    ("unknown", "#9aa0a650"),
    ("under a third of the ceiling", "#4a90d028"),
    ("under two thirds", "#4a90d070"),
    ("under the ceiling", "#4a90d0c8"),
    ("under the stop line", "#f2cf63"),
    ("up to the target", "#f0a03c"),
    ("above the target", "#d9503f"),
    ("10 points above, or more", "#8e1b28"),
)
"""The classes of a cell with their colours; the page below is seen through the pale ones."""

_FAR_ABOVE_RATIO = 0.1
_NO_LINES = Lines(float("inf"), float("inf"), 1.0)
_ROW_PIXELS = 15
_LONGEST_LABEL = 28  # characters


class HeatCells(NamedTuple):
    """Rows of cells: their class as an index of CELLS, and their load in whole percent."""

    classes: NDArray[np.uint8]
    percents: NDArray[np.uint8]


class Marks(NamedTuple):
    """Where pods leave, and where their replacements land."""

    left: ColumnDataSource
    landed: ColumnDataSource


class HeatMaps:
    """The heat maps of one timeline, with the same rows and the same evictions."""

    def __init__(self, timeline: Timeline, nodes: Sequence[str], axis: TimeAxis) -> None:
        self._timeline = timeline
        self._axis = axis
        self._chosen = [timeline.nodes.index(node) for node in nodes]
        self._names = [plain(node) for node in nodes]
        self._labels = _labels(self._names)
        self._marks = _marks(timeline, dict(zip(nodes, self._labels, strict=True)))

    def of(self, resource: Resource) -> figure:
        """The load of one resource, one row for each node."""
        cells = heat_cells(self._timeline.load(resource), self._chosen, self._axis)
        drawn = plot(self._axis, y_range=self._labels[::-1])
        drawn.frame_height = _ROW_PIXELS * len(self._labels)  # no row begins within a pixel
        drawn.grid.visible = False
        rows = ColumnDataSource(
            {
                "node": self._names,
                "row": list(range(len(self._labels)))[::-1],
                "cell": [row[None, :] for row in cells.classes],
                "percent": [percent[None, :] for percent in cells.percents],
            }
        )
        image = Image(
            image="cell",
            x=self._axis.begin,
            y="row",
            dw=self._axis.cell * self._axis.cells,
            dh=1,
            color_mapper=LinearColorMapper(
                palette=[color for _, color in CELLS], low=-0.5, high=len(CELLS) - 0.5
            ),
        )
        tooltip = [("node", "@node"), ("load", "@percent %")]
        add_tooltip(drawn, drawn.add_glyph(rows, image), "$x", tooltip)
        self._add_marks(drawn)
        return drawn

    def _add_marks(self, drawn: figure) -> None:
        """A triangle where a pod leaves, and a circle where its replacement lands."""
        for marker, source in zip(("inverted_triangle", "circle"), self._marks, strict=True):
            marks = drawn.scatter(
                x="at",
                y="row",
                source=source,
                marker=marker,
                size=9,
                fill_color="#101418",
                line_color="#ffffff",
            )
            add_tooltip(drawn, marks, "@at", [("evicted", "@pod"), ("", "@route")])


def heat_cells(load: LoadOverTime, chosen: Sequence[int], axis: TimeAxis) -> HeatCells:
    """The cells of the chosen rows."""
    highest = axis.highest(load.values[list(chosen)])
    bounds = [_bounds(load.lines[row] or _NO_LINES) for row in chosen]
    # A load at a line is not above it.
    classes_found = [
        np.searchsorted(b, row, side="left") for b, row in zip(bounds, highest, strict=True)
    ]
    unknown = np.isnan(highest)
    percents = np.round(100 * np.where(unknown, 0.0, highest)).clip(0, 255)
    classes = np.where(unknown, UNKNOWN_CELL, 1 + np.array(classes_found))
    return HeatCells(classes.astype(np.uint8), percents.astype(np.uint8))


def _bounds(lines: Lines) -> list[float]:
    ceiling, target = lines.ceiling_ratio, lines.target_ratio
    third = ceiling / 3
    return [third, 2 * third, ceiling, lines.stop_ratio, target, target + _FAR_ABOVE_RATIO]


def _labels(names: Sequence[str]) -> list[str]:
    """The ends of the names, where they differ, for an axis; it needs different ones."""
    labels: list[str] = []
    for name in names:
        label = name if len(name) <= _LONGEST_LABEL else f"…{name[1 - _LONGEST_LABEL :]}"
        labels.append(label if label not in labels else f"{label} ({len(labels)})")
    return labels


def _marks(timeline: Timeline, labels: Mapping[str, str]) -> Marks:
    left = [(eviction.at, eviction.node, eviction) for eviction in timeline.evictions]
    landed = [(eviction.landed_at, eviction.landed_on, eviction) for eviction in timeline.evictions]
    return Marks(
        *(
            ColumnDataSource(
                {
                    "at": [at for at, _, _ in rows],
                    "row": [labels[node] for _, node, _ in rows],
                    "pod": [plain(str(each.pod)) for _, _, each in rows],
                    "route": [plain(f"{e.node} → {e.landed_on or '?'}") for _, _, e in rows],
                }
            )
            for rows in ([r for r in side if r[0] and r[1] in labels] for side in (left, landed))
        )
    )
