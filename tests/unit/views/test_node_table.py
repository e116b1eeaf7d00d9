"""The table of nodes: as wide as the terminal, and plain when piped."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from desched.model.plan import NodeClass, NodeReason, NodeVerdict, ResourcePressure, UnjudgedLoad
from desched.model.report import CycleReport, NodeDeviceLoad, RecentLoad
from desched.model.resources import Resource
from desched.views import cycle
from desched.views.cycle import NODE_COLUMNS, CycleView
from desched.views.node_table import NodeTable
from desched.views.pages.cycle_page import cycle_page
from tests.builders import pressure
from tests.page_reader import Page
from tests.shown import shown
from tests.stored_text import check_stored, sections
from tests.unit.service.example_reports import EVICTION, REPORT

HOUR = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, None, 0.7, 0.8, 0.81, 0.9, 1.0, 1.0)


@pytest.fixture(autouse=True)
def only_loads(request, monkeypatch):
    """Tests of the layout are about loads; a further column must not change them."""
    if "column" not in request.fixturenames:
        monkeypatch.setattr(cycle, "NODE_COLUMNS", ())


def load(node, resource, ratios=HOUR):
    return RecentLoad(node, resource, 300, ratios)


def report(*names: str) -> CycleReport:
    """Nodes with the load of both resources over the last hour."""
    memory = replace(pressure(0.5), resource=Resource.MEMORY)
    verdicts = [
        NodeVerdict(name, NodeClass.OVERLOADED, (replace(pressure(0.9), after_ratio=0.7), memory))
        for name in names
    ]
    recent = [load(name, each) for name in names for each in (Resource.CPU, Resource.MEMORY)]
    plan = replace(REPORT.plan, nodes=tuple(verdicts))
    return replace(REPORT, plan=plan, recent_loads=tuple(recent))


def printed(of: CycleReport, width: int, *, terminal: bool = True, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, errors="replace")
    console = Console(file=file, force_terminal=terminal, width=width, color_system=None)
    console.print(NodeTable(CycleView(of)))
    file.flush()
    return "\n".join(line.rstrip() for line in raw.getvalue().decode(encoding).splitlines())


def with_nodes(*verdicts: NodeVerdict) -> CycleReport:
    of = report("worker-1")
    return replace(of, plan=replace(of.plan, nodes=verdicts))


def three_resources() -> CycleReport:
    pods = ResourcePressure(Resource.PODS, ((0, 0.5),), 0.5, 0.5, 0.3, 0.8, 0.75, 0.7)
    (verdict,) = report(LONG).plan.nodes
    return with_nodes(replace(verdict, pressures=(*verdict.pressures, pods)))


def judged_gpus() -> CycleReport:
    """Those of other nodes are shown beside them without lines."""
    seen = report("worker-1", "worker-2", "worker-3")
    gpu = replace(pressure(0.875), resource=Resource.GPU, after_ratio=0.5)
    first, *others = seen.plan.nodes
    judged = replace(first, pressures=(*first.pressures, gpu))
    plan = replace(seen.plan, nodes=(judged, *others))
    return replace(seen, plan=plan, device_loads=GPUS, recent_loads=())


LONG = "gke-production-europe-west-1-pool-4711"
GPUS = (
    NodeDeviceLoad("worker-1", Resource.GPU, 0.875, 300),
    NodeDeviceLoad("worker-2", Resource.GPU, None, detail="absent: no series"),
)
ONE, TWO = report("worker-1"), report("worker-1", "worker-2")
(VERDICT,) = report("worker-1" * 8).plan.nodes
SEEN = UnjudgedLoad(Resource.CPU, measured=((300, 0.95),))
SHORT = RecentLoad("worker-1", Resource.CPU, 60, (0.5,) * 11)
CASES: dict[str, tuple[Any, ...]] = {
    "a wide terminal shows each node on one line with its last hour": (ONE, 120),
    "80 columns show a line for each resource with its last hour": (TWO, 80),
    "40 columns leave out lines and the last hour": (ONE, 40),
    "they fold names, and never cut off a number": (report(LONG), 40),
    "the heading has the time that is known": (replace(ONE, recent_loads=(SHORT,)), 120),
    "a node that is not judged has its last hour too": (
        with_nodes(NodeVerdict("worker-1", NodeClass.UNKNOWN, unjudged=(SEEN,))),
        80,
    ),
    "one resource leaves a line for the state": (
        with_nodes(replace(VERDICT, pressures=VERDICT.pressures[:1])),
        60,
    ),
    **{
        f"GPUs without a target, in {width} columns": (
            replace(report("worker-1", "worker-2", "worker-3"), device_loads=GPUS, recent_loads=()),
            width,
        )
        for width in (120, 80, 40)
    },
    **{f"GPUs with a target, in {width} columns": (judged_gpus(), width) for width in (120, 40)},
}


def test_a_table_of_nodes_says_all_of_this():
    found = {case: printed(*of) for case, of in CASES.items()}
    found["what is piped is plain"] = printed(ONE, 100, terminal=False)
    found["and cuts nothing off"] = printed(three_resources(), 80, terminal=False)
    found["a terminal without these characters shows none"] = printed(ONE, 100, encoding="ascii")
    check_stored(Path(__file__).with_name("node_tables.txt"), sections(found))


@pytest.mark.parametrize("case", CASES)
def test_none_is_wider_than_its_terminal(case):
    of, width = CASES[case]
    text = printed(of, width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text


def test_a_point_above_the_target_stands_out():
    drawn = io.StringIO()
    console = Console(file=drawn, force_terminal=True, width=200, color_system="standard")
    console.print(NodeTable(CycleView(report("worker-1"))))

    assert "▇\x1b[1;31m▇" in drawn.getvalue()  # 80 % is at the target, 81 % above it


@pytest.mark.parametrize("column", NODE_COLUMNS, ids=lambda column: column.key)
@pytest.mark.parametrize("width", [60, 80, 200])
def test_each_column_stands_in_a_terminal_on_the_page_and_in_json(column, width):
    paused = replace(
        report("worker-1", "worker-2").plan.nodes[0],
        node_class=NodeClass.OVERLOADED,
        reason=NodeReason.POOL_PAUSED,
        pool="blue",
    )
    plan = replace(REPORT.plan, nodes=(paused,), evictions=(replace(EVICTION, node=paused.node),))
    of = replace(REPORT, plan=plan)
    text = column.text(CycleView(of).nodes[0])
    page = Page(cycle_page(CycleView(of)))
    (found,) = json.loads(shown(of, "json"))["plan"]["nodes"]

    assert text
    assert text in [cell.text for cell in page.tables["nodes"][0]]
    assert found[column.key] == text
    assert column.wide or text in printed(of, width)
