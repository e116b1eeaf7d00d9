"""How long a single run waits for the lease."""

import itertools
from datetime import timedelta

import pytest
from pytest_mock import MockerFixture

from desched.bootstrap.election import POLL_SECONDS, wait_for_lease
from desched.errors import LeaseError, LeaseRefused
from desched.service.election.leadership import Leadership, LeaseTiming
from desched.service.process.clock import SystemClock
from desched.settings import load_settings
from tests.builders import NOW
from tests.fake_lease import FakeLease


@pytest.mark.parametrize(("error", "waits"), [(LeaseRefused, False), (LeaseError, True)])
def test_a_run_without_the_right_to_the_lease_does_not_wait_for_it(
    error: type[LeaseError], *, waits: bool, mocker: MockerFixture
) -> None:
    settings = load_settings({})
    lease = FakeLease()
    lease.broken = error("403")
    timing = LeaseTiming(15, 10, 2)
    leadership = Leadership(lease, "me", timing, now=lambda: NOW, random=lambda: 0.0)
    leadership.step()
    clock = mocker.create_autospec(SystemClock, instance=True)
    clock.monotonic.side_effect = itertools.count(0.0, POLL_SECONDS)
    clock.wait.return_value = False

    wait_for_lease(leadership, settings, clock)

    patience = settings.lease_duration + 3 * settings.retry_period
    polls = patience // timedelta(seconds=POLL_SECONDS)
    assert clock.wait.call_count == pytest.approx(polls if waits else 0, abs=2 * waits)
    assert leadership.why_not() == "403"


def test_a_right_that_is_granted_later_ends_the_refusal() -> None:
    lease = FakeLease()
    lease.broken = LeaseRefused("403")
    leadership = Leadership(
        lease, "me", LeaseTiming(15, 10, 2), now=lambda: NOW, random=lambda: 0.0
    )
    leadership.step()
    assert leadership.refused
    lease.broken = None
    leadership.step()
    assert not leadership.refused
