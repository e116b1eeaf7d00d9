import pytest

from desched.lab.clock import VirtualClock
from desched.service.process.health import SCHEDULER_SILENCE_SECONDS, Health

DEADLINE_SECONDS = 600


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def health(clock):
    return Health(clock.monotonic, DEADLINE_SECONDS)


def test_a_new_service_is_alive_and_not_ready(health):
    assert health.why_not_alive() is None
    assert "no cycle has read the cluster" in health.why_not_ready()


def test_a_cycle_within_its_deadline_is_alive_and_one_beyond_is_stuck(health, clock):
    health.cycle_began()
    clock.advance(DEADLINE_SECONDS)
    health.scheduler_runs()
    assert health.why_not_alive() is None
    clock.advance(1)
    assert health.why_not_alive() == (
        "the current cycle started 601 s ago; it should take no longer than 600 s"
    )
    health.cycle_ended(observed=True)
    assert health.why_not_alive() is None


def test_a_scheduler_that_falls_silent_is_stuck(health, clock):
    clock.advance(SCHEDULER_SILENCE_SECONDS)
    assert health.why_not_alive() is None
    clock.advance(1)
    assert "scheduler has not reported for 61 s" in health.why_not_alive()
    health.scheduler_runs()
    assert health.why_not_alive() is None


def test_a_long_pause_between_cycles_is_no_trouble(health, clock):
    health.cycle_began()
    health.cycle_ended(observed=True)
    clock.advance(7 * 24 * 3600)
    health.scheduler_runs()
    assert health.why_not_alive() is None


def test_it_is_ready_after_the_first_cycle_that_observed_and_stays_so(health):
    health.cycle_ended(observed=False)
    assert health.why_not_ready() is not None
    health.cycle_ended(observed=True)
    assert health.why_not_ready() is None
    health.cycle_ended(observed=False)
    assert health.why_not_ready() is None


def test_a_standby_replica_is_ready_without_a_cycle_of_its_own(health):
    health.standby()
    assert health.why_not_ready() is None
    assert not health.has_observed
