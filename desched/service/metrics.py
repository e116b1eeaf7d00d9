"""What Prometheus can scrape of desched itself."""

import platform
from collections import Counter as Tally
from collections.abc import Iterable, Iterator
from enum import StrEnum

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from desched import __version__
from desched.errors import ObservationSource
from desched.model.load import UnknownReason
from desched.model.plan import HoldReason, NodeClass, NodeReason, RefusalReason
from desched.model.report import CycleReport, CycleResult, Mode
from desched.service.policy_file import PolicyReading

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
        self._last_cycle = LastCycle(self._mode)
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

    def cycle_completed(self, report: CycleReport) -> None:
        """Count a cycle and show what it found."""
        self._cycles.labels(self._mode, report.result.value).inc()
        self._duration.observe(report.duration_seconds)
        self._last_success.set(report.started_at.timestamp())
        for outcome in report.outcomes:
            self._evictions.labels(self._mode, outcome.pod.namespace, outcome.verdict.value).inc()
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

    def exposition(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self._registry)


class LastCycle(Collector):
    """Gauges made from the last report at the moment of the scrape, so they always fit together."""

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self.report: CycleReport | None = None

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Nothing: the names must not depend on whether a cycle has run."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The gauges of the last report, none if there is none."""
        report = self.report
        if report is None:
            return
        plan = report.plan
        yield _tally(
            "desched_nodes",
            "Nodes by class.",
            "class",
            NodeClass,
            (v.node_class for v in plan.nodes),
        )
        yield _tally(
            "desched_unknown_nodes",
            "Nodes whose load cannot be trusted, by reason.",
            "reason",
            UnknownReason,
            (v.reason for v in plan.nodes if isinstance(v.reason, UnknownReason)),
        )
        yield _tally(
            "desched_unrelieved_nodes",
            "Overloaded nodes that are not relieved or not fully, by reason.",
            "reason",
            NodeReason,
            (
                verdict.reason
                for verdict in plan.nodes
                if verdict.node_class is NodeClass.OVERLOADED
                and isinstance(verdict.reason, NodeReason)
            ),
        )
        yield _tally(
            "desched_refusals",
            "Pods on overloaded nodes that stay, by reason.",
            "reason",
            RefusalReason,
            (refusal.reason for refusal in plan.refusals),
        )
        yield _tally(
            "desched_hold",
            "1 at the reason for which the cycle as a whole evicts nothing.",
            "reason",
            HoldReason,
            [plan.hold] if plan.hold else [],
        )
        yield _loads(report)
        planned = GaugeMetricFamily(
            "desched_planned_evictions", "Evictions that the plan chose.", labels=["mode"]
        )
        planned.add_metric([self._mode], len(plan.evictions))
        yield planned
        yield GaugeMetricFamily(
            "desched_unresolved_series",
            "Series of load that belong to no known node.",
            value=report.observed.unresolved_series,
        )


def _tally(
    name: str, text: str, label: str, values: type[StrEnum], found: Iterable[StrEnum]
) -> GaugeMetricFamily:
    counts = Tally(found)
    family = GaugeMetricFamily(name, text, labels=[label])
    for value in values:
        family.add_metric([value.value], counts[value])
    return family


def _loads(report: CycleReport) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "desched_node_load_ratio",
        "Load of a node in its worst window as a share of capacity, as planning counts it.",
        labels=["node", "resource"],
    )
    for verdict in report.plan.nodes:
        for pressure in verdict.pressures:
            family.add_metric([verdict.node, pressure.resource.value], pressure.highest_ratio)
    return family
