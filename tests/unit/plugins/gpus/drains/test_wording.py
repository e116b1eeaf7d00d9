"""Drains in cycle reports, for people and for programs."""

import json

import pytest
from msgspec.structs import replace

from desched.model.report import Mode
from desched.plugins.gpus.drains.drain import GPU_DEMAND, Drain, Unserved
from desched.plugins.gpus.drains.progress import begun_in, ended_in
from desched.plugins.gpus.drains.wording import describe_drain, describe_unserved
from desched.views.cycle import CycleView
from desched.views.cycle_table import cycle_blocks
from desched.views.pages.cycle_page import cycle_page
from desched.views.rendering import rendered
from tests.unit.service.example_reports import (
    BROKEN_DRAIN,
    DRAIN,
    DRAINING,
    HOUR,
    LANDED_DRAIN,
    REPORT,
    ROOM_FOR_BIG,
    STARTED_AT,
    TOLD_DRAIN,
    begun_earlier,
    drain_move,
    with_drain,
)


def shown(report, form="table"):
    text = rendered(CycleView(report), cycle_blocks(CycleView(report)), form)
    return " ".join(text.split()) if form == "table" else json.loads(text)


@pytest.mark.parametrize(
    ("drain", "text"),
    [
        (DRAINING, TOLD_DRAIN),
        (
            BROKEN_DRAIN,
            (
                "pod train/big-0 (8 GPUs) on te3: broken 1 h ago (12:00 UTC) after 2 moves: "
                "node te3 is gone"
            ),
        ),
        (
            Drain((), tuple("abcde"), 8, STARTED_AT, STARTED_AT + HOUR, reserve="reserve of GPUs"),
            (
                "reserve of GPUs on a, b, c and 2 more: 0 moves made, held until 13:00 UTC at the "
                "latest"
            ),
        ),
    ],
)
def test_a_drain_is_one_line(drain, text):
    now = STARTED_AT if drain.under_way else STARTED_AT + HOUR
    assert describe_drain(drain, now) == text


def test_what_waits_is_grouped_by_the_reason():
    waiting = [Unserved(f"pod train/p{i}", 8, "why" if i < 4 else "other") for i in range(5)]
    assert list(describe_unserved(waiting)) == [
        "pod train/p0, pod train/p1, pod train/p2 and 1 more: why",
        "pod train/p4: other",
    ]


def test_a_report_has_the_drains_under_way_and_what_waits_without_one():
    text = shown(with_drain(begun_earlier(DRAINING)))
    assert f"drains {TOLD_DRAIN}" in text
    assert "pod train/huge-0: no node has 16 GPUs" in text
    assert "drains" not in shown(REPORT)
    assert "without a drain" not in shown(REPORT)


def test_a_move_of_a_drain_has_its_purpose_and_takes_no_credit_for_relief():
    text = shown(drain_move(DRAINING))
    assert f"because {ROOM_FOR_BIG}" in text
    assert "takes" not in text
    assert "purpose: gpu_demand" in text
    assert "purpose" not in shown(REPORT)


def test_a_dry_run_shows_the_drains_that_it_would_begin():
    would = "pod train/big-0 (8 GPUs) on te3: 1 move in this cycle"
    assert would in shown(replace(drain_move(), mode=Mode.DRY_RUN, outcomes=()))
    assert would not in shown(drain_move(DRAINING))


@pytest.mark.parametrize("report", [REPORT, drain_move(DRAINING)])
def test_programs_read_the_purpose_of_each_eviction(report):
    [eviction] = shown(report, "json")["plan"]["evictions"]
    assert eviction["purpose"] == report.plan.evictions[0].purpose
    assert (eviction["undertaking"] is None) == (eviction["purpose"] != GPU_DEMAND)


def test_a_cycle_has_the_drains_that_it_began_and_ended():
    began = drain_move(DRAINING)
    assert (begun_in(began), ended_in(began)) == ([DRAINING], [])
    ended = begun_earlier(LANDED_DRAIN)
    found = with_drain(ended)
    assert (begun_in(found), ended_in(found)) == ([], [ended])
    earlier = replace(ended, ended_at=STARTED_AT - HOUR)
    assert not ended_in(with_drain(earlier))


def test_the_page_has_them_too():
    page = cycle_page(CycleView(with_drain(begun_earlier(DRAINING))))
    assert TOLD_DRAIN in page
    assert "no node has 16 GPUs" in page
    planned = replace(drain_move(), mode=Mode.DRY_RUN, outcomes=())
    assert "1 move in this cycle" in cycle_page(CycleView(planned))
    assert DRAIN.moves == 0
