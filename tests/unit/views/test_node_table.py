"""The table of nodes: as wide as the terminal, and plain when piped."""

import io
import json

import pytest
from msgspec.structs import replace
from rich.console import Console

from desched.model.plan import NodeClass, NodeReason, NodeVerdict, ResourcePressure, UnjudgedLoad
from desched.model.report import CycleReport, GpuLoad, RecentLoad
from desched.model.resources import Resource
from desched.views import cycle
from desched.views.cycle import NODE_COLUMNS, CycleView
from desched.views.node_table import NodeTable
from desched.views.pages.cycle_page import cycle_page
from tests.builders import pressure
from tests.page_reader import Page
from tests.shown import shown
from tests.unit.service.example_reports import EVICTION, REPORT

HOUR = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, None, 0.7, 0.8, 0.81, 0.9, 1.0, 1.0)
LINE = "▁▁▂▃▄▅ ▆▇▇███"


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


def printed(of: CycleReport, width: int, *, terminal: bool = True, encoding: str = "utf-8"):
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, errors="replace")
    console = Console(file=file, force_terminal=terminal, width=width, color_system=None)
    console.print(NodeTable(CycleView(of)))
    file.flush()
    return [line.rstrip() for line in raw.getvalue().decode(encoding).splitlines()]


def test_a_wide_terminal_shows_each_node_on_one_line_with_its_last_hour():
    heading, line, legend = printed(report("worker-1"), 120)

    assert heading.count("last 1h") == 2
    assert line.split() == [
        *("worker-1", "overloaded", "90.0", "80/75", "70.0", *LINE.split()),
        *("50.0", "80/75", *LINE.split()),
    ]
    assert legend == (
        "last 1h: a block for each 5m, ▁ is idle, █ is full, red is above the target, blank is "
        "unknown."
    )


def test_80_columns_show_a_line_for_each_resource_with_its_last_hour():
    lines = printed(report("worker-1", "worker-2"), 80)

    assert lines[0].split() == ["Node", "%", "5m", "target/stop", "after", "last", "1h"]
    assert lines[1].split() == ["worker-1", "CPU", "90.0", "80/75", "70.0", *LINE.split()]
    assert lines[2].split() == ["overloaded", "Memory", "50.0", "80/75", *LINE.split()]
    assert " ".join(lines[5:]).startswith("last 1h: a block for each 5m")


@pytest.mark.parametrize("name", ["worker-1", "gke-production-europe-west-1-pool-4711"])
def test_40_columns_fold_names_and_never_cut_off_a_number(name):
    lines = printed(report(name), 40)

    assert max(map(len, lines)) <= 40
    assert not any("…" in line for line in lines)
    text = " ".join(lines).split()
    assert {"CPU", "Memory", "90.0", "70.0", "50.0", "overloaded"} <= set(text)
    names = next(line.index("CPU") for line in lines if "CPU" in line)
    assert name in "".join(line[:names].strip() for line in lines)


def test_a_table_that_is_piped_is_plain():
    lines = printed(report("worker-1"), 200, terminal=False)

    assert "last" not in lines[0]
    assert not set("".join(lines)) & set(LINE.replace(" ", ""))
    assert len(lines) == 2


def test_a_piped_table_of_three_resources_cuts_nothing_off():
    one = report("gke-production-pool-4711")
    pods = ResourcePressure(Resource.PODS, ((0, 0.5),), 0.5, 0.5, 0.3, 0.8, 0.75, 0.7)
    (verdict,) = one.plan.nodes
    verdict = replace(verdict, pressures=(*verdict.pressures, pods))
    lines = printed(replace(one, plan=replace(one.plan, nodes=(verdict,))), 80, terminal=False)

    text = " ".join(lines)
    assert {"gke-production-pool-4711", "overloaded", "Pods", "80/75"} <= set(text.split())
    assert "…" not in text
    assert "0s" not in text


def test_a_terminal_without_these_characters_shows_none():
    assert "last" not in printed(report("worker-1"), 200, encoding="ascii")[0]


def test_the_heading_has_the_time_that_is_known():
    short = RecentLoad("worker-1", Resource.CPU, 60, (0.5,) * 11)

    assert "last 10m" in printed(replace(report("worker-1"), recent_loads=(short,)), 200)[0]


def test_a_point_above_the_target_stands_out():
    drawn = io.StringIO()
    console = Console(file=drawn, force_terminal=True, width=200, color_system="standard")
    console.print(NodeTable(CycleView(report("worker-1"))))

    assert "▇\x1b[1;31m▇" in drawn.getvalue()  # 80 % is at the target, 81 % above it


def test_a_node_that_is_not_judged_has_its_last_hour_too():
    seen = UnjudgedLoad(Resource.CPU, measured=((300, 0.95),))
    node = NodeVerdict("worker-1", NodeClass.UNKNOWN, unjudged=(seen,))
    of = replace(report("worker-1"), plan=replace(REPORT.plan, nodes=(node,)))

    lines = printed(of, 80)

    assert lines[1].split() == ["worker-1", "unknown", "(95.0)", *LINE.split()]


def test_one_resource_leaves_a_line_for_the_state():
    cpu = report("worker-1" * 8)
    verdict = cpu.plan.nodes[0]
    alone = replace(verdict, pressures=verdict.pressures[:1])

    lines = printed(replace(cpu, plan=replace(cpu.plan, nodes=(alone,))), 60)

    assert any(line.startswith("overloaded") for line in lines)


GPUS = (GpuLoad("worker-1", 0.875, 300), GpuLoad("worker-2", None, detail="absent: no series"))


def gpu_rows(lines):
    return [cells for cells in map(str.split, lines) if cells[:1] == ["GPU"]]


def test_the_load_of_gpus_is_shown_for_each_node_that_has_some():
    seen = replace(report("worker-1", "worker-2", "worker-3"), gpu_loads=GPUS)

    heading, *lines, why = printed(seen, 200, terminal=False)
    assert heading.endswith("GPU % 5m")
    assert [line.split()[-1] for line in lines] == ["(87.5)", "?", "80/75"]
    assert why == "Unknown GPU load: worker-2 (absent: no series)"

    for width, cells in ((80, ["GPU", "(87.5)"]), (40, ["GPU", "(87.5)"])):
        lines = printed(seen, width)
        assert max(map(len, lines)) <= width
        assert gpu_rows(lines) == [cells, ["GPU", "?"]]
    assert "GPU" not in " ".join(printed(report("worker-1"), 200))


def test_gpus_that_are_judged_have_lines_and_a_load_after_the_plan():
    """Those of other nodes are shown beside them without."""
    seen = report("worker-1", "worker-2", "worker-3")
    gpu = replace(pressure(0.875), resource=Resource.GPU, after_ratio=0.5)
    first, *others = seen.plan.nodes
    judged = replace(first, pressures=(*first.pressures, gpu))
    plan = replace(seen.plan, nodes=(judged, *others))
    both = replace(seen, plan=plan, gpu_loads=GPUS, recent_loads=())

    heading, *lines, _ = printed(both, 200, terminal=False)
    assert heading.count("GPU") == 1
    assert [line.split()[7:] for line in lines] == [["87.5", "80/75", "50.0"], ["?"], []]

    for width in (80, 40):
        lines = printed(both, width)
        assert max(map(len, lines)) <= width
        found = gpu_rows(lines)
        assert [each[:2] for each in found] == [["GPU", "87.5"], ["GPU", "?"]]
        assert found[0][-1] == "50.0"


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
    assert column.wide or text in " ".join(printed(of, width))
