"""Reviews and histories for people and for programs."""

import io
import re
from datetime import timedelta

import pytest
from msgspec.structs import replace
from rich.console import Console

from desched.history.review import review
from desched.model.report import Mode
from desched.model.state import MoveResult
from desched.views.blocks import print_blocks
from desched.views.comparison_table import comparison_blocks
from desched.views.review import history_blocks, review_view
from tests.shown import json_of, text_of
from tests.unit.example_logbook import dry_run, logbook
from tests.unit.history.test_review import LONG_AGO
from tests.unit.service.example_reports import DRAINING, POD, REPORT, drain_move, record

DRY = review(logbook(*(dry_run(i) for i in range(12))), LONG_AGO)
END = replace(record("x", MoveResult.LANDED_AS_FORECAST), pod=POD, landed_on="te5")
EVICTING = logbook(REPORT, replace(dry_run(1, ratio=0.5), mode=Mode.EVICT, settled=(END,)))


def test_a_dry_run_reads_as_what_would_have_been():
    text = text_of(comparison_blocks(review_view(DRY)))

    assert "2026-03-04 12:00 to 2026-03-04 12:55 UTC (55 min), dry run" in text
    assert "12 cycles for 1 h 5 min, kept in steps of 5 min" in text
    assert "1 node was overloaded at some time, for 65 node-minutes in all." in text
    assert "1 eviction would have begun. 100.0 % of the overload had" in text
    assert re.search(r"^te3 +65 +90.0 % +1$", text, re.MULTILINE)
    assert "Deployment shop/web" in text
    assert "not_needed" in text
    assert "A dry run changes nothing" in text


def test_only_a_day_and_more_has_evictions_per_day():
    days = replace(DRY, covered_seconds=2 * 86_400.0, evictions_per_day=0.5)
    of_days, of_an_hour = (text_of(comparison_blocks(review_view(each))) for each in (days, DRY))

    assert "1 eviction would have begun, 0.5 a day. " in of_days
    assert re.search(r"^evictions per day +0.5$", of_days, re.MULTILINE)
    assert "a day" not in of_an_hour
    assert "per day" not in of_an_hour


def test_evictions_read_as_what_was_with_their_results():
    found = review(EVICTING, LONG_AGO)
    text = text_of(comparison_blocks(review_view(found)))

    assert (
        "1 eviction began. They were from 1 node, of which none were overloaded in the last" in text
    )
    assert "had an eviction planned" not in text
    assert "with planned eviction" not in text
    assert re.search(r"^result landed_as_forecast +1$", text, re.MULTILINE)
    assert "A dry run" not in text


def test_a_quiet_time_is_one_sentence():
    quiet = review(logbook(*(dry_run(i, ratio=0.5) for i in range(3))), LONG_AGO)

    assert review_view(quiet).summary[0] == "No node was overloaded."
    assert "Nodes with the most overload" not in text_of(comparison_blocks(review_view(quiet)))


@pytest.mark.parametrize("width", [40, 80])
def test_a_narrow_terminal_cuts_off_no_number(width):
    out = io.StringIO()
    print_blocks(
        comparison_blocks(review_view(DRY)),
        Console(file=out, width=width, force_terminal=True, color_system=None),
    )
    lines = out.getvalue().splitlines()

    assert max(map(len, lines)) <= width
    assert not any("…" in line for line in lines)


def test_the_json_has_every_figure():
    found = json_of(DRY)

    assert found["version"] == "desched.io/review/v1"
    assert (found["mode"], found["evictions"], found["cycles"]) == ("dry_run", 1, 12)
    assert found["nodes"][0]["highest"] == {"cpu": 0.9}
    assert found["timeline"]["loads"][0]["ratios"][0] == [0.9] * 12


def test_the_history_is_a_table_with_a_row_for_each_eviction():
    book = logbook(*(dry_run(i) for i in range(12)))
    heading, *row = text_of(history_blocks(book.moves)).splitlines()

    assert heading.split("  ")[0] == "At (UTC)"
    assert heading.split()[2:] == ["Pod", "From", "Landed", "on", "Result", "Why"]
    cells = " ".join(" ".join(row).split())
    assert cells.startswith("2026-03-04 12:00 shop/web-1 te3 (expected: te5")
    assert "dry run, planned" in cells
    (_, landed) = text_of(history_blocks(EVICTING.moves)).splitlines()
    assert landed.split()[2:] == ["shop/web-1", "te3", "te5", "landed_as_forecast", "cpu"]
    assert json_of(book.moves)[0]["pod"]["name"] == "web-1"
    assert text_of(history_blocks(())) == "No eviction is in the logbook.\n"


def test_evictions_of_drains_are_counted_apart():
    text = text_of(comparison_blocks(review_view(review(logbook(drain_move(DRAINING)), LONG_AGO))))
    assert re.search(r"^of them for gpu_demand +1$", text, re.MULTILINE)
    assert "of them for" not in text_of(comparison_blocks(review_view(review(EVICTING, LONG_AGO))))


@pytest.mark.parametrize(("minutes", "said"), [(59, False), (2880, True)])
def test_an_old_review_says_since_when_there_was_no_cycle(minutes, said):
    now = DRY.ended_at + timedelta(minutes=minutes)
    text = text_of(comparison_blocks(review_view(DRY, now)))
    assert ("the newest cycle was 2 d ago, and none since" in text) == said
