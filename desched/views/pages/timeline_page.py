"""Timelines side by side as a page: what happened to the nodes without and with each policy."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from desched.history.timeline import Timeline, TimelineEviction
from desched.model.resources import Resource
from desched.views.comparison import Comparison, resources_of
from desched.views.pages.charts import Charts, TimeAxis, charts, library
from desched.views.pages.document import TABLES, Data, asset, document
from desched.views.pages.heat_map import CELLS, HeatMaps
from desched.views.pages.load_lines import TIMELINE_COLORS, node_lines, overloaded_nodes
from desched.wording.formatting import resource_title, span
from desched.wording.reasons import sentence_of

MOST_ROWS = 60
"""Nodes of a heat map; those that matter least are only in the table."""

MOST_NODES = 1_000
MOST_EVICTIONS = 1_000
MOST_LINE_CHARTS = 6


class EvictionLine(NamedTuple):
    """An eviction of a timeline."""

    timeline: str
    eviction: TimelineEviction
    result: str


def timeline_page(comparison: Comparison) -> str:
    """The page; its charts are drawn by Bokeh."""
    timelines = comparison.timelines
    axis = TimeAxis.of(timelines[0])
    resources = resources_of(timelines)
    drawn_resources = [
        r for r in resources if any(timeline.load(r).overloaded.any() for timeline in timelines)
    ] or resources[:1]
    order = comparison.order
    rows = [timelines[0].nodes[number] for number in order[:MOST_ROWS]]
    drawn = _drawn(timelines, drawn_resources, rows, axis)
    evictions = list(_evictions(timelines))
    values = {
        "title": comparison.title,
        "comparison": comparison,
        "timelines": timelines,
        "colors": TIMELINE_COLORS,
        "cells": CELLS,
        "cell": span(axis.cell_length),
        "elements": drawn.elements,
        "hottest": rows[:MOST_LINE_CHARTS],
        "rows_left": len(order) - len(rows),
        "order": order[:MOST_NODES],
        "nodes_left": max(0, len(order) - MOST_NODES),
        "drawn": [resource_title(resource) for resource in drawn_resources],
        "resources": [resource_title(resource) for resource in resources],
        "workloads": comparison.workloads[:MOST_NODES],
        "evictions": evictions[:MOST_EVICTIONS],
        "evictions_left": max(0, len(evictions) - MOST_EVICTIONS),
        "sentence_of": sentence_of,
    }
    return document(
        "timelines.html",
        values,
        scripts=(library(), asset("charts.js"), TABLES),
        data=(Data("charts", drawn.data),),
        allow=("style-src 'unsafe-inline'",),  # Bokeh brings styles of its own
    ).text


def _drawn(
    timelines: Sequence[Timeline],
    resources: Sequence[Resource],
    rows: Sequence[str],
    axis: TimeAxis,
) -> Charts:
    """All charts; the template finds them by the same names."""
    plots = {"overloaded": overloaded_nodes(timelines, axis)}
    maps = [HeatMaps(timeline, rows, axis) for timeline in timelines]
    for resource in resources:
        name = resource_title(resource)
        plots |= {f"{name} {number}": heat_map.of(resource) for number, heat_map in enumerate(maps)}
        for number, node in enumerate(rows[:MOST_LINE_CHARTS]):
            plots[f"{name} of node {number}"] = node_lines(timelines, resource, node, axis)
    return charts(plots)


def _evictions(timelines: Sequence[Timeline]) -> Iterator[EvictionLine]:
    for timeline in timelines:
        for eviction in timeline.evictions:
            result = sentence_of(eviction.result) if eviction.result else ""
            yield EvictionLine(timeline.name, eviction, result)
