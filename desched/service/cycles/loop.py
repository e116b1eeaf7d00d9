"""Runs cycles by a schedule until asked to stop, whatever happens in one of them."""

from collections.abc import Callable
from contextlib import suppress

import structlog
from apscheduler.events import EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED, JobEvent
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger

from desched.errors import ConfigurationError, ObservationError
from desched.service.cycles.schedule import Schedule
from desched.service.election.leadership import Leadership, LeadershipChange
from desched.service.process.clock import SystemClock
from desched.service.process.health import Health
from desched.service.telemetry.metrics import FailedCycle, ServiceMetrics, SkippedTick

HEARTBEAT_SECONDS = 5
LATE_TICK_SECONDS = 30
"""A tick that comes later than this (the machine slept) is missed; the next one does its work."""

_CYCLE = "cycle"
_SKIPPED = {
    EVENT_JOB_MAX_INSTANCES: SkippedTick.CYCLE_RUNNING,
    EVENT_JOB_MISSED: SkippedTick.MISSED,
}
_WAKE_UP_SECONDS = 1.0
"""A signal that the kernel hands to another thread is seen when the main thread wakes up."""

_log = structlog.get_logger(__name__)


class ServiceLoop:
    """The first cycle at once, then one per tick, never two at a time.

    `run_cycle` is what a tick does. A cycle that cannot observe, or that fails by a bug, is logged
    and counted, and the loop goes on. A configuration with which no cycle has ever run ends it.
    With a `leadership` only the replica that may act runs cycles, the first as soon as it may.
    """

    def __init__(
        self,
        run_cycle: Callable[[], object],
        schedule: Schedule,
        clock: SystemClock,
        health: Health,
        metrics: ServiceMetrics,
        leadership: Leadership | None = None,
    ) -> None:
        self._run_cycle = run_cycle
        self._schedule = schedule
        self._clock = clock
        self._health = health
        self._metrics = metrics
        self._leadership = leadership
        self._refused: ConfigurationError | None = None
        self._cycles = 0

    def run(self) -> None:
        """Run until the clock is told to stop, and let the running cycle end.

        Raises:
            ConfigurationError: the first cycle found that a person has to change something.
        """
        scheduler = BackgroundScheduler(
            timezone="UTC",
            executors={"default": ThreadPoolExecutor(max_workers=2)},  # a cycle and the heartbeat
            job_defaults={
                "max_instances": 1,
                "coalesce": True,
                "misfire_grace_time": LATE_TICK_SECONDS,
            },
        )
        scheduler.add_listener(self._tick_skipped, EVENT_JOB_MAX_INSTANCES | EVENT_JOB_MISSED)
        scheduler.start()
        heartbeat = IntervalTrigger(seconds=HEARTBEAT_SECONDS, timezone="UTC")
        scheduler.add_job(self._heartbeat, heartbeat)
        if self._leadership is not None:
            self._leadership.on_change(lambda change: self._begin_at_once(scheduler, change))
        first = self._clock.now()
        scheduler.add_job(self.tick, self._schedule.trigger, id=_CYCLE, next_run_time=first)
        while not self._clock.wait(_WAKE_UP_SECONDS):
            pass
        scheduler.shutdown(wait=True)
        if self._refused is not None:
            raise self._refused

    def tick(self) -> None:
        """Run one cycle; whatever is wrong with it, the next one gets its chance."""
        if self._leadership is not None and not self._leadership.may_act():
            _log.debug("cycle.left_to_leader", holder=self._leadership.holder)
            return
        self._cycles += 1
        self._health.cycle_began()
        observed = False
        try:
            self._run_cycle()
            observed = True
        except ObservationError as error:
            self._not_observed(error)
        except ConfigurationError as error:
            self._not_configured(error)
        except Exception:  # noqa: BLE001  (a bug in one cycle must not end the service)
            self._metrics.cycle_failed(FailedCycle.CRASHED)
            _log.exception(
                "cycle.crashed",
                cycle=self._cycles,
                meaning="this is a bug in desched; please report it",
            )
        finally:
            self._health.cycle_ended(observed=observed)

    def _heartbeat(self) -> None:
        self._health.scheduler_runs()
        leadership = self._leadership
        if leadership is not None and leadership.holder and not leadership.may_act():
            self._health.standby()

    def _begin_at_once(self, scheduler: BackgroundScheduler, change: LeadershipChange) -> None:
        if change.leading and not self._clock.stopping():
            with suppress(JobLookupError):  # not there yet, and then it begins at once anyway
                scheduler.modify_job(_CYCLE, next_run_time=self._clock.now())

    def _not_observed(self, error: ObservationError) -> None:
        if self._clock.stopping():
            _log.info("cycle.abandoned", cycle=self._cycles, why="desched was asked to stop")
            return
        self._metrics.observation_failed(error.source)
        _log.error("cycle.skipped", cycle=self._cycles, source=error.source.value, why=str(error))

    def _not_configured(self, error: ConfigurationError) -> None:
        self._metrics.cycle_failed(FailedCycle.CONFIGURATION_FAILED)
        if self._health.has_observed:
            _log.error("cycle.skipped", cycle=self._cycles, source="configuration", why=str(error))
            return
        self._refused = error
        self._clock.stop()

    def _tick_skipped(self, event: JobEvent) -> None:
        if event.job_id != _CYCLE:
            return
        reason = _SKIPPED[event.code]
        self._metrics.tick_skipped(reason)
        _log.warning("tick.skipped", reason=reason.value)
