"""Timelines side by side as a page: what happened to the nodes without and with each policy."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from desched.history.timeline import Timeline, TimelineEviction
from desched.model.resources import Resource
from desched.model.state import FAILURES
from desched.views.formatting import RESOURCE_NAMES, count, percent, resource_title, span
from desched.views.pages.charts import Charts, TimeAxis, charts, library
from desched.views.pages.document import TABLES, Data, asset, document
from desched.views.pages.heat_map import CELLS, HeatMaps
from desched.views.pages.load_lines import TIMELINE_COLORS, node_lines, overloaded_nodes
from desched.views.reasons import sentence_of

MOST_ROWS = 60
"""Nodes of a heat map; those that matter least are only in the table."""

MOST_NODES = 1_000
MOST_EVICTIONS = 1_000
MOST_LINE_CHARTS = 6

OVERLOADED = "overloaded node-minutes"
LONGEST = "longest overload of one node, in minutes"
EVICTIONS = "evictions"


class Figure(msgspec.Struct, frozen=True):
    """A number for each timeline; None where there is none."""

    label: str
    values: tuple[float | None, ...]
    unit: str = ""


class NodeColumn(msgspec.Struct, frozen=True):
    """A number for each node; those in percent are shares."""

    label: str
    values: tuple[float | None, ...]
    in_percent: bool = False


class Comparison(msgspec.Struct, frozen=True):
    """Timelines of the same nodes at the same times, the one without desched first.

    `about` says what they are, `summary` how they differ, `notes` what was assumed and what could
    not be known. `columns` are in the order of the nodes.
    """

    title: str
    about: tuple[str, ...]
    timelines: tuple[Timeline, ...]
    summary: tuple[str, ...]
    figures: tuple[Figure, ...]
    columns: tuple[NodeColumn, ...]
    notes: tuple[str, ...] = ()


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
        r for r in resources if any(each.load(r).overloaded.any() for each in timelines)
    ] or resources[:1]
    order = _order(timelines)
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


def comparison_of(
    title: str, about: tuple[str, ...], timelines: tuple[Timeline, ...]
) -> Comparison:
    """A comparison with the figures that the timelines themselves have."""
    before = timelines[0].overloaded_node_minutes
    summary = (
        left_sentence(t.name, t.overloaded_node_minutes, before, len(t.evictions))
        for t in timelines[1:]
    )
    columns = [
        NodeColumn(f"overloaded min · {each.name}", each.overloaded_minutes) for each in timelines
    ] + [
        NodeColumn(
            f"highest {RESOURCE_NAMES[resource]} · {each.name}",
            each.load(resource).highest_ratios(),
            in_percent=True,
        )
        for resource in resources_of(timelines)
        for each in timelines
    ]
    return Comparison(
        title, about, timelines, tuple(summary), tuple(_figures(timelines)), tuple(columns)
    )


def left_sentence(name: str, left: float, before: float, evictions: int) -> str:
    """How much of the overload is left."""
    less = f" ({percent(1 - left / before)} % less)" if 0 < left < before else ""
    return (
        f"{name}: {left:,.0f} of {before:,.0f} overloaded node-minutes are left{less}, "
        f"with {count(evictions, 'eviction')}."
    )


def resources_of(timelines: Sequence[Timeline]) -> list[Resource]:
    """The resources that the timelines have, in the order of tables."""
    return [r for r in RESOURCE_NAMES if any(load.resource is r for load in timelines[0].loads)]


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
        plots |= {f"{name} {number}": each.of(resource) for number, each in enumerate(maps)}
        for number, node in enumerate(rows[:MOST_LINE_CHARTS]):
            plots[f"{name} of node {number}"] = node_lines(timelines, resource, node, axis)
    return charts(plots)


def _figures(timelines: Sequence[Timeline]) -> Iterator[Figure]:
    minutes = tuple(each.overloaded_node_minutes for each in timelines)
    longest = tuple(each.longest_episode_minutes for each in timelines)
    evicted = tuple(len(each.evictions) for each in timelines)
    failed = tuple(sum(e.result in FAILURES for e in each.evictions) for each in timelines)
    yield Figure(OVERLOADED, minutes)
    yield Figure(LONGEST, longest)
    yield Figure(EVICTIONS, evicted)
    yield Figure("evictions that did not help", failed)


def _order(timelines: Sequence[Timeline]) -> list[int]:
    """The nodes, those with the most overload and then with the highest load first."""
    names = timelines[0].nodes
    minutes = [
        max(column) for column in zip(*(t.overloaded_minutes for t in timelines), strict=True)
    ]
    ratios = [load.highest_ratios() for each in timelines for load in each.loads]
    highest = [
        max((r for r in row if r is not None), default=0.0) for row in zip(*ratios, strict=True)
    ]
    return sorted(range(len(names)), key=lambda i: (-minutes[i], -highest[i], names[i]))


def _evictions(timelines: Sequence[Timeline]) -> Iterator[EvictionLine]:
    for timeline in timelines:
        for eviction in timeline.evictions:
            result = sentence_of(eviction.result) if eviction.result else ""
            yield EvictionLine(timeline.name, eviction, result)
