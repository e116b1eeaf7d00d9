"""What Prometheus can scrape of desched itself."""

import platform
from enum import StrEnum

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
from desched.model.report import CycleReport, CycleResult, Mode
from desched.model.state import MoveResult
from desched.service.inputs.policy_file import PolicyReading
from desched.service.telemetry.cycle_gauges import CycleGauges
from desched.service.telemetry.new_results import NewResults

CYCLE_SECONDS_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300)

# They would double the series of each counter, and nobody asks for them.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no annotation for it


class FailedCycle(StrEnum):
    """A cycle without a report, in one word; the label beside the results of the others."""

    OBSERVATION_FAILED = "observation_failed"
    CONFIGURATION_FAILED = "configuration_failed"
    CRASHED = "crashed"  # a bug; the log has its traceback


class SkippedTick(StrEnum):
    """Why a tick of the schedule began no cycle."""

    CYCLE_RUNNING = "cycle_running"
    MISSED = "missed"


class ServiceMetrics:
    """Counters over the life of the process, and gauges of the last cycle.

    Every label value that is known beforehand begins at zero, so that a first increase shows.
    The gauges of the last cycle vanish while the cluster cannot be observed: what is not known is
    neither zero nor what it was an hour ago.
    """

    def __init__(self, mode: Mode) -> None:
        self._mode = mode.value
        self._registry = CollectorRegistry()
        self._last_cycle = CycleGauges(self._mode)
        self._registry.register(self._last_cycle)
        ProcessCollector(registry=self._registry)
        self._cycles = Counter(
            "desched_cycles",
            "Cycles by what came of them.",
            ["mode", "result"],
            registry=self._registry,
        )
        self._skipped = Counter(
            "desched_ticks_skipped",
            "Ticks of the schedule that began no cycle.",
            ["reason"],
            registry=self._registry,
        )
        self._observation_failures = Counter(
            "desched_observation_failures",
            "Cycles skipped because of what could not be read.",
            ["source"],
            registry=self._registry,
        )
        self._evictions = Counter(
            "desched_evictions",
            "Requests to evict a pod by the answer.",
            ["mode", "namespace", "verdict"],
            registry=self._registry,
        )
        self._moves = Counter(
            "desched_moves",
            "Accepted evictions by what became of them.",
            ["result"],
            registry=self._registry,
        )
        self._settled = NewResults()
        self._leadership_changes = Counter(
            "desched_leadership_changes",
            "How often this replica gained or lost the lease.",
            registry=self._registry,
        )
        self._leader: Gauge | None = None  # without an election there is no such series
        self._memory_problems = Counter(
            "desched_state_problems",
            "How often what earlier cycles left behind could not be read, or not be written.",
            registry=self._registry,
        )
        self._duration = Histogram(
            "desched_cycle_duration_seconds",
            "How long a cycle took.",
            buckets=CYCLE_SECONDS_BUCKETS,
            registry=self._registry,
        )
        self._last_success = Gauge(
            "desched_last_success_timestamp_seconds",
            "When the last cycle that saw the cluster began, in Unix seconds.",
            registry=self._registry,
        )
        self._policy_valid = Gauge(
            "desched_policy_valid",
            "1 if the policy file is in force as it is, 0 if an edit was refused.",
            registry=self._registry,
        )
        self._policy_valid.set(1)  # a service does not start without one that can be used
        self._policy_info = Gauge(
            "desched_policy_info",
            "The policy in force; always 1.",
            ["source", "digest"],
            registry=self._registry,
        )
        Gauge(
            "desched_build_info",
            "What runs; always 1.",
            ["version", "python"],
            registry=self._registry,
        ).labels(__version__, platform.python_version()).set(1)
        for result in (*CycleResult, *FailedCycle):
            self._cycles.labels(self._mode, result.value)
        for reason in SkippedTick:
            self._skipped.labels(reason.value)
        for source in ObservationSource:
            self._observation_failures.labels(source.value)
        for move in MoveResult:
            self._moves.labels(move.value)

    def cycle_completed(self, report: CycleReport) -> None:
        """Count a cycle and show what it found."""
        self._cycles.labels(self._mode, report.result.value).inc()
        self._duration.observe(report.duration_seconds)
        self._last_success.set(report.started_at.timestamp())
        for outcome in report.outcomes:
            self._evictions.labels(self._mode, outcome.pod.namespace, outcome.verdict.value).inc()
        for record in self._settled.news(report):
            if record.result is not None:
                self._moves.labels(record.result.value).inc()
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
        """Count a tick that began no cycle."""
        self._skipped.labels(reason.value).inc()

    def policy_read(self, reading: PolicyReading) -> None:
        """Show which policy is in force, and whether the file is."""
        self._policy_valid.set(0 if reading.problem else 1)
        if reading.news:
            self._policy_info.clear()
            self._policy_info.labels(reading.policy.source, reading.policy.digest).set(1)

    def leadership_changed(self, *, leading: bool) -> None:
        """Show whether this replica may act; the first call says how it begins.

        A replica that may act no more forgets its last cycle: another one tells how things stand.
        """
        if self._leader is None:
            self._leader = Gauge(
                "desched_leader",
                "1 while this replica holds the lease and so may evict, 0 while it may not.",
                registry=self._registry,
            )
        else:
            self._leadership_changes.inc()
        self._leader.set(1 if leading else 0)
        if not leading:
            self._last_cycle.report = None

    def state_problem(self) -> None:
        """Count a state that could not be read or written."""
        self._memory_problems.inc()

    def exposition(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self._registry)
