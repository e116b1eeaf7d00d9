"""Reviews and histories for people and for programs."""

from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from desched.history.review import Review, review
from desched.model.report import Mode
from desched.model.state import MoveResult
from desched.views.comparison_table import comparison_blocks
from desched.views.review import history_blocks, review_view
from tests.shown import json_of, text_of
from tests.stored_text import check_stored, sections
from tests.unit.example_logbook import dry_run, logbook
from tests.unit.history.test_review import LONG_AGO
from tests.unit.service.example_reports import DRAINING, POD, REPORT, drain_move, record

DRY = review(logbook(*(dry_run(i) for i in range(12))), LONG_AGO)
END = replace(record("x", MoveResult.LANDED_AS_FORECAST), pod=POD, landed_on="te5")
EVICTING = logbook(REPORT, replace(dry_run(1, ratio=0.5), mode=Mode.EVICT, settled=(END,)))


def without_overload() -> Review:
    return review(logbook(*(dry_run(i, ratio=0.5) for i in range(3))), LONG_AGO)


CASES: dict[str, Review] = {
    "a dry run reads as what would have been": DRY,
    "a day and more has evictions per day": replace(
        DRY, covered_seconds=2 * 86_400.0, evictions_per_day=0.5
    ),
    "evictions read as what was, with their results": review(EVICTING, LONG_AGO),
    "a quiet time is one sentence": without_overload(),
    "evictions of drains are counted apart": review(logbook(drain_move(DRAINING)), LONG_AGO),
}
MOVES = {
    "the history has a row for each eviction": logbook(*(dry_run(i) for i in range(12))).moves,
    "and where its replacement landed": EVICTING.moves,
    "no eviction": (),
}


def test_a_review_and_a_history_say_all_of_this():
    found = {case: text_of(comparison_blocks(review_view(each))) for case, each in CASES.items()}
    found |= {case: text_of(history_blocks(moves)) for case, moves in MOVES.items()}
    check_stored(Path(__file__).with_name("reviews.txt"), sections(found))


def test_the_json_has_every_figure():
    found = json_of(DRY)

    assert found["version"] == "desched.io/review/v1"
    assert (found["mode"], found["evictions"], found["cycles"]) == ("dry_run", 1, 12)
    assert found["nodes"][0]["highest"] == {"cpu": 0.9}
    assert found["timeline"]["loads"][0]["ratios"][0] == [0.9] * 12


@pytest.mark.parametrize(("minutes", "said"), [(59, False), (2880, True)])
def test_an_old_review_says_since_when_there_was_no_cycle(minutes, said):
    now = DRY.ended_at + timedelta(minutes=minutes)
    text = text_of(comparison_blocks(review_view(DRY, now)))
    assert ("the newest cycle was 2 d ago, and none since" in text) == said
