import json
import re

import msgspec
import pytest

from desched.model.cluster import PodRef
from desched.model.plan import NodeClass, NodeVerdict, Refusal, RefusalReason, UnjudgedLoad
from desched.model.report import CycleReport, CycleResult, Mode, RecentLoad, TaintChange
from desched.model.resources import Resource
from desched.views.cycle import CycleView
from desched.views.pages.cycle_page import MOST_NODES, MOST_REFUSALS, cycle_page
from desched.wording.formatting import plain
from tests.builders import pressure
from tests.page_reader import Page, loads_nothing, source_of
from tests.shown import shown
from tests.unit.service.example_reports import FOLLOWED_UP, HELD, REPORT
from tests.unit.service.test_adversarial_outputs import HOSTILE, poisoned, with_all


def page(report: CycleReport) -> Page:
    return Page(cycle_page(CycleView(report)))


def as_json(report: CycleReport):
    return json.loads(shown(report, "json"))


def with_after(report: CycleReport) -> CycleReport:
    """The plan takes load from the first node and gives it to the second."""
    first, second, *others = report.plan.nodes
    before = [msgspec.structs.replace(first.pressures[0], after_ratio=0.741)]
    after = [msgspec.structs.replace(second.pressures[0], after_ratio=0.23)]
    nodes = (
        msgspec.structs.replace(first, pressures=tuple(before)),
        msgspec.structs.replace(second, pressures=tuple(after)),
        *others,
    )
    return msgspec.structs.replace(report, plan=msgspec.structs.replace(report.plan, nodes=nodes))


def test_the_load_of_a_node_is_what_was_measured_even_if_more_is_expected() -> None:
    first, *others = REPORT.plan.nodes
    corrected = msgspec.structs.replace(first.pressures[0], highest_ratio=1.2)
    nodes = (msgspec.structs.replace(first, pressures=(corrected,)), *others)
    plan = msgspec.structs.replace(REPORT.plan, nodes=nodes)

    found = page(msgspec.structs.replace(REPORT, plan=plan))

    assert found.rows("nodes")[0][2] == "87.5 % 5m 87.5 %"


def test_an_acknowledged_descheduler_is_named() -> None:
    beside = ("Volcano descheduler in batch",)
    found = page(msgspec.structs.replace(REPORT, acknowledged_deschedulers=beside))
    assert "Beside desched on purpose: Volcano descheduler in batch." in found.text


def drawn_lines(found: Page) -> list[str]:
    return [value for tag, name, value in found.attributes if (tag, name) == ("polyline", "points")]


def test_the_recent_load_of_a_node_is_a_line_from_left_to_right() -> None:
    recent = RecentLoad("te3", Resource.CPU, 300, (0.0, None, 1.0))

    found = page(msgspec.structs.replace(REPORT, recent_loads=(recent,)))

    assert drawn_lines(found) == ["0.0,100.0 100.0,0.0"]  # downwards, y grows
    assert drawn_lines(page(REPORT)) == []


def test_a_load_that_is_not_judged_has_a_bar_without_lines() -> None:
    seen = UnjudgedLoad(Resource.CPU, ((300, 0.4), (900, 0.45)))
    node = NodeVerdict("te1", NodeClass.UNKNOWN, unjudged=(seen,))
    plan = msgspec.structs.replace(REPORT.plan, nodes=(node,), evictions=())

    found = page(msgspec.structs.replace(REPORT, plan=plan))

    assert found.rows("nodes")[0][2] == "45.0 % 5m 40.0 % · 15m 45.0 %"
    assert ("svg", "class", "bar unjudged") in found.attributes


@pytest.mark.parametrize("report", [REPORT, FOLLOWED_UP, HELD, with_all(FOLLOWED_UP)])
def test_it_loads_nothing_and_runs_only_its_own_scripts(report: CycleReport) -> None:
    found = page(report)

    loads_nothing(found)
    assert found.security_policy["style-src"] == source_of(found.contents["style"][0])


def test_its_figures_are_those_of_the_json() -> None:
    report = with_after(REPORT)
    document = as_json(report)["plan"]
    found = page(report)

    shown = {row[0].text: row[2].sort for row in found.tables["nodes"]}
    assert shown == {
        node["node"]: f"{max(ratio for _, ratio in node['pressures'][0]['measured']) * 100:.2f}"
        if node["pressures"]
        else "-1"
        for node in document["nodes"]
    }
    assert found.rows("nodes")[0][2] == "87.5 → 74.1 % 5m 87.5 %"
    assert [row[1:4] for row in found.rows("evictions")] == [
        [
            f"{e['pod']['namespace']}/{e['pod']['name']} {e['workload']}",
            f"{e['node']} → {e['landing'][0]['node']} (100 %)",
            "",
        ]
        for e in document["evictions"]
    ]
    assert {row[2]: int(row[0]) for row in found.rows("refusals")} == {
        "not_needed": 2,
        "bare_pod": 1,
    }
    assert [(row[0], row[1], row[2]) for row in found.rows("refused")] == [
        (f"{r['pod']['namespace']}/{r['pod']['name']}", r["node"], r["reason"])
        for r in document["refusals"]
    ]


def test_the_page_and_the_terminal_have_the_same_order_of_nodes_and_the_same_soft_taints() -> None:
    swings = msgspec.structs.replace(pressure(0.82), highest_ratio=0.99)
    nodes = (
        NodeVerdict("swings", NodeClass.OVERLOADED, (swings,)),
        NodeVerdict("lasts", NodeClass.OVERLOADED, (pressure(0.85),)),
    )
    plan = msgspec.structs.replace(REPORT.plan, nodes=nodes)
    failed = TaintChange("te5", tainted=True, why="web-1 is on its way", done=False, detail="403")
    report = msgspec.structs.replace(REPORT, plan=plan, mode=Mode.EVICT, taints=(failed,))

    found, terminal = page(report), shown(report, "table")

    assert [row[0] for row in found.rows("nodes")] == ["lasts", "swings"]
    assert terminal.index("lasts ") < terminal.index("swings ")
    for text in (found.text, terminal):
        assert "te5 did not get it (web-1 is on its way): 403" in text


def test_a_bar_has_what_leaves_what_arrives_and_the_lines() -> None:
    bars = re.findall(
        r"<svg class=\"bar.+?</svg>", cycle_page(CycleView(with_after(REPORT))), re.DOTALL
    )
    parts = [
        re.findall(r'class="(\w+)" x1?="([\d.]+)" (?:width|x2)="([\d.]+)"', bar) for bar in bars
    ]

    lines = [
        ("ceiling", "70.00", "70.00"),
        ("stop", "75.00", "75.00"),
        ("target", "80.00", "80.00"),
    ]
    track = ("track", "0.00", "100.00")
    assert parts[0] == [track, ("kept", "0.00", "74.10"), ("leaving", "74.10", "13.40"), *lines]
    assert parts[1] == [track, ("kept", "0.00", "10.00"), ("arriving", "10.00", "13.00"), *lines]


def test_refusals_are_ranked_by_their_number() -> None:
    assert [row[2] for row in page(REPORT).rows("refusals")] == ["not_needed", "bare_pod"]


def test_it_begins_with_what_would_happen() -> None:
    planned = msgspec.structs.replace(REPORT, mode=Mode.DRY_RUN, result=CycleResult.PLANNED)
    text = page(planned).text

    assert "Plan for in-cluster" in text
    assert "Dry run: nothing was changed. It would evict 1 pod." in text
    assert text.index("It would evict 1 pod") < text.index("Would evict") < text.index("te3")


def test_it_has_what_came_of_each_eviction_only_if_something_did() -> None:
    assert (
        page(REPORT).rows("evictions")[0][-1]
        == "cpu evicted: The pod is leaving; its controller replaces it."
    )
    forbidden = page(with_all(REPORT)).rows("evictions")[0][-1]
    assert forbidden.startswith(
        "cpu kept off te3 by soft taints forbidden: The API server or an admission webhook refused"
    )
    assert forbidden.endswith("the webhook says")
    planned = msgspec.structs.replace(REPORT, outcomes=())
    assert page(planned).rows("evictions")[0][-1] == "cpu"


def test_it_shows_what_earlier_moves_left_behind() -> None:
    text = page(FOLLOWED_UP).text

    assert "Earlier moves" in text
    assert "pool gpu" in text
    assert "Earlier moves" not in page(REPORT).text


def test_hostile_names_are_shown_as_text() -> None:
    report = poisoned(with_all(FOLLOWED_UP))
    harmless, hostile = page(with_all(FOLLOWED_UP)), page(report)

    assert set(hostile.elements) == set(harmless.elements)
    assert hostile.elements.count("script") == harmless.elements.count("script")
    assert {a[:2] for a in hostile.attributes} == {a[:2] for a in harmless.attributes}
    assert plain(HOSTILE) in hostile.text
    loads_nothing(hostile)


def test_a_large_cluster_makes_a_page_of_bounded_size_that_says_what_it_leaves_out() -> None:
    nodes = [NodeVerdict(f"node-{i}", NodeClass.BALANCED, (pressure(0.5),)) for i in range(5_000)]
    refusals = [
        Refusal(PodRef("shop", f"web-{i}"), "te3", RefusalReason.NOT_NEEDED) for i in range(30_000)
    ]
    plan = msgspec.structs.replace(
        REPORT.plan,
        nodes=(*REPORT.plan.nodes, *nodes),
        refusals=tuple(refusals),
    )
    found = page(msgspec.structs.replace(REPORT, plan=plan))

    assert len(found.source) < 3_000_000
    assert len(found.rows("nodes")) == MOST_NODES
    assert {"te3", "te5"} <= {row[0] for row in found.rows("nodes")}
    assert "… and 4002 more balanced, 1 more unknown." in found.text
    assert len(found.rows("refused")) == MOST_REFUSALS
    assert "… and 28000 more" in found.text
    assert found.rows("refusals")[0][0] == "30000"
