"""The common part of all charts over time; Bokeh draws them in the browser."""

from collections.abc import Mapping
from datetime import timedelta
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
from bokeh.document import Document
from bokeh.models import DatetimeTickFormatter, HoverTool, InlineStyleSheet, Range1d
from bokeh.models.renderers import GlyphRenderer
from bokeh.plotting import figure
from numpy.typing import NDArray

from desched.history.timeline import Timeline

MOST_CELLS = 360
"""The length of a chart; of more steps, several share a cell, and the highest load counts."""

_STYLE = """:host {
  --bk-background-fill-color: var(--paper); --bk-border-fill-color: var(--paper);
  --bk-outline-line-color: var(--rule); --bk-axis-line-color: var(--rule);
  --bk-grid-line-color: var(--rule); --bk-major-tick-line-color: var(--rule);
  --bk-minor-tick-line-color: var(--rule); --bk-axis-label-text-color: var(--muted);
  --bk-major-label-text-color: var(--ink); --bk-title-text-color: var(--ink);
}"""


class Charts(NamedTuple):
    """The data that a page draws charts from, and the id of the element of each by its name."""

    data: Mapping[str, object]
    elements: Mapping[str, str]


def library() -> str:
    """The part of Bokeh that runs in the browser."""
    return resources.files("bokeh").joinpath("server/static/js/bokeh.min.js").read_text("utf-8")


def charts(plots: Mapping[str, figure]) -> Charts:
    """The plots as data for the page; they zoom together where they share a time axis."""
    together = Document()
    with together.models.freeze():  # looks for the parts of all plots once
        for each in plots.values():
            together.add_root(each)
    elements = {name: f"chart-{number}" for number, name in enumerate(plots)}
    roots = {each.id: elements[name] for name, each in plots.items()}
    item = {"docid": "charts", "roots": roots, "root_ids": list(roots)}
    documents = {"charts": together.to_json(deferred=False)}
    return Charts({"documents": documents, "items": [item]}, elements)


class TimeAxis(NamedTuple):
    """The time axis of charts that zoom together, in milliseconds since 1970."""

    begin: float
    cell: float
    cells: int
    steps_per_cell: int
    range: Range1d

    @classmethod
    def of(cls, timeline: Timeline) -> "TimeAxis":
        """The axis for this and all timelines with the same start and steps."""
        steps = max(1, timeline.steps)
        together = -(-steps // MOST_CELLS)
        begin = 1000.0 * timeline.started_at.timestamp()
        cell = 1000.0 * timeline.step_seconds * together
        cells = -(-steps // together)
        end = begin + 1000.0 * timeline.step_seconds * steps
        return cls(begin, cell, cells, together, Range1d(start=begin, end=end, bounds=(begin, end)))

    @property
    def cell_length(self) -> timedelta:
        """How much time a cell covers."""
        return timedelta(milliseconds=self.cell)

    @property
    def times(self) -> NDArray[np.float64]:
        """The begin of each cell."""
        return self.begin + self.cell * np.arange(self.cells, dtype=np.float64)

    def highest(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """The highest of the steps that share a cell; NaN if all of them are unknown."""
        missing = self.cells * self.steps_per_cell - rows.shape[1]
        padded = np.pad(rows, ((0, 0), (0, missing)), constant_values=np.nan)
        most: NDArray[np.float64] = np.fmax.reduce(
            padded.reshape(len(rows), self.cells, self.steps_per_cell), axis=2
        )
        return most


def plot(axis: TimeAxis, **more: Any) -> figure:
    """An empty plot in the colours of the page."""
    made = figure(
        sizing_mode="stretch_width",
        x_axis_type="datetime",
        x_range=axis.range,
        tools="xpan,xbox_zoom,reset",
        toolbar_location="right",
        **more,
    )
    made.toolbar.logo = None
    made.toolbar.autohide = True
    made.xaxis.formatter = DatetimeTickFormatter(
        minsec="%H:%M:%S", minutes="%H:%M", hourmin="%H:%M", hours="%H:%M", days="%b %d"
    )
    made.stylesheets.append(InlineStyleSheet(css=_STYLE))  # one style belongs to one document
    return made


def add_tooltip(
    to: figure, drawn: "GlyphRenderer[Any]", at: str, lines: list[tuple[str, str]]
) -> None:
    """Show these lines beside the pointer, and the time from the field `at`."""
    tooltips = [*lines, ("at", f"{at}{{%F %H:%M}}")]
    to.add_tools(HoverTool(renderers=[drawn], tooltips=tooltips, formatters={at: "datetime"}))
