"""The chart of a search: overload that policies leave against their evictions."""

from collections.abc import Sequence

from bokeh.models import ColumnDataSource, HoverTool
from bokeh.plotting import figure

from desched.views.formatting import plain
from desched.views.pages.charts import plain_plot
from desched.views.pages.load_lines import TIMELINE_COLORS
from desched.views.tuning import FrontPoint

_HEIGHT_PIXELS = 320
_SMALL, _LARGE = 9, 15


def front_chart(front: Sequence[FrontPoint], today: FrontPoint) -> figure:
    """A point for each policy; today's is large, also where others are better."""
    drawn = plain_plot(
        height=_HEIGHT_PIXELS,
        tools="pan,box_zoom,reset",
        x_axis_label="evictions",
        y_axis_label="overloaded node-minutes",
    )
    others = [each for each in front if each.name != today.name]
    for points, color, size in (
        (others, TIMELINE_COLORS[1], _SMALL),
        ([today], TIMELINE_COLORS[2], _LARGE),
    ):
        source = ColumnDataSource(
            {
                "evictions": [each.score.evictions for each in points],
                "minutes": [each.score.node_minutes for each in points],
                "name": [plain(each.name) for each in points],
                "changes": [plain(each.changes) for each in points],
            }
        )
        dots = drawn.scatter("evictions", "minutes", source=source, color=color, size=size)
        tooltips = [("policy", "@name"), ("differs in", "@changes")]
        drawn.add_tools(HoverTool(renderers=[dots], tooltips=tooltips))
    return drawn
