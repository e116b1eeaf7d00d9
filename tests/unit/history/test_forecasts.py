"""What a logbook keeps of forecasts: what was expected of an hour, and what came in it."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from desched.history.logbook import ForecastTotals
from desched.history.review import review
from desched.history.stored import decode_logbook, encode_logbook
from desched.model.plan import NodeOutlook
from desched.model.report import Mode
from desched.model.state import MoveResult
from desched.views.review import review_view
from tests.unit.example_logbook import CYCLE, dry_run, logbook
from tests.unit.service.example_reports import POD, REPORT, STARTED_AT, record


def cycle(number, ratio, expected=40.0, *, every=CYCLE, **fields):
    """The cycle with this number: te3 has this load, and is expected to be above its target."""
    report = dry_run(number, ratio=ratio, planned=False, every=every)
    te3, te5 = report.plan.nodes
    outlook = NodeOutlook(10.0, expected, expected) if expected else None
    nodes = (replace(te3, outlook=outlook), te5)
    return replace(report, plan=replace(report.plan, nodes=nodes), **fields)


def totals(*reports):
    return review(logbook(*reports), STARTED_AT).forecast


def an_hour(hot_cycles, expected=40.0, first=0):
    """An hour of cycles after the forecast, so many of them above the target, and the one after."""
    ratios = [0.9] * hot_cycles + [0.5] * (12 - hot_cycles)
    return [cycle(first + i, r, expected) for i, r in enumerate([0.5, *ratios, 0.5])]


def test_what_was_expected_is_compared_with_what_came_in_the_next_hour():
    assert totals(*an_hour(7)) == ForecastTotals(
        node_hours=1, expected_minutes=40.0, came_minutes=35.0, likely=1, likely_came=1
    )
    assert totals(*an_hour(5)).likely_came == 0
    assert totals(*an_hour(5, expected=20.0)).likely == 0


def test_only_an_hour_that_is_over_counts():
    assert totals(*an_hour(7)[:-1]) == ForecastTotals()


def test_the_next_hour_begins_with_the_cycle_after_an_hour():
    both = totals(*an_hour(7), *an_hour(2, first=13)[1:])
    assert (both.node_hours, both.expected_minutes, both.came_minutes) == (2, 80.0, 45.0)


def test_overload_that_was_not_expected_is_counted_apart():
    found = totals(*an_hour(3, expected=None))
    assert found == ForecastTotals(unexpected_minutes=15.0)


def test_cycles_that_are_a_little_late_belong_to_the_hour():
    late = timedelta(minutes=5, seconds=2)
    assert totals(*(cycle(i, 0.9, every=late) for i in range(14))).came_minutes == 60.0


def test_an_hour_with_missing_cycles_is_scaled_or_does_not_count():
    hour = an_hour(12)
    some = totals(*hour[:10], hour[13])  # nine of twelve
    assert (some.node_hours, some.came_minutes) == (1, pytest.approx(60.0))
    assert totals(*hour[:8], hour[13]) == ForecastTotals()


def test_a_node_from_which_or_to_which_a_pod_moved_does_not_count():
    hour = an_hour(7)
    move = replace(
        REPORT, started_at=hour[3].started_at, plan=replace(REPORT.plan, nodes=hour[3].plan.nodes)
    )
    assert totals(*hour[:3], move, *hour[4:]) == ForecastTotals()
    first = replace(move, started_at=hour[0].started_at)
    assert totals(first, *hour[1:]) == ForecastTotals()
    end = replace(record("x", MoveResult.LANDED_AS_FORECAST), pod=POD, landed_on="te3")
    landed = replace(hour[3], mode=Mode.EVICT, settled=(end,))
    assert totals(*hour[:3], landed, *hour[4:]) == ForecastTotals()


def test_what_a_dry_run_plans_changes_nothing():
    hour = an_hour(7)
    planned = dry_run(3)
    planned = replace(planned, plan=replace(planned.plan, nodes=hour[3].plan.nodes))
    assert planned.plan.evictions
    assert totals(*hour[:3], planned, *hour[4:]) == totals(*hour)


def test_a_node_whose_load_was_unknown_in_between_does_not_count():
    hour = an_hour(7)
    unknown = tuple(replace(node, pressures=()) for node in hour[3].plan.nodes)
    gap = replace(hour[3], plan=replace(hour[3].plan, nodes=unknown))
    assert totals(*hour[:3], gap, *hour[4:]) == ForecastTotals()


def test_the_hour_goes_on_after_a_restart_and_steps_may_become_longer():
    hour = an_hour(7)
    book = decode_logbook(encode_logbook(logbook(*hour[:5]))[0]).book
    assert book is not None
    again = logbook(*hour[5:], book=book)
    assert review(again, STARTED_AT).forecast == totals(*hour)
    assert again.hour is not None
    assert again.hour.began_at == hour[-1].started_at


def test_a_damaged_hour_is_a_problem():
    book = logbook(*an_hour(7))
    assert book.hour is not None
    damaged = replace(book, hour=replace(book.hour, began_at=STARTED_AT.replace(year=9999)))
    assert decode_logbook(encode_logbook(damaged)[0]).problem


def test_a_report_says_it_in_plain_lines():
    found = review(logbook(*an_hour(7), *an_hour(4, first=13)[1:]), STARTED_AT)
    shown = review_view(found)
    assert (
        "Forecast of the next hour: 80 node-minutes above a target expected, 55 came; 0 more came "
        "on nodes that expected less than a minute."
    ) in shown.summary
    assert (
        "Nodes that were expected to be above a target for at least half of the next hour were so "
        "in 50.0 % of 2 cases."
    ) in shown.summary
    assert "about once an hour" in "".join(shown.notes[0][1])
    nothing = review_view(review(logbook(dry_run(0)), STARTED_AT))
    assert not any("Forecast" in line for line in nothing.summary)
