"""The state that cycles start from: what a dry run reads, what is written, what is unusable."""

from datetime import timedelta

import pytest
import structlog

from desched.errors import ObservationError, ObservationSource, StateConflict, StopActing
from desched.lab.clock import VirtualClock
from desched.model.report import Mode
from desched.model.state import LastCycle, Pause, PauseScope, RecentMove, SkippedCycles, State
from desched.service.inputs.state_keeper import StateKeeper
from tests.builders import NOW, policy
from tests.simulated_state_store import SimulatedConfigMap, SimulatedStateStore

AFRESH = State(since=NOW)
PAUSED = State(pauses=(Pause(PauseScope.EVERYTHING, NOW, None, by="jane"),))


class Problems:
    def __init__(self):
        self.count = 0

    def __call__(self):
        self.count += 1


@pytest.fixture
def place():
    return SimulatedConfigMap()


@pytest.fixture
def problems():
    return Problems()


def kept(place, problems, mode=Mode.EVICT, *, may_act=True):
    store = SimulatedStateStore(place)
    may_write = (lambda: may_act) if mode is Mode.EVICT else None
    return StateKeeper(store, VirtualClock(), AFRESH, may_write, problems)


def cycle_of(state):
    last = LastCycle(NOW, "one", "evict", "nothing_to_do")
    return State(last_cycle=last, pauses=state.pauses)


def test_without_a_stored_state_it_starts_afresh(place, problems):
    assert kept(place, problems).load(policy()) == AFRESH


def test_another_replica_loads_the_state_that_one_wrote(place, problems):
    one = kept(place, problems)
    one.load(policy())
    one.write_last(cycle_of(PAUSED))
    assert kept(place, problems).load(policy()) == cycle_of(PAUSED)
    assert problems.count == 0


def test_a_dry_run_reads_what_is_stored_and_writes_nothing(place, problems):
    service = kept(place, problems)
    service.load(policy())
    service.write_last(PAUSED)
    version = place.version
    looking = kept(place, problems, Mode.DRY_RUN)
    assert looking.load(policy()) == PAUSED
    looking.write_last(State())
    assert place.version == version


def test_a_replica_that_lost_the_lease_writes_nothing(place, problems):
    lost = kept(place, problems, may_act=False)
    lost.load(policy())
    lost.write_last(PAUSED)
    assert place.text is None


def test_a_state_that_cannot_be_used_pauses_everything_for_a_while(place, problems):
    place.write("{")
    state = kept(place, problems).load(policy())
    pause = state.pausing(state.since)
    assert pause is not None
    assert pause.until == state.since + timedelta(minutes=30)
    assert not pause.by
    assert problems.count == 1


def test_why_cycles_are_skipped_is_written_beside_what_is_stored(place, problems):
    """Also if it is old by this clock, which nobody has compared."""
    old = State(moves=(RecentMove("uid-web", NOW - timedelta(days=9), node="n1"),))
    store = SimulatedStateStore(place)
    store.load()
    store.save(old)
    one = kept(place, problems)
    one.load(policy())
    one.write_skipped("It is away.")
    found = SimulatedStateStore(place).load().state
    assert found is not None
    assert found.moves == old.moves
    assert found.skipped == SkippedCycles(one.clock.now(), "It is away.")


def test_why_cycles_are_skipped_replaces_no_state_that_cannot_be_used(place, problems):
    one = kept(place, problems)
    one.load(policy())
    one.write_last(PAUSED)
    place.write("{")
    one.load(policy())
    one.write_skipped("It is away.")
    assert place.text == "{"


def test_an_unusable_state_is_logged_once_and_counted_each_time(place, problems):
    place.write("{")
    one = kept(place, problems)
    with structlog.testing.capture_logs() as lines:
        one.load(policy())
        one.load(policy())
    assert [line["event"] for line in lines] == ["state.unusable"]
    assert problems.count == 2


def test_a_write_before_an_eviction_that_conflicts_ends_acting(place, problems):
    one = kept(place, problems)
    one.load(policy())
    place.write("{}")
    with pytest.raises(StateConflict):
        one.write(PAUSED)
    assert problems.count == 0


def test_a_conflict_at_the_end_of_a_cycle_is_left_to_the_next_one(place, problems):
    one = kept(place, problems)
    one.load(policy())
    place.write("{}")
    with structlog.testing.capture_logs() as lines:
        one.write_last(PAUSED)
    assert [line["event"] for line in lines] == ["state.changed_meanwhile"]
    assert place.text == "{}"


def test_a_state_that_was_deleted_goes_on_and_counts_as_just_started(place, problems):
    clock = VirtualClock()
    one = StateKeeper(SimulatedStateStore(place), clock, AFRESH, lambda: True, problems)
    one.load(policy())
    one.write_last(PAUSED)
    clock.wait(60)
    place.write(None)
    with structlog.testing.capture_logs() as lines:
        state = one.load(policy())
    assert state == State(since=clock.now(), pauses=PAUSED.pauses)
    assert [line["event"] for line in lines] == ["state.gone"]
    assert problems.count == 1
    one.write_last(state)
    assert kept(place, problems).load(policy()) == state
    clock.wait(60)
    assert one.load(policy()) == state


def test_each_deletion_counts(place, problems):
    clock = VirtualClock()
    one = StateKeeper(SimulatedStateStore(place), clock, AFRESH, lambda: True, problems)
    for _ in range(2):
        one.write_last(one.load(policy()))
        clock.wait(60)
        place.write(None)
        assert one.load(policy()).since == clock.now()


def test_a_deletion_that_a_write_meets_loses_nothing_of_the_cycle(place, problems):
    one = kept(place, problems)
    one.write_last(one.load(policy()))
    place.write(None)
    one.write_last(PAUSED)
    assert one.load(policy()).pauses == PAUSED.pauses


def test_a_dry_run_waits_once_after_a_deletion_and_not_for_ever(place, problems):
    service = kept(place, problems)
    service.write_last(PAUSED)
    clock = VirtualClock()
    looking = StateKeeper(SimulatedStateStore(place), clock, AFRESH, None, problems)
    assert looking.load(policy()) == PAUSED
    place.write(None)
    clock.wait(60)
    first = looking.load(policy())
    assert first.since == clock.now()
    clock.wait(600)
    assert looking.load(policy()) == first


class Away:
    def load(self):
        raise ObservationError(ObservationSource.CLUSTER, "The API server is away.")

    def save(self, state):  # noqa: ARG002 (the port)
        raise StopActing("Whether it is written is not known.")


def test_without_the_state_a_dry_run_goes_on_and_a_run_that_evicts_does_not(problems):
    acting = StateKeeper(Away(), VirtualClock(), AFRESH, lambda: True, problems)
    with pytest.raises(ObservationError):
        acting.load(policy())
    looking = StateKeeper(Away(), VirtualClock(), AFRESH, None, problems)
    assert looking.load(policy()) == AFRESH
    assert problems.count == 2


def test_a_write_of_unknown_outcome_is_a_problem_and_ends_acting(problems):
    acting = StateKeeper(Away(), VirtualClock(), AFRESH, lambda: True, problems)
    with pytest.raises(StopActing):
        acting.write(PAUSED)
    acting.write_last(PAUSED)
    assert problems.count == 2
