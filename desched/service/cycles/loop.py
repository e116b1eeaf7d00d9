"""Runs cycles on a schedule until the process stops, even if some of them fail."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

import structlog
from apscheduler.events import EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED, JobEvent
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger

from desched.errors import ConfigurationError, ObservationError, ObservationSource
from desched.service.cycles.schedule import Schedule
from desched.service.election.leadership import Leadership, LeadershipChange
from desched.service.process.clock import SystemClock
from desched.service.process.health import Health
from desched.service.telemetry.metrics import FailedCycle, ServiceMetrics, SkippedTick

HEARTBEAT_SECONDS = 5
EDIT_SECONDS = 20
"""How often the policy file is read between cycles, so that the answer to an edit comes soon."""
AGAIN_SECONDS = 15
"""After a cycle that could not read the cluster, the next one begins no later than this, unless a
cron expression says when cycles run."""
LATE_TICK_SECONDS = 30
"""A tick that is later than this, for example after a suspend, is skipped."""

_CYCLE = "cycle"
_SKIPPED = {
    EVENT_JOB_MAX_INSTANCES: SkippedTick.CYCLE_RUNNING,
    EVENT_JOB_MISSED: SkippedTick.MISSED,
}
_WAKE_UP_SECONDS = 1.0
"""A signal that another thread receives takes effect when the main thread wakes up."""

_log = structlog.get_logger(__name__)


@dataclass(eq=False)
class ServiceLoop:
    """Runs the first cycle at once, then one per tick, never two at a time.

    If a cycle cannot observe or fails by a bug, the loop logs and counts it and continues, soon if
    it was the API server that did not answer and ticks come at an interval. An
    invalid configuration ends the loop unless a cycle has succeeded before. With `leadership`, only
    the replica that may act runs cycles, the first as soon as it may. `on_failure` gets the reason
    of each cycle that ends without a report. `read_edit` looks for an edit of the policy.
    A replica that waits does so too, and knows the last good policy when it takes over.
    """

    run_cycle: Callable[[], object]
    schedule: Schedule
    clock: SystemClock
    health: Health
    metrics: ServiceMetrics
    leadership: Leadership | None = None
    on_failure: Callable[[str], None] = lambda _: None
    read_edit: Callable[[], None] = lambda: None
    _refused: ConfigurationError | None = field(default=None, init=False)
    _cycles: int = field(default=0, init=False)
    _scheduler: BackgroundScheduler | None = field(default=None, init=False)

    def run(self) -> None:
        """Run until the clock stops, and let the current cycle end.

        Raises:
            ConfigurationError: the first cycle found that a person must change something.
        """
        scheduler = BackgroundScheduler(
            timezone="UTC",
            executors={"default": ThreadPoolExecutor(max_workers=4)},  # one for each job
            job_defaults={
                "max_instances": 1,
                "coalesce": True,
                "misfire_grace_time": LATE_TICK_SECONDS,
            },
        )
        self._scheduler = scheduler
        scheduler.add_listener(self._tick_skipped, EVENT_JOB_MAX_INSTANCES | EVENT_JOB_MISSED)
        scheduler.start()
        heartbeat = IntervalTrigger(seconds=HEARTBEAT_SECONDS, timezone="UTC")
        scheduler.add_job(self._heartbeat, heartbeat)
        scheduler.add_job(self.read_edit, IntervalTrigger(seconds=EDIT_SECONDS, timezone="UTC"))
        if self.leadership is not None:
            self.leadership.on_change(lambda change: self._start_at_once(scheduler, change))
        first = self.clock.now()
        scheduler.add_job(self.tick, self.schedule.trigger, id=_CYCLE, next_run_time=first)
        while not self.clock.wait(_WAKE_UP_SECONDS):
            pass
        scheduler.shutdown(wait=True)
        if self._refused is not None:
            raise self._refused

    def tick(self) -> None:
        """Run one cycle; a failure does not end the service."""
        if self.leadership is not None and not self.leadership.may_act():
            _log.debug("cycle.left_to_leader", holder=self.leadership.holder)
            return
        self._cycles += 1
        self.health.cycle_began()
        observed = False
        try:
            self.run_cycle()
            observed = True
        except ObservationError as error:
            self._not_observed(error)
        except ConfigurationError as error:
            self._not_configured(error)
        except Exception:  # noqa: BLE001  (a bug in one cycle must not end the service)
            self.metrics.cycle_failed(FailedCycle.CRASHED)
            self.on_failure("This is a bug in desched; its log has the details.")
            _log.exception(
                "cycle.crashed",
                cycle=self._cycles,
                meaning="this is a bug in desched; please report it",
            )
        finally:
            self.health.cycle_ended(observed=observed)

    def _heartbeat(self) -> None:
        self.health.scheduler_runs()
        leadership = self.leadership
        if leadership is not None and leadership.holder and not leadership.may_act():
            self.health.standby()

    def _start_at_once(self, scheduler: BackgroundScheduler, change: LeadershipChange) -> None:
        if change.leading and not self.clock.stopping():
            with suppress(JobLookupError):  # not scheduled yet; it then starts at once anyway
                scheduler.modify_job(_CYCLE, next_run_time=self.clock.now())

    def _not_observed(self, error: ObservationError) -> None:
        if self.clock.stopping():
            _log.info("cycle.abandoned", cycle=self._cycles, why="desched is stopping")
            return
        self.metrics.observation_failed(error.source)
        self.on_failure(str(error))
        _log.error("cycle.skipped", cycle=self._cycles, source=error.source.value, why=str(error))
        # A cron expression is for certain times, outside which nobody expects evictions.
        is_interval = isinstance(self.schedule.trigger, IntervalTrigger)
        if error.source is ObservationSource.CLUSTER and is_interval:
            self._try_again_soon()

    def _try_again_soon(self) -> None:
        job = self._scheduler.get_job(_CYCLE) if self._scheduler is not None else None
        soon = self.clock.now() + timedelta(seconds=AGAIN_SECONDS)
        if job is not None and job.next_run_time is not None and soon < job.next_run_time:
            job.modify(next_run_time=soon)

    def _not_configured(self, error: ConfigurationError) -> None:
        self.metrics.cycle_failed(FailedCycle.CONFIGURATION_FAILED)
        self.on_failure(str(error))
        if self.health.has_observed:
            _log.error("cycle.skipped", cycle=self._cycles, source="configuration", why=str(error))
            return
        self._refused = error
        self.clock.stop()

    def _tick_skipped(self, event: JobEvent) -> None:
        if event.job_id != _CYCLE:
            return
        reason = _SKIPPED[event.code]
        self.metrics.tick_skipped(reason)
        _log.warning("tick.skipped", reason=reason.value)
