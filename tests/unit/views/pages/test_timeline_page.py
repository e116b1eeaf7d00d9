import gzip
import json
import re
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest

from desched.history.timeline import (
    IdleTotal,
    Lines,
    LoadOverTime,
    RefusalTotal,
    Timeline,
    TimelineEviction,
)
from desched.lab.comparison import comparison_of
from desched.model.cluster import PodRef
from desched.model.plan import HoldReason, RefusalReason
from desched.model.resources import Resource
from desched.model.state import MoveResult
from desched.views.comparison import Comparison, Figure
from desched.views.pages.charts import MOST_CELLS, TimeAxis
from desched.views.pages.heat_map import CELLS, HeatCells, heat_cells
from desched.views.pages.timeline_page import MOST_ROWS, timeline_page
from desched.views.rendering import json_text, plain_value
from desched.wording.formatting import plain
from desched.wording.section import Section
from tests.page_reader import Page, loads_nothing
from tests.unit.service.test_adversarial_outputs import HOSTILE, poisoned

START = datetime(2026, 1, 5, tzinfo=UTC)
LINES = Lines(target_ratio=0.8, stop_ratio=0.75, ceiling_ratio=0.7)
NODES = ("te1", "te2", "te3")


def load(resource: Resource, *rows: tuple[float | None, ...]) -> LoadOverTime:
    return LoadOverTime(resource, (LINES,) * len(rows), rows)


MEMORY = load(Resource.MEMORY, (0.1, 0.1, 0.1), (0.2, 0.2, 0.2), (0.3, 0.3, 0.3))
EVICTION = TimelineEviction(
    at=START + timedelta(minutes=5),
    pod=PodRef("shop", "web-1", "uid-1"),
    node="te2",
    workload="Deployment shop/web",
    landed_at=START + timedelta(minutes=6),
    landed_on="te1",
    result=MoveResult.BACK_ON_SOURCE,
    reason="node te2 cpu 92.0% > 80.0%",
)
BEFORE = Timeline(
    name="no descheduler",
    started_at=START,
    step_seconds=300.0,
    nodes=NODES,
    loads=(load(Resource.CPU, (0.1, 0.2, None), (0.85, 0.92, 0.95), (0.81, 0.3, 0.3)), MEMORY),
)
AFTER = Timeline(
    name="cautious.yaml",
    started_at=START,
    step_seconds=300.0,
    nodes=NODES,
    loads=(load(Resource.CPU, (0.1, 0.3, 0.3), (0.85, 0.74, 0.7), (0.8, 0.3, 0.3)), MEMORY),
    evictions=(EVICTION,),
    refusals=(RefusalTotal(RefusalReason.NOT_NEEDED, 7, 20),),
    idle=(IdleTotal(HoldReason.PARTIAL_DATA, 2),),
)
OWN = comparison_of("Simulation of three nodes", ("fifteen minutes",), (BEFORE, AFTER))
COMPARISON = msgspec.structs.replace(
    OWN,
    figures=(*OWN.figures, Figure("moved again", (0, 1)), Figure("pending", (None, 2.5))),
    notes=(Section("Assumed", ("Pods use the same wherever they run.",)),),
)


@cache
def page(comparison: Comparison = COMPARISON) -> Page:
    return Page(timeline_page(comparison))


def as_json(comparison: Comparison = COMPARISON) -> Any:
    return json.loads(json_text(plain_value(comparison)))


def cells_of(one: LoadOverTime) -> HeatCells:
    timeline = msgspec.structs.replace(BEFORE, nodes=NODES[: len(one.lines)], loads=(one,))
    return heat_cells(one, [0], TimeAxis.of(timeline))


def decoded(value: Any) -> Any:
    """An array as Bokeh writes it."""
    if isinstance(value, dict) and value.get("type") == "ndarray":
        content = gzip.decompress(b64decode(value["array"]["data"]))
        array = np.frombuffer(content, dtype=value["dtype"])
        return array.reshape(value["shape"])
    return value


def models(found: Page, name: str) -> list[dict[str, Any]]:
    """The attributes of all models of a kind, in the charts' data."""

    def search(value: Any) -> Any:
        if isinstance(value, dict):
            if value.get("name") == name and value.get("type") == "object":
                yield value.get("attributes", {})
            for each in value.values():
                yield from search(each)
        elif isinstance(value, list):
            for each in value:
                yield from search(each)

    return list(search(found.data("charts")))


def columns(found: Page, *names: str) -> list[dict[str, Any]]:
    """The sources of the charts that have these columns."""
    every = (each["data"].get("entries", ()) for each in models(found, "ColumnDataSource"))
    sources = map(dict, every)
    return [source for source in sources if set(names) <= set(source)]


def test_it_loads_nothing_and_runs_only_its_own_scripts_and_those_of_bokeh() -> None:
    found = page()

    loads_nothing(found)
    assert found.security_policy["style-src"] == "'unsafe-inline'"


def test_the_figures_of_all_policies_stand_side_by_side() -> None:
    assert page().rows("figures") == [
        ["overloaded node-minutes", "20", "5"],
        ["node-minutes above 90 %", "10", "0"],
        ["node-minutes at 100 % CPU", "0", "0"],
        ["point-minutes above target", "165", "25"],
        ["longest overload, minutes", "15", "5"],
        ["nodes overloaded", "2", "1"],
        ["evictions", "0", "1"],
        ["evictions that did not help", "0", "1"],
        ["moved again", "0", "1"],
        ["pending", "-", "2.5"],
    ]


def test_it_begins_with_how_much_overload_each_policy_leaves() -> None:
    assert (
        "cautious.yaml: 5 of 20 overloaded node-minutes are left (75.0 % less), with 1 eviction."
        in page().text
    )


def test_the_nodes_are_those_of_the_json_with_the_most_overloaded_first() -> None:
    found, document = page(), as_json()
    cells = {row[0].text: [cell.sort for cell in row[1:]] for row in found.tables["nodes"]}
    expected = {}
    for number, node in enumerate(document["timelines"][0]["nodes"]):
        minutes, highest = [], []
        for timeline in document["timelines"]:
            rows = [each["ratios"][number] for each in timeline["loads"]]
            hot = sum(any((r or 0) > 0.8 for r in step) for step in zip(*rows, strict=True))
            minutes.append(f"{hot * timeline['step_seconds'] / 60}")
            highest.append([f"{max(r for r in row if r is not None)}" for row in rows])
        expected[node] = [
            *minutes,
            *(value for pair in zip(*highest, strict=True) for value in pair),
        ]

    assert cells == expected
    assert [row[0] for row in found.rows("nodes")] == ["te2", "te3", "te1"]


def test_the_heat_maps_have_the_loads_of_the_json() -> None:
    maps, document = columns(page(), "cell", "percent"), as_json()
    order = ["te2", "te3", "te1"]
    expected = [
        [
            [
                None if r is None else round(r * 100)
                for r in each["ratios"][timeline["nodes"].index(n)]
            ]
            for n in order
        ]
        for timeline in document["timelines"]
        for each in timeline["loads"][:1]
    ]

    assert [each["node"] for each in maps] == [order] * 2
    assert [
        [
            [
                int(percent) if cell else None
                for cell, percent in zip(decoded(cells)[0], decoded(percents)[0], strict=True)
            ]
            for cells, percents in zip(each["cell"], each["percent"], strict=True)
        ]
        for each in maps
    ] == expected


def test_a_resource_that_was_never_above_its_target_is_only_in_the_table() -> None:
    found = page()

    assert "Memory: no node was above its target" in found.text
    assert "CPU: no node" not in found.text
    calm = page(comparison_of("calm", (), (msgspec.structs.replace(BEFORE, loads=(MEMORY,)),)))
    assert len(columns(calm, "cell")) == 1


def test_evictions_lie_where_and_when_pods_left_and_landed() -> None:
    marks = columns(page(), "at", "row", "pod")

    times = [[*map(float, each["at"])] for each in marks if each["at"]]
    rows = [each["row"] for each in marks if each["at"]]
    left, landed = (1000 * at.timestamp() for at in (EVICTION.at, EVICTION.landed_at or START))
    assert times == [[left], [landed]]
    assert rows == [["te2"], ["te1"]]


def test_the_hottest_nodes_have_their_lines() -> None:
    levels = [each["y"]["value"] for each in models(page(), "HSpan") if "value" in each["y"]]

    assert list(dict.fromkeys(levels)) == [0.8, 0.75, 0.7]
    assert {title["text"] for title in models(page(), "Title") if "text" in title} == set(NODES)


def test_evictions_refusals_and_idle_cycles_are_tables() -> None:
    found = page()

    assert found.rows("evictions") == [
        [
            "2026-01-05 00:05:00 UTC",
            "cautious.yaml",
            "shop/web-1 Deployment shop/web",
            "te2 → te1",
            "node te2 cpu 92.0% > 80.0%",
            "Its replacement is on the node that it left.",
        ]
    ]
    assert found.rows("refusals-1")[0][:1] + found.rows("refusals-1")[0][2:4] == [
        "7",
        "20",
        "not_needed",
    ]
    assert found.rows("idle-1")[0][:2] == ["2", "partial_data"]
    assert "Pods use the same wherever they run." in found.text


@pytest.mark.parametrize(
    ("ratio", "meaning"),
    [
        (None, "unknown"),
        (0.0, "under a third of the ceiling"),
        (0.7, "under the ceiling"),
        (0.75, "under the stop line"),
        (0.8, "up to the target"),
        (0.801, "above the target"),
        (0.95, "10 points above, or more"),
    ],
)
def test_a_cell_tells_where_the_load_lies_between_the_lines(
    ratio: float | None, meaning: str
) -> None:
    found = cells_of(load(Resource.CPU, (ratio,)))

    assert CELLS[found.classes[0, 0]][0] == meaning


def test_a_node_without_a_rule_is_never_above_a_target() -> None:
    found = cells_of(LoadOverTime(Resource.CPU, (None,), ((1.0,),)))

    assert CELLS[found.classes[0, 0]][0] == "under the ceiling"


def test_a_cell_of_several_steps_shows_the_highest_load() -> None:
    steps = 2 * MOST_CELLS + 1
    ratios: list[float | None] = [0.1] * steps
    ratios[1], ratios[3:6] = 0.9, [None, None, None]
    found = cells_of(load(Resource.CPU, tuple(ratios)))

    assert found.percents.shape == (1, -(-steps // 3))
    assert found.percents[0, 0] == 90
    assert CELLS[found.classes[0, 1]][0] == "unknown"


def test_hostile_names_are_shown_as_text() -> None:
    hostile, harmless = page(poisoned(COMPARISON)), page()

    loads_nothing(hostile)
    assert set(hostile.elements) == set(harmless.elements)
    assert hostile.elements.count("script") == harmless.elements.count("script")
    assert plain(HOSTILE) in hostile.text
    assert not re.search("</?script|<!--", hostile.contents["charts"][0], re.IGNORECASE)


def test_nodes_with_long_or_similar_names_have_short_and_different_labels() -> None:
    long = "gke-production-europe-west-1-pool-"
    alike = msgspec.structs.replace(BEFORE, nodes=(f"{long}a\n", f"{long}a\\n", f"{long}b"))
    found = page(comparison_of("alike", (), (alike,)))
    labels = models(found, "FactorRange")[0]["factors"]

    assert set(labels) == {
        "…" + f"{long}b"[-27:],
        "…" + f"{long}a\\n"[-27:],
        "…" + f"{long}a\\n"[-27:] + " (2)",
    }
    assert set(columns(found, "cell")[0]["node"]) == {f"{long}a\\n", f"{long}b"}


def test_a_week_of_a_large_cluster_fits_into_a_page() -> None:
    steps, nodes = 2_016, 1_000
    rng = np.random.default_rng(1)
    ratios = np.round(rng.uniform(0, 1, (20, steps)), 4).tolist()
    rows = tuple(tuple(ratios[i % 20]) for i in range(nodes))
    week = [
        Timeline(
            name=f"policy {number}",
            started_at=START,
            step_seconds=300.0,
            nodes=tuple(f"node-{i}" for i in range(nodes)),
            loads=tuple(load(resource, *rows) for resource in (Resource.CPU, Resource.MEMORY)),
            evictions=(EVICTION,) * 3_000,
        )
        for number in range(3)
    ]
    found = page(comparison_of("a week", (), tuple(week)))

    assert len(found.source) < 3_000_000
    assert len(columns(found, "cell")[0]["node"]) == MOST_ROWS
    assert "940 nodes with less load are only in the table below" in found.text
    assert "… and 8000 more, which the JSON has." in found.text
