"""The metrics of desched itself, for Prometheus."""

import platform
from enum import StrEnum
from itertools import product

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import generate_latest

from desched import __version__
from desched.errors import ObservationSource
from desched.model.plan import RELIEF
from desched.model.report import CycleReport, CycleResult, Mode
from desched.model.state import MoveResult
from desched.plugins import HOUSE
from desched.service.inputs.policy_file import PolicyReading
from desched.service.telemetry.cycle_gauges import CycleGauges
from desched.service.telemetry.help_texts import HELP_TEXTS
from desched.service.telemetry.new_results import NewResults, is_acting_replica
from desched.wording.plugin_views import Counted

CYCLE_SECONDS_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300)

# Creation times would double the series of each counter, and they are not used.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no annotation for it

_PURPOSES = (RELIEF, *(purpose for plugin in HOUSE for purpose in plugin.purposes))
"""Those of evictions; what only a newer desched knows counts as relief."""


class FailedCycle(StrEnum):
    """Why a cycle has no report; a value of the label `result` like a CycleResult."""

    OBSERVATION_FAILED = "observation_failed"
    CONFIGURATION_FAILED = "configuration_failed"
    CRASHED = "crashed"  # a bug; the log has its traceback


class SkippedTick(StrEnum):
    """Why a tick of the schedule started no cycle."""

    CYCLE_RUNNING = "cycle_running"
    MISSED = "missed"


class ServiceMetrics:
    """Counters over the life of the process, and gauges of the last cycle.

    Each label value that is known in advance starts at zero, so that Prometheus sees its first
    increase. The gauges of the last cycle are absent while the cluster cannot be observed, because
    their values are unknown then.
    """

    def __init__(self, mode: Mode) -> None:
        self._mode = mode.value
        self._registry = CollectorRegistry()
        self._last_cycle = CycleGauges(self._mode)
        self._registry.register(self._last_cycle)
        ProcessCollector(registry=self._registry)
        self._results = NewResults()
        self._leader: Gauge | None = None  # without an election there is no such series
        self._cycles = self._counter("desched_cycles", "mode", "result")
        self._skipped = self._counter("desched_ticks_skipped", "reason")
        self._observation_failures = self._counter("desched_observation_failures", "source")
        self._evictions = self._counter("desched_evictions", "mode", "namespace", "verdict")
        self._moves = self._counter("desched_moves", "result", "purpose")
        views = (plugin.views for plugin in HOUSE)
        self._of_plugins = {c.name: self._counter_of(c) for view in views for c in view.counted}
        self._leadership_changes = self._counter("desched_leadership_changes")
        self._state_problems = self._counter("desched_state_problems")
        self._taints_removed = self._counter("desched_taints_removed")
        self._taint_failures = self._counter("desched_taint_removal_failures")
        name = "desched_cycle_duration_seconds"
        self._duration = Histogram(
            name, HELP_TEXTS[name], buckets=CYCLE_SECONDS_BUCKETS, registry=self._registry
        )
        self._last_success = self._gauge("desched_last_success_timestamp_seconds")
        self._policy_valid = self._gauge("desched_policy_valid")
        self._policy_valid.set(1)  # a service does not start without a valid one
        self._policy_info = self._gauge("desched_policy_info", "source", "digest")
        build = self._gauge("desched_build_info", "version", "python")
        build.labels(__version__, platform.python_version()).set(1)
        for result in (*CycleResult, *FailedCycle):
            self._cycles.labels(self._mode, result.value)
        for counter, values in (
            (self._skipped, SkippedTick),
            (self._observation_failures, ObservationSource),
        ):
            for value in values:
                counter.labels(value.value)
        for result, purpose in product(MoveResult, _PURPOSES):
            self._moves.labels(result.value, purpose)

    def _counter(self, name: str, *labels: str) -> Counter:
        return Counter(name, HELP_TEXTS[name], labels, registry=self._registry)

    def _counter_of(self, counted: Counted) -> Counter:
        """The counter of a plugin, with a series for each value."""
        counter = Counter(counted.name, counted.help, [counted.label], registry=self._registry)
        for value in counted.values:
            counter.labels(value)
        return counter

    def _gauge(self, name: str, *labels: str) -> Gauge:
        return Gauge(name, HELP_TEXTS[name], labels, registry=self._registry)

    def cycle_completed(self, report: CycleReport) -> None:
        """Count a cycle and show what it found."""
        self._cycles.labels(self._mode, report.result.value).inc()
        self._duration.observe(report.duration_seconds)
        self._last_success.set(report.started_at.timestamp())
        for outcome in report.outcomes:
            self._evictions.labels(self._mode, outcome.pod.namespace, outcome.verdict.value).inc()
        for record in self._results.of(report):
            if record.result is not None:
                purpose = record.purpose if record.purpose in _PURPOSES else RELIEF
                self._moves.labels(record.result.value, purpose).inc()
        for plugin in HOUSE if is_acting_replica(report) else ():
            for counted, value in plugin.views.counts(report):
                self._of_plugins[counted.name].labels(value).inc()
        self._last_cycle.report = report

    def cycle_failed(self, how: FailedCycle) -> None:
        """Count a cycle without a report."""
        self._cycles.labels(self._mode, how.value).inc()
        self._last_cycle.report = None

    def observation_failed(self, source: ObservationSource) -> None:
        """Count a cycle that was skipped because the source could not be read."""
        self._observation_failures.labels(source.value).inc()
        self.cycle_failed(FailedCycle.OBSERVATION_FAILED)

    def tick_skipped(self, reason: SkippedTick) -> None:
        """Count a tick that started no cycle."""
        self._skipped.labels(reason.value).inc()

    def policy_read(self, reading: PolicyReading) -> None:
        """Show which policy is in force, and whether the file is valid."""
        self._policy_valid.set(0 if reading.problem else 1)
        if reading.news:
            self._policy_info.clear()
            self._policy_info.labels(reading.policy.source, reading.policy.digest).set(1)

    def leadership_changed(self, *, leading: bool) -> None:
        """Show whether this replica may act; the first call sets the initial state.

        A replica that loses the lease drops the gauges of its last cycle, because the new leader
        exposes current ones.
        """
        if self._leader is None:
            self._leader = self._gauge("desched_leader")
        else:
            self._leadership_changes.inc()
        self._leader.set(1 if leading else 0)
        if not leading:
            self._last_cycle.report = None

    def state_problem(self) -> None:
        """Count a state that could not be read or written."""
        self._state_problems.inc()

    def taint_removed(self) -> None:
        """Count a soft taint that was removed outside of cycles."""
        self._taints_removed.inc()

    def taints_not_removed(self, count: int) -> None:
        """Count failed attempts to find or remove soft taints outside of cycles."""
        self._taint_failures.inc(count)

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)
