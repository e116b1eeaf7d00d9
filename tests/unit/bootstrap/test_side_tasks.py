"""When a process watches the cluster, and how long a single run waits for the lease."""

import itertools
from datetime import timedelta

import pytest
from pytest_mock import MockerFixture

from desched.adapters.kubernetes.client.connection import KubernetesConnection, connect
from desched.adapters.kubernetes.client.server_health import RequestLog
from desched.bootstrap.side_tasks import (
    POLL_SECONDS,
    SPREAD_SECONDS,
    cluster_watch_of,
    contender,
    wait_for_lease,
)
from desched.errors import LeaseError, LeaseRefused, ObservationError
from desched.model.report import Mode
from desched.service.election.leadership import Leadership, LeaseTiming
from desched.service.process.clock import SystemClock
from desched.settings import load_settings
from tests.builders import NOW
from tests.fake_lease import FakeLease
from tests.unit.adapters.kubernetes.fake_api_server import FakeApiServer, Reply, account


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


@pytest.mark.parametrize(("in_cluster", "seconds"), [(True, SPREAD_SECONDS), (False, 0.0)])
def test_first_lists_are_spread_in_a_cluster_and_begin_at_once_for_a_person(
    mocker, in_cluster, seconds
):
    connection = mocker.create_autospec(KubernetesConnection, instance=True)
    connection.in_cluster = in_cluster
    mocker.patch("desched.bootstrap.side_tasks.connect", return_value=connection)
    made = mocker.patch("desched.bootstrap.side_tasks.ClusterWatch")
    cluster_watch_of(load_settings({}), RequestLog())
    (client,) = made.call_args.args
    assert client.spread_seconds == seconds


@pytest.mark.parametrize("flags", [{"once": True}, {"watch": False}])
def test_a_single_cycle_watches_nothing(flags):
    assert cluster_watch_of(load_settings(flags), RequestLog()) is None


def test_an_api_server_that_fails_the_lease_and_the_watches_is_in_trouble_for_the_cycle_too(
    server: FakeApiServer, mocker: MockerFixture
) -> None:
    server.answer = lambda _: Reply(503)
    mocker.patch(
        "desched.adapters.kubernetes.client.connection.find_account",
        return_value=account(server.url),
    )
    settings = load_settings({"evict": True})
    of_cycle = connect(None, None, lambda _: False)

    leadership = contender(settings, of_cycle, Mode.EVICT, "me", SystemClock())
    assert leadership is not None
    leadership.step()
    failed_lease = of_cycle.reads.health().failed
    watch = cluster_watch_of(settings, of_cycle.reads)
    assert watch is not None
    with pytest.raises(ObservationError):
        watch.look(lambda _: False)
    watch.end()

    assert failed_lease >= 1
    assert of_cycle.reads.health().failed > failed_lease
