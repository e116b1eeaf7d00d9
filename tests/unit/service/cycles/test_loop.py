import threading
from datetime import UTC, timedelta
from typing import Any

import pytest
from apscheduler.job import Job
from apscheduler.triggers.interval import IntervalTrigger
from structlog.testing import capture_logs

from desched.errors import ConfigurationError, ObservationError, ObservationSource
from desched.model.report import Mode
from desched.service.cycles import loop as loop_module
from desched.service.cycles.loop import AGAIN_SECONDS, LATE_TICK_SECONDS, ServiceLoop
from desched.service.cycles.schedule import Schedule, cron, every
from desched.service.election.leadership import Leadership
from desched.service.process.clock import SystemClock
from desched.service.process.health import Health
from desched.service.telemetry.metrics import ServiceMetrics, SkippedTick

QUICK = Schedule(IntervalTrigger(seconds=0.02, timezone=UTC), "every 20ms")
HOURLY = every(3600)
PATIENCE_SECONDS = 20


@pytest.fixture
def clock():
    return SystemClock()


@pytest.fixture
def health(clock):
    return Health(clock.monotonic, 600)


@pytest.fixture
def metrics():
    return ServiceMetrics(Mode.EVICT)


@pytest.fixture
def loop_of(clock, health, metrics):
    return lambda cycle, schedule=QUICK, **more: ServiceLoop(
        cycle, schedule, clock, health, metrics, **more
    )


def counted(metrics, sample):
    line = next(
        line for line in metrics.exposition().decode().splitlines() if line.startswith(sample + " ")
    )
    return float(line.rpartition(" ")[2])


def test_the_first_cycle_runs_at_once(loop_of, clock, health):
    loop_of(clock.stop, HOURLY).run()
    assert health.has_observed


class WatchedMetrics(ServiceMetrics):
    """Tells when a tick is skipped."""

    def __init__(self):
        super().__init__(Mode.EVICT)
        self.skipped = threading.Event()

    def tick_skipped(self, reason):
        super().tick_skipped(reason)
        self.skipped.set()


def test_a_tick_that_meets_a_running_cycle_is_skipped_and_counted(clock):
    watched = WatchedMetrics()
    running, most_at_once = [], []

    def cycle():
        running.append(1)
        most_at_once.append(len(running))
        assert watched.skipped.wait(PATIENCE_SECONDS)
        running.pop()
        clock.stop()

    ServiceLoop(cycle, QUICK, clock, Health(clock.monotonic, 600), watched).run()
    assert max(most_at_once) == 1
    assert counted(watched, 'desched_ticks_skipped_total{reason="cycle_running"}') >= 1


def test_edits_of_the_policy_are_looked_for_between_cycles_and_in_a_waiting_replica(
    loop_of, clock, mocker
):
    mocker.patch.object(loop_module, "EDIT_SECONDS", 0.02)
    waiting = mocker.create_autospec(Leadership, instance=True)
    waiting.may_act.return_value = False
    cycle = mocker.Mock()
    loop_of(cycle, HOURLY, leadership=waiting, read_edit=clock.stop).run()
    cycle.assert_not_called()


class Behind(SystemClock):
    def now(self):
        return super().now() - timedelta(seconds=10 * LATE_TICK_SECONDS)


def test_a_tick_that_comes_far_too_late_is_skipped_and_counted(health, metrics, mocker):
    # As if the machine had slept: what was due is long past when the scheduler gets to it.
    clock, cycles = Behind(), []
    stop_at_skip = mocker.patch.object(metrics, "tick_skipped", side_effect=lambda _: clock.stop())
    ServiceLoop(lambda: cycles.append(1), HOURLY, clock, health, metrics).run()
    stop_at_skip.assert_called_once_with(SkippedTick.MISSED)
    assert cycles == []


def test_stopping_waits_for_the_running_cycle_and_begins_no_other(loop_of, clock):
    began, may_end, ended = threading.Event(), threading.Event(), []

    def cycle():
        began.set()
        assert may_end.wait(PATIENCE_SECONDS)
        ended.append(1)

    thread = threading.Thread(target=loop_of(cycle, HOURLY).run)
    thread.start()
    assert began.wait(PATIENCE_SECONDS)
    clock.stop()
    assert thread.is_alive()
    assert ended == []
    may_end.set()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()
    assert ended == [1]


def test_a_cycle_that_cannot_observe_is_counted_by_source_and_the_loop_goes_on(
    loop_of, metrics, health
):
    def cycle():
        raise ObservationError(ObservationSource.PROMETHEUS, "Prometheus is away.")

    loop = loop_of(cycle)
    with capture_logs() as lines:
        loop.tick()
        loop.tick()
    assert counted(metrics, 'desched_observation_failures_total{source="prometheus"}') == 2
    assert [line["why"] for line in lines] == ["Prometheus is away."] * 2
    assert {line["event"] for line in lines} == {"cycle.skipped"}
    assert [line["cycle"] for line in lines] == list(range(1, len(lines) + 1))
    assert not health.has_observed


def test_a_cycle_that_could_not_read_the_cluster_is_repeated_soon(loop_of, clock, mocker):
    mocker.patch.object(loop_module, "AGAIN_SECONDS", 0.02)
    cycles = []

    def cycle():
        cycles.append(1)
        if len(cycles) < 3:
            raise ObservationError(ObservationSource.CLUSTER, "The API server is away.")
        clock.stop()

    loop_of(cycle, HOURLY).run()
    assert len(cycles) == 3


@pytest.mark.parametrize(
    ("source", "schedule", "next_in_seconds", "is_moved"),
    [
        (ObservationSource.CLUSTER, HOURLY, 300, True),
        (ObservationSource.CLUSTER, HOURLY, AGAIN_SECONDS / 2, False),
        (ObservationSource.CLUSTER, cron("0 2 * * *"), 300, False),
        (ObservationSource.PROMETHEUS, HOURLY, 300, False),
    ],
)
def test_only_a_later_tick_of_an_interval_comes_sooner_and_only_for_the_cluster(
    loop_of, mocker, source, schedule, next_in_seconds, is_moved
):
    loop = loop_of(mocker.Mock(side_effect=ObservationError(source, "It is away.")), schedule)
    scheduler = mocker.patch.object(loop_module, "BackgroundScheduler", autospec=True).return_value
    job = scheduler.get_job.return_value = mocker.create_autospec(Job, instance=True)
    job.next_run_time = loop.clock.now() + timedelta(seconds=next_in_seconds)

    def once():
        loop.tick()
        loop.clock.stop()

    scheduler.start.side_effect = once
    loop.run()
    assert job.modify.called is is_moved


def test_a_bug_in_one_cycle_is_logged_with_its_traceback_and_the_next_one_runs(
    loop_of, clock, metrics
):
    cycles: list[Any] = []

    def cycle():
        cycles.append(1)
        if len(cycles) == 1:
            raise KeyError("a bug")
        clock.stop()

    with capture_logs() as lines:
        loop_of(cycle).run()
    assert counted(metrics, 'desched_cycles_total{mode="evict",result="crashed"}') == 1
    crashed = next(line for line in lines if line["event"] == "cycle.crashed")
    assert crashed["exc_info"]
    assert len(cycles) >= 2


def test_a_configuration_with_which_no_cycle_ever_ran_ends_the_service(loop_of):
    def cycle():
        raise ConfigurationError("Name a policy.")

    with pytest.raises(ConfigurationError, match="Name a policy"):
        loop_of(cycle, HOURLY).run()


def test_a_later_configuration_error_only_skips_the_cycle(loop_of, clock, metrics):
    cycles: list[Any] = []

    def cycle():
        cycles.append(1)
        if len(cycles) == 2:
            raise ConfigurationError("The PriorityClass is gone.")
        if len(cycles) == 3:
            clock.stop()

    loop_of(cycle).run()
    assert counted(metrics, 'desched_cycles_total{mode="evict",result="configuration_failed"}') == 1
    assert len(cycles) >= 3


def test_a_cycle_given_up_because_of_the_stop_is_no_failure(loop_of, clock, metrics):
    def cycle():
        clock.stop()
        raise ObservationError(ObservationSource.CLUSTER, "desched is stopping.")

    with capture_logs() as lines:
        loop_of(cycle, HOURLY).run()
    assert [line["event"] for line in lines] == ["cycle.abandoned"]
    assert counted(metrics, 'desched_observation_failures_total{source="cluster"}') == 0


def test_health_shows_whether_a_cycle_runs(loop_of, clock, health, mocker):
    monotonic = mocker.patch.object(health, "_monotonic", return_value=clock.monotonic())
    seen = []

    def cycle():
        monotonic.return_value += 601
        health.scheduler_runs()
        seen.append(health.why_not_alive())

    loop_of(cycle).tick()
    assert "the current cycle started 601 s ago" in seen[0]
    assert health.why_not_alive() is None


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ObservationError(ObservationSource.PROMETHEUS, "Prometheus is away."), "Prometheus is"),
        (ConfigurationError("The PriorityClass is gone."), "The PriorityClass is gone."),
        (KeyError("secret"), "This is a bug in desched; its log has the details."),
    ],
)
def test_each_failed_cycle_is_passed_on_with_its_reason(loop_of, health, error, why):
    def cycle():
        raise error

    failures: list[str] = []
    health.cycle_ended(observed=True)
    loop_of(cycle, on_failure=failures.append).tick()
    assert [each.startswith(why) for each in failures] == [True]
