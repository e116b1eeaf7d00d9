"""The logbook grows cycle by cycle, within its bounds, and survives being stored."""

import zlib
from datetime import timedelta

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from desched.history import stored
from desched.history.logbook import (
    KEPT,
    LONGEST_STEP_SECONDS,
    MOST_MOVES,
    UNKNOWN,
    Logbook,
    LoggedMove,
)
from desched.history.logged_cycle import entry_of
from desched.history.review import review
from desched.history.steps import as_rows, smaller, updated
from desched.history.stored import LONGEST_BYTES, decode_logbook, encode_logbook
from desched.model.plan import HoldReason, NodeClass, NodeVerdict
from desched.model.report import EvictionVerdict, Mode, Outcome
from desched.model.resources import Resource
from desched.model.state import MoveResult
from tests.builders import pressure
from tests.unit.example_logbook import CYCLE, GAP_SECONDS, dry_run, logbook
from tests.unit.service.example_reports import EVICTION, POD, REPORT, STARTED_AT, record


def percents(book, node="te3", resource=Resource.CPU):
    load = next(load for load in book.loads if load.resource is resource)
    return as_rows(load.percents, book)[book.nodes.index(node)].tolist()


def overloaded(book, node="te3"):
    return as_rows(book.overloaded, book)[book.nodes.index(node)].tolist()


# --- steps -----------------------------------------------------------------------------------


def test_each_cycle_of_five_minutes_has_a_step_of_its_own():
    book = logbook(dry_run(0), dry_run(1, ratio=0.5), dry_run(2, ratio=0.85))

    assert book.started_at == STARTED_AT
    assert percents(book) == [90, 50, 85]
    assert percents(book, "te5") == [10, 10, 10]
    assert overloaded(book) == [1, 0, 1]
    assert [step.cycles for step in book.steps] == [1, 1, 1]


def test_cycles_within_a_step_are_averaged_and_counted():
    every = timedelta(minutes=1)
    loads = (0.9, 0.9, 0.6, 0.6, 0.6)
    book = logbook(*(dry_run(i, ratio=r, every=every) for i, r in enumerate(loads)))

    assert percents(book) == [72]
    assert overloaded(book) == [2]
    assert book.steps[0].cycles == 5


def test_the_mean_of_a_step_follows_all_of_its_many_cycles():
    every = timedelta(seconds=1)
    book = logbook(*(dry_run(i, ratio=0.2 if i < 100 else 0.6, every=every) for i in range(200)))

    assert percents(book)[0] == pytest.approx(40, abs=2)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_more_cycles_than_a_byte_can_count_keep_their_share(share):
    every = timedelta(seconds=1)
    ratios = [0.9 if i % 2 < 2 * share else 0.5 for i in range(290)]
    book = logbook(*(dry_run(i, ratio=r, every=every) for i, r in enumerate(ratios)))
    assert len(book.steps) == 1

    for seen in (book, in_wider_steps(book)):
        (te3,) = (each for each in review(seen, STARTED_AT).nodes if each.node == "te3")
        covered = sum(step.covered_seconds for step in seen.steps) / 60
        assert te3.overloaded_minutes == pytest.approx(share * covered, rel=0.03)


def test_a_time_without_cycles_is_unknown_and_covered_by_none():
    book = logbook(dry_run(0), dry_run(1), dry_run(10))

    assert percents(book) == [90, 90, *[UNKNOWN] * 8, 90]
    assert [step.covered_seconds for step in book.steps] == [
        *(GAP_SECONDS, 300.0),
        *[0.0] * 8,
        GAP_SECONDS,
    ]


def test_nodes_come_and_go():
    new = NodeVerdict("te9", NodeClass.BALANCED, (pressure(0.4),))
    later = dry_run(1)
    later = replace(later, plan=replace(later.plan, nodes=(new,)))
    book = logbook(dry_run(0), later)

    assert percents(book) == [90, UNKNOWN]
    assert percents(book, "te9") == [UNKNOWN, 40]
    days = [dry_run(i * 288) for i in range(2, 12)]
    assert logbook(*days, book=book).nodes == ("te3", "te5")


def test_cycles_that_are_not_newer_are_left_out():
    book = logbook(dry_run(0), dry_run(1))

    assert logbook(dry_run(1, ratio=0.2), dry_run(0, ratio=0.2), book=book) == book


@pytest.mark.parametrize("ahead", [timedelta(hours=2), timedelta(days=7)])
def test_of_a_logbook_whose_clock_was_ahead_only_what_is_later_goes(ahead):
    right = logbook(dry_run(0), dry_run(1), dry_run(2))
    wrong = logbook(replace(dry_run(2), started_at=STARTED_AT + ahead), book=right)

    book = logbook(dry_run(3), book=wrong)

    assert [step.cycles for step in book.steps] == [1, 1, 1, 1]
    assert percents(book) == [90] * 4
    assert (book.started_at, book.newest_at) == (STARTED_AT, STARTED_AT + 3 * CYCLE)
    assert all(move.last_at <= book.newest_at for move in book.moves)


def test_a_logbook_that_is_all_of_a_clock_ahead_is_replaced():
    future = logbook(replace(dry_run(0), started_at=STARTED_AT + timedelta(days=400)))

    assert logbook(dry_run(1), book=future) == logbook(dry_run(1))


def test_a_logbook_that_was_left_for_years_takes_no_room():
    old = logbook(replace(dry_run(0), started_at=STARTED_AT - timedelta(days=4000)))

    book = logbook(dry_run(0), book=old)

    assert len(book.steps) == 1
    assert book.nodes == ("te3", "te5")
    assert [move.at for move in book.moves] == [STARTED_AT]


def test_only_some_days_are_kept():
    book = logbook(*(dry_run(i * 12) for i in range(24 * 10)))

    assert STARTED_AT + 24 * 10 * timedelta(hours=1) - book.started_at <= KEPT + CYCLE * 13
    assert len(book.steps) == len(percents(book)) <= KEPT / CYCLE + 1


# --- what a cycle did ------------------------------------------------------------------------


def test_an_eviction_that_a_dry_run_plans_again_is_one_move():
    book = logbook(*(dry_run(i) for i in range(4)), dry_run(30))
    first, second = book.moves

    assert (first.at, first.last_at, first.cycles) == (STARTED_AT, STARTED_AT + 3 * CYCLE, 4)
    assert (second.at, second.cycles) == (STARTED_AT + 30 * CYCLE, 1)
    assert first.pod == POD
    assert first.dry_run
    assert (first.node, first.expected_on, first.reason) == ("te3", "te5 (100 %)", "cpu")


def test_an_eviction_has_its_result_once_it_is_known():
    begun = replace(REPORT, started_at=STARTED_AT)
    end = record("web-1", MoveResult.LANDED_AS_FORECAST)
    end = replace(end, pod=POD, landed_on="te5", settled_at=STARTED_AT + CYCLE)
    settled = replace(dry_run(1, planned=False), mode=Mode.EVICT, settled=(end,))

    (move,) = logbook(begun, settled).moves

    assert not move.dry_run
    assert (move.verdict, move.result) == ("evicted", "landed_as_forecast")
    assert (move.landed_on, move.settled_at) == ("te5", STARTED_AT + CYCLE)


@pytest.mark.parametrize("verdict", EvictionVerdict)
def test_only_what_was_evicted_or_may_have_been_is_an_eviction(verdict):
    report = replace(REPORT, outcomes=(Outcome(POD, "te3", verdict, STARTED_AT),))
    book = logbook(report)

    assert bool(book.moves) == (verdict.value in {"evicted", "taken_over", "unknown"})
    assert book.steps[0].verdicts == {verdict.value: 1}


def test_a_dry_run_that_may_not_act_now_would_have_evicted_nothing():
    held = dry_run(0)
    held = replace(held, plan=replace(held.plan, hold=HoldReason.PARTIAL_DATA))
    book = logbook(held)

    assert book.moves == ()
    assert book.steps[0].idle == {"partial_data": 1}


def test_refusals_and_idle_cycles_are_counted_by_reason():
    (step,) = logbook(dry_run(0, planned=False)).steps

    assert step.refused == {"bare_pod": (1, 1), "not_needed": (2, 2)}
    assert step.idle == {"not_needed": 1}
    assert (step.overloaded, step.relieved) == (1, 0)
    (planned,) = logbook(dry_run(0)).steps
    assert (planned.idle, planned.relieved) == ({}, 1)


def test_the_newest_moves_are_kept():
    def move(number):
        pod = replace(POD, uid=f"uid-{number}")
        return LoggedMove(STARTED_AT, STARTED_AT, pod, "te3", "", "te5", 0.1, "cpu", dry_run=True)

    many = [move(number) for number in range(MOST_MOVES + 5)]
    book = updated(None, [replace(entry_of(dry_run(0)), moves=many)], GAP_SECONDS)

    assert len(book.moves) == MOST_MOVES
    assert book.moves[-1] == many[-1]
    assert book.moves_since == STARTED_AT


def in_wider_steps(book: Logbook) -> Logbook:
    wider = smaller(book)
    assert wider is not None
    return wider


# --- wider steps -----------------------------------------------------------------------------


def test_two_steps_become_one_with_what_both_had():
    book = logbook(*(dry_run(i, ratio=r) for i, r in enumerate((0.9, 0.5, 0.7))))
    wider = in_wider_steps(book)

    assert wider.step_seconds == 600
    assert wider.started_at == STARTED_AT  # noon is the start of a step of ten minutes, too
    assert percents(wider) == [70, 70]
    assert overloaded(wider) == [1, 0]
    assert [step.cycles for step in wider.steps] == [2, 1]
    assert wider.moves == book.moves


def test_a_step_that_begins_in_the_middle_of_a_wider_one_stays_where_it_was():
    book = logbook(*(dry_run(i, ratio=0.9) for i in range(1, 4)))
    wider = in_wider_steps(book)

    assert wider.started_at == STARTED_AT
    assert percents(wider) == [90, 90]
    assert [step.cycles for step in wider.steps] == [1, 2]


def test_a_cycle_goes_on_in_wider_steps():
    book = logbook(dry_run(2, ratio=0.9), book=in_wider_steps(logbook(dry_run(0), dry_run(1))))

    assert percents(book) == [90, 90]
    assert sum(step.cycles for step in book.steps) == 3


def test_at_the_longest_step_the_older_half_goes_until_nothing_is_left_to_go():
    book = logbook(*(dry_run(i * 100) for i in range(8)))
    sizes = []
    while (less := smaller(book)) is not None:
        book = less
        sizes.append((book.step_seconds, len(book.steps)))

    assert sizes[-1] == (LONGEST_STEP_SECONDS, 1)
    assert percents(book) == [90]  # the newest
    assert len(book.moves) == 1


# --- stored ----------------------------------------------------------------------------------


def test_what_is_stored_is_read_again():
    book = logbook(*(dry_run(i) for i in range(3)), REPORT)
    packed, kept = encode_logbook(book)

    assert kept == book
    assert decode_logbook(packed) == (book, "")


def test_a_large_cluster_stays_within_the_limit():
    """Noise does not compress, so this is harder than what nodes do."""
    random = np.random.default_rng(1)
    book = None
    for cycle in range(0, 288 * 4, 48):
        entries = []
        for number in range(cycle, cycle + 48, 6):
            nodes = tuple(
                NodeVerdict(f"node-{i}", NodeClass.BALANCED, (pressure(ratio),))
                for i, ratio in enumerate(random.uniform(0, 0.8, 400).tolist())
            )
            report = dry_run(number)
            entries.append(entry_of(replace(report, plan=replace(report.plan, nodes=nodes))))
        book = updated(book, entries, GAP_SECONDS)
        # The same as with more nodes and a limit that is as much larger.
        packed, book = small(book)
        assert len(packed) <= 16_000
    assert book is not None
    assert 300 < book.step_seconds <= LONGEST_STEP_SECONDS
    assert len(book.nodes) == 400


def small(book):
    limit = stored.LONGEST_BYTES
    stored.LONGEST_BYTES = 16_000
    try:
        return encode_logbook(book)
    finally:
        stored.LONGEST_BYTES = limit


def test_the_limit_leaves_room_in_a_config_map():
    assert LONGEST_BYTES <= 1024 * 1024 // 2


def packed_with(**changes):
    return encode_logbook(replace(logbook(dry_run(0), dry_run(1)), **changes))[0]


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"hello",
        zlib.compress(b"hello"),
        zlib.compress(msgspec.msgpack.encode({"version": 1, "book": {}})),
        packed_with()[:-20],
        packed_with(overloaded=b"1"),
        packed_with(nodes=("te3", "te3")),
        packed_with(nodes=("te3",)),
        packed_with(step_seconds=0),
        packed_with(first_step=-5),
        packed_with(first_step=10**12),
        packed_with(newest_at=STARTED_AT.replace(tzinfo=None)),
        packed_with(moves=(replace(logbook(dry_run(0)).moves[0], at=STARTED_AT.replace(year=1)),)),
    ],
)
def test_what_does_not_fit_together_is_a_problem(packed):
    found = decode_logbook(packed)

    assert found.book is None
    assert found.problem.startswith("it is damaged")


def test_a_newer_version_is_a_problem_with_its_number():
    packed = zlib.compress(msgspec.msgpack.encode({"version": 7, "book": 1}))

    assert "version 7" in decode_logbook(packed).problem


def test_a_bomb_is_not_unpacked(monkeypatch):
    monkeypatch.setattr(stored, "LONGEST_UNPACKED_BYTES", 1000)

    assert "damaged" in decode_logbook(zlib.compress(bytes(10_000_000))).problem


def test_the_eviction_of_the_examples_is_planned():
    assert EVICTION.pod == POD
