"""Charts with a line for each timeline: the overloaded nodes, and the load of one node."""

from collections.abc import Sequence

import numpy as np
from bokeh.models import AdaptiveTicker, NumeralTickFormatter, Range1d
from bokeh.plotting import figure

from desched.history.timeline import Timeline
from desched.model.resources import Resource
from desched.views.pages.charts import TimeAxis, add_tooltip, plot
from desched.wording.formatting import plain

TIMELINE_COLORS = ("#8a8f98", "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9")
"""Timelines beyond these have no line."""

TARGET_COLOR = "#d9503f"
LINE_DASHES = ("solid", "dashed", "dotted")
"""Of the target, the stop line and the ceiling."""

_HEIGHT_PIXELS = 220


def overloaded_nodes(timelines: Sequence[Timeline], axis: TimeAxis) -> figure:
    """How many nodes are overloaded."""
    counts = [each.overloaded.sum(axis=0, keepdims=True, dtype=float) for each in timelines]
    most = max(float(np.max(count, initial=0.0)) for count in counts)
    # A line on the axis, of a timeline without overload, must be seen.
    heights = Range1d(start=-0.05 * (most + 1), end=most + 1)
    drawn = plot(axis, height=_HEIGHT_PIXELS, y_range=heights)
    drawn.yaxis.ticker = AdaptiveTicker(min_interval=1, num_minor_ticks=0)
    for color, timeline, count in zip(TIMELINE_COLORS, timelines, counts, strict=False):
        highest = axis.highest(count)[0]
        line = drawn.step(x=axis.times, y=highest, mode="after", color=color, line_width=2)
        add_tooltip(drawn, line, "$x", [(plain(timeline.name), "@y{0.[0]}")])
    return drawn


def node_lines(
    timelines: Sequence[Timeline], resource: Resource, node: str, axis: TimeAxis
) -> figure:
    """The load of one node, with the lines that the last timeline has for it."""
    heights = Range1d(start=0, end=1)
    drawn = plot(axis, height=_HEIGHT_PIXELS, title=plain(node), y_range=heights)
    drawn.yaxis.formatter = NumeralTickFormatter(format="0 %")
    for color, timeline in zip(TIMELINE_COLORS, timelines, strict=False):
        rows = timeline.load(resource).values[[timeline.nodes.index(node)]]
        drawn.step(x=axis.times, y=axis.highest(rows)[0], mode="after", color=color, line_width=1.5)
    lines = timelines[-1].load(resource).lines[timelines[-1].nodes.index(node)]
    if lines is not None:
        levels = (lines.target_ratio, lines.stop_ratio, lines.ceiling_ratio)
        for level, dash in zip(levels, LINE_DASHES, strict=True):
            drawn.hspan(y=level, line_color=TARGET_COLOR, line_dash=dash, line_width=1.5)
    return drawn
