"""What the forecast of the next hour says, in words, wherever it is shown."""

from msgspec.structs import replace

from desched.model.cluster import PodRef
from desched.model.plan import NodeClass, NodeOutlook, NodeReason, NodeVerdict, Plan
from desched.plugins.gpus.drains.drain import GPU_DEMAND
from desched.service.telemetry.cycle_log import essentials
from desched.views.cycle import CycleView
from desched.views.cycle_table import cycle_blocks
from desched.views.pages.cycle_page import cycle_page
from desched.wording.reasons import describe_outlook
from tests.builders import planned_eviction, pressure
from tests.shown import text_of
from tests.unit.service.example_reports import REPORT

HOT = NodeOutlook(21.8, 31.4, 33.2)
TE1 = NodeVerdict("te1", NodeClass.OVERLOADED, (pressure(0.9),), outlook=HOT)
AGAIN = NodeVerdict(
    "te2",
    NodeClass.BALANCED,
    (replace(pressure(0.7), recurring=True),),
    NodeReason.RECURRING_OVERLOAD,
    outlook=NodeOutlook(20, 25, 28, 3),
)
CALM = NodeVerdict("te5", NodeClass.UNDERLOADED, (pressure(0.1),))
MOVE = replace(
    planned_eviction(PodRef("shop", "cart-1", "u"), "te1", "te5"),
    reason="node te1 cpu 90.0% > 80.0%",
    saved_minutes=28.7,
    cost_minutes=0.2,
)
SAID = "te1 was above a target for 22 of the last 60 minutes, and is expected to be for 31 of the"
PLANNED = replace(REPORT, plan=Plan((TE1, AGAIN, CALM), (MOVE,)))


def shown(report: CycleView) -> str:
    return " ".join(text_of(cycle_blocks(report), 120).split())


def test_a_node_is_told_by_its_last_hour_its_next_and_what_the_plan_makes_of_it() -> None:
    assert describe_outlook(CALM) == ""
    assert describe_outlook(AGAIN) == (
        "te2 was above a target for 20 of the last 60 minutes, and is expected to be for 25 of the "
        "next 60; by the plan, its expected overload goes from 28 to 3 minutes."
    )


def test_a_move_is_told_by_what_it_saves_and_costs_unless_it_is_for_something_else() -> None:
    assert MOVE.grounds == ("node te1 cpu 90.0% > 80.0%; saves 29 minutes of overload and costs 0")
    assert replace(MOVE, saved_minutes=1.0).saving == "saves 1 minute of overload and costs 0"
    other = replace(MOVE, saved_minutes=0.0, purpose=GPU_DEMAND)
    assert other.grounds == MOVE.reason


def test_the_table_the_page_and_the_log_have_both() -> None:
    saving = "saves 29 minutes of overload and costs 0"
    for text in (shown(CycleView(PLANNED)), cycle_page(CycleView(PLANNED))):
        assert "The next hour" in text
        assert f"{SAID} next 60." in text
        assert saving in text
    (line,) = essentials(PLANNED)["evictions"]
    assert line == f"shop/cart-1 from te1 to te5 (100 %): {MOVE.grounds}"


def test_a_node_that_is_relieved_in_time_is_not_among_those_left_alone() -> None:
    view = CycleView(PLANNED)
    assert view.left_alone == []
    assert [each.why for each in view.nodes] == ["", "", ""]
