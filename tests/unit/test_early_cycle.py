"""When a cycle begins between two ticks."""

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from desched.early_cycle import LEAST_PAUSE, early_cycle_at
from desched.model.plan import HoldReason, NodeClass, NodeReason, NodeVerdict, Plan
from desched.model.report import CycleReport
from tests.builders import NOW
from tests.unit.service.example_reports import REPORT

TICK = NOW + timedelta(minutes=5)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def waiting(*seconds: float, reason: NodeReason = NodeReason.NOT_SUSTAINED_YET) -> CycleReport:
    """The report of a cycle in which nodes wait until these times."""
    nodes = [NodeVerdict(f"n{s}", NodeClass.OVERLOADED, (), reason, until=at(s)) for s in seconds]
    return replace(REPORT, plan=Plan(tuple(nodes), (), ()))


@pytest.mark.parametrize(
    ("until", "begins"),
    [
        ((90,), 90),
        ((200, 90, 400), 90),
        ((5,), 60),  # not shortly after the last cycle
        ((240,), 240),
        ((241,), None),  # nor shortly before the next one
        ((400,), None),
        ((), None),
    ],
)
def test_it_begins_when_the_first_node_has_been_overloaded_for_long_enough(
    until: tuple[float, ...], begins: float | None
) -> None:
    expected = None if begins is None else at(begins)
    assert early_cycle_at(waiting(*until), NOW, TICK) == expected


def test_nodes_that_wait_for_something_else_do_not_count() -> None:
    other = waiting(90, reason=NodeReason.COOLING_DOWN)
    assert early_cycle_at(other, NOW, TICK) is None
    unknown = replace(waiting(90).plan.nodes[0], until=None)
    report = replace(REPORT, plan=Plan((unknown,), (), ()))
    assert early_cycle_at(report, NOW, TICK) is None


def test_a_cycle_that_was_held_is_not_followed_by_one() -> None:
    report = waiting(90)
    held = replace(report, plan=replace(report.plan, hold=HoldReason.CLOCKS_DIFFER))
    assert early_cycle_at(held, NOW, TICK) is None


def test_ticks_that_are_close_together_leave_no_room_for_it() -> None:
    assert early_cycle_at(waiting(5), NOW, NOW + 2 * LEAST_PAUSE) == at(60)
    assert early_cycle_at(waiting(5), NOW, NOW + 2 * LEAST_PAUSE - timedelta(seconds=1)) is None
