"""When the logbook is written, and that nothing comes of it if it cannot be."""

from datetime import timedelta

import pytest
import structlog
from msgspec.structs import replace

from desched.errors import ObservationError, ObservationSource
from desched.history.stored import StoredLogbook, decode_logbook
from desched.lab.clock import VirtualClock
from desched.model.plan import HoldReason
from desched.model.report import Mode
from desched.model.state import MoveResult
from desched.service.telemetry.logbook_keeper import MOST_WAITING, LogbookKeeper
from tests.unit.example_logbook import dry_run, logbook
from tests.unit.service.example_reports import REPORT, STARTED_AT, record


class Store:
    """A store in memory that may be away, or changed by others between load and save."""

    def __init__(self):
        self.packed = b""
        self.writes = 0
        self.away = ""
        self.conflict = False

    def load(self):
        if self.away:
            raise ObservationError(ObservationSource.CLUSTER, self.away)
        return decode_logbook(self.packed) if self.packed else StoredLogbook()

    def save(self, packed):
        if self.conflict:
            raise ObservationError(ObservationSource.CLUSTER, "somebody else changed it")
        self.packed = packed
        self.writes += 1

    @property
    def cycles(self):
        book = self.load().book
        return sum(step.cycles for step in book.steps) if book else 0


@pytest.fixture
def clock():
    return VirtualClock(STARTED_AT)


@pytest.fixture
def store():
    return Store()


def keeper(store, clock, may_write=lambda: True):
    return LogbookKeeper(store, clock, 600.0, may_write)


def run(of, clock, numbers):
    for number in numbers:
        of.cycle_completed(dry_run(number))
        clock.advance(300)


def test_the_first_cycle_is_written_at_once_and_then_every_ten_minutes(store, clock):
    kept = keeper(store, clock)

    run(kept, clock, [0])
    assert (store.writes, store.cycles) == (1, 1)
    run(kept, clock, [1])
    assert store.writes == 1
    run(kept, clock, [2])
    assert (store.writes, store.cycles) == (2, 3)
    assert store.load().book == logbook(*(dry_run(i) for i in range(3)))


def test_a_clock_that_is_set_back_does_not_end_the_writing(store, clock):
    kept = keeper(store, clock)
    run(kept, clock, [0, 1, 2])
    clock.now = lambda: STARTED_AT - timedelta(days=1)

    run(kept, clock, [3])

    assert (store.writes, store.cycles) == (3, 4)


def test_an_eviction_and_its_result_are_written_at_once(store, clock):
    kept = keeper(store, clock)
    kept.cycle_completed(dry_run(0, planned=False))
    begun = replace(REPORT, started_at=STARTED_AT + timedelta(minutes=1))
    kept.cycle_completed(begun)
    assert store.writes == 2

    end = record("web-1", MoveResult.LANDED_AS_FORECAST)
    settled = replace(dry_run(1, planned=False), mode=Mode.EVICT, settled=(end,))
    kept.cycle_completed(settled)
    assert store.writes == 3


def test_a_restart_and_another_replica_continue_it(store, clock):
    run(keeper(store, clock), clock, [0, 1, 2])
    run(keeper(store, clock), clock, [3, 4, 5])

    assert store.cycles == 6
    assert store.load().book.moves[0].cycles == 6


def test_a_replica_that_does_not_lead_writes_nothing(store, clock):
    run(keeper(store, clock, lambda: False), clock, range(5))

    assert store.writes == 0


def test_what_could_not_be_written_is_written_later_and_the_trouble_logged_once(store, clock):
    kept = keeper(store, clock)
    store.away = "the API server does not answer"
    with structlog.testing.capture_logs() as logs:
        run(kept, clock, range(5))
    assert [(line["event"], line["why"]) for line in logs] == [("logbook.not_written", store.away)]
    store.away = ""
    run(kept, clock, range(5, 8))

    assert store.cycles >= 7


def test_a_conflict_is_tried_again_on_what_the_other_wrote(store, clock):
    kept = keeper(store, clock)
    store.conflict = True
    run(kept, clock, [0, 1])
    store.conflict = False
    run(kept, clock, [2])

    assert store.cycles == 3


def test_cycles_that_wait_for_long_are_bounded(store, clock):
    kept = keeper(store, clock)
    store.away = "away"
    run(kept, clock, range(MOST_WAITING + 20))
    store.away = ""
    run(kept, clock, [MOST_WAITING + 20, MOST_WAITING + 21])

    assert store.cycles == MOST_WAITING


def test_a_logbook_that_cannot_be_used_is_replaced_with_a_warning(store, clock):
    store.packed = b"damaged"
    with structlog.testing.capture_logs() as logs:
        run(keeper(store, clock), clock, [0])

    assert [line["event"] for line in logs] == ["logbook.unusable"]
    assert store.cycles == 1


def test_a_bug_in_the_logbook_fails_no_cycle(store, clock, mocker):
    kept = keeper(store, clock)
    mocker.patch("desched.service.telemetry.logbook_keeper.updated", side_effect=IndexError)
    with structlog.testing.capture_logs() as logs:
        run(kept, clock, [0])
    assert [line["event"] for line in logs] == ["logbook.crashed"]
    mocker.stopall()
    run(kept, clock, [1, 2])

    assert store.cycles == 2


def test_a_cycle_whose_time_may_be_wrong_is_left_out(store, clock):
    kept = keeper(store, clock)
    run(kept, clock, [0])
    wrong = dry_run(12)
    wrong = replace(wrong, plan=replace(wrong.plan, hold=HoldReason.CLOCKS_DIFFER))
    clock.advance(600)
    kept.cycle_completed(wrong)
    assert (store.writes, store.cycles) == (1, 1)
