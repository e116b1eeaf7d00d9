"""Timelines side by side as a page: what happened to the nodes without and with each policy."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from desched.model.resources import Resource
from desched.model.state import FAILURES
from desched.model.timeline import Timeline, TimelineEviction
from desched.service.pages.charts import Charts, TimeAxis, charts, library
from desched.service.pages.document import TABLES, Data, asset, document
from desched.service.pages.heat_map import CELLS, HeatMaps
from desched.service.pages.load_lines import TIMELINE_COLORS, node_lines, overloaded_nodes
from desched.service.reports.formatting import count, percent, span
from desched.service.reports.node_table import COLUMN_ORDER, RESOURCE_NAMES
from desched.service.reports.reason_texts import sentence_of

MOST_ROWS = 60
"""Nodes of a heat map; those that matter least are only in the table."""

MOST_NODES = 1_000
MOST_EVICTIONS = 1_000
MOST_LINE_CHARTS = 6


class Figure(msgspec.Struct, frozen=True):
    """A number for each timeline; None where it is not known."""

    label: str
    values: tuple[float | None, ...]
    unit: str = ""


class Comparison(msgspec.Struct, frozen=True):
    """Timelines of the same nodes at the same times, the one without desched first.

    `about` says what they are, `notes` what was assumed and what could not be known. `figures` are
    shown beside those that timelines have anyway.
    """

    title: str
    about: tuple[str, ...]
    timelines: tuple[Timeline, ...]
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()


class NodeSummary(NamedTuple):
    """A node with its overloaded minutes in each timeline; `highest` is resource x timeline."""

    name: str
    overloaded_minutes: Sequence[float]
    highest: Sequence[Sequence[float | None]]

    @property
    def top(self) -> float:
        """The highest load of any resource in any timeline."""
        return max((ratio for row in self.highest for ratio in row if ratio is not None), default=0)


class EvictionLine(NamedTuple):
    """An eviction of a timeline."""

    timeline: str
    eviction: TimelineEviction
    result: str


def timeline_page(comparison: Comparison) -> str:
    """The page; its charts are drawn by Bokeh."""
    timelines = comparison.timelines
    axis = TimeAxis.of(timelines[0])
    resources = [r for r in COLUMN_ORDER if any(x.resource is r for x in timelines[0].loads)]
    drawn_resources = [
        r for r in resources if any(each.load(r).overloaded.any() for each in timelines)
    ] or resources[:1]
    summaries = list(_summaries(timelines, resources))
    rows = [each.name for each in summaries[:MOST_ROWS]]
    drawn = _drawn(timelines, drawn_resources, rows, axis)
    evictions = list(_evictions(timelines))
    values = {
        "summary": list(_summary(timelines)),
        "title": comparison.title,
        "comparison": comparison,
        "timelines": timelines,
        "figures": [*own_figures(timelines), *comparison.figures],
        "colors": TIMELINE_COLORS,
        "cells": CELLS,
        "cell": span(axis.cell_length),
        "elements": drawn.elements,
        "hottest": rows[:MOST_LINE_CHARTS],
        "rows_left": len(summaries) - len(rows),
        "summaries": summaries[:MOST_NODES],
        "summaries_left": max(0, len(summaries) - MOST_NODES),
        "drawn": [RESOURCE_NAMES[resource] for resource in drawn_resources],
        "resources": [RESOURCE_NAMES[resource] for resource in resources],
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
        name = RESOURCE_NAMES[resource]
        plots |= {f"{name} {number}": each.of(resource) for number, each in enumerate(maps)}
        for number, node in enumerate(rows[:MOST_LINE_CHARTS]):
            plots[f"{name} of node {number}"] = node_lines(timelines, resource, node, axis)
    return charts(plots)


def _summary(timelines: Sequence[Timeline]) -> Iterator[str]:
    """For each timeline after the first how much of the overload it leaves."""
    before = timelines[0].overloaded_node_minutes
    for each in timelines[1:]:
        left, evictions = each.overloaded_node_minutes, count(len(each.evictions), "eviction")
        share = f" ({percent(1 - left / before)} % less)" if before else ""
        yield (
            f"{each.name}: {left:,.0f} of {before:,.0f} overloaded node-minutes are left{share}, "
            f"with {evictions}."
        )


def own_figures(timelines: Sequence[Timeline]) -> Iterator[Figure]:
    """The numbers that every timeline has."""
    minutes = tuple(each.overloaded_node_minutes for each in timelines)
    longest = tuple(each.longest_episode_minutes for each in timelines)
    evicted = tuple(len(each.evictions) for each in timelines)
    failed = tuple(sum(e.result in FAILURES for e in each.evictions) for each in timelines)
    yield Figure("overloaded node-minutes", minutes)
    yield Figure("longest overload of one node, in minutes", longest)
    yield Figure("evictions", evicted)
    yield Figure("evictions that did not help", failed)


def _summaries(
    timelines: Sequence[Timeline], resources: Sequence[Resource]
) -> Iterator[NodeSummary]:
    """The nodes, those with the most overload and then with the highest load first."""
    minutes = list(zip(*(each.overloaded_minutes for each in timelines), strict=True))
    highest = [
        list(zip(*(each.load(r).highest_ratios() for each in timelines), strict=True))
        for r in resources
    ]
    found = [
        NodeSummary(name, minutes[row], [column[row] for column in highest])
        for row, name in enumerate(timelines[0].nodes)
    ]
    return iter(
        sorted(found, key=lambda each: (-max(each.overloaded_minutes), -each.top, each.name))
    )


def _evictions(timelines: Sequence[Timeline]) -> Iterator[EvictionLine]:
    for timeline in timelines:
        for eviction in timeline.evictions:
            result = sentence_of(eviction.result) if eviction.result else ""
            yield EvictionLine(timeline.name, eviction, result)
