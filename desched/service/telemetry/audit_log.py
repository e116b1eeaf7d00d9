"""The audit trail: a JSON line for each eviction that was requested, and one for its result.

Each line stands by itself: that of a result repeats the plan and the forecast.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, TextIO

import structlog

from desched.model.plan import PlannedEviction
from desched.model.report import CycleReport, Outcome
from desched.model.state import EvictionRecord
from desched.service.telemetry.new_results import NewResults, is_acting_replica
from desched.views.rendering import json_line, plain_value

AUDIT_VERSION = "desched.io/audit/v1"

_log = structlog.get_logger(__name__)


class AuditLog:
    """Writes lines as soon as a cycle ends; a dry run has none.

    A failure to write is logged with each line that is lost, and does not stop desched.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._results = NewResults()

    def publish(self, report: CycleReport) -> None:
        """Write the lines of a cycle."""
        if not is_acting_replica(report):
            return
        for line in (*_evictions(report), *map(_result_of, self._results.of(report))):
            self._write(_common(report) | line)

    def _write(self, line: Mapping[str, Any]) -> None:
        try:
            self._stream.write(f"{json_line(plain_value(line))}\n")
            self._stream.flush()
        except (OSError, ValueError) as error:
            _log.error("audit.not_written", why=str(error), line=line)


def _common(report: CycleReport) -> dict[str, Any]:
    last = report.state.last_cycle
    return {
        "version": AUDIT_VERSION,
        "cluster": report.target,
        "instance": last.instance if last else "",
        "cycle": report.cycle,
        "policy": report.policy,
    }


def _evictions(report: CycleReport) -> Iterator[dict[str, Any]]:
    planned = {eviction.pod: eviction for eviction in report.plan.evictions}
    for outcome in report.outcomes:
        if outcome.pod in planned:
            yield _eviction_of(outcome, planned[outcome.pod])


def _eviction_of(outcome: Outcome, eviction: PlannedEviction) -> dict[str, Any]:
    return {
        "event": "eviction",
        "at": outcome.at,
        "pod": eviction.pod,
        "workload": eviction.workload,
        "node": eviction.node,
        "verdict": outcome.verdict,
        "detail": outcome.detail,
        "refusal": outcome.refusal,
        "purpose": eviction.purpose,
        "plan": {
            "reason": eviction.reason,
            "relief": eviction.relief,
            "cpu_millicores": eviction.cpu_millicores,
            "memory_bytes": eviction.memory_bytes,
            "devices": eviction.devices,
            "priority": eviction.priority,
            "replicas": eviction.replicas,
            "cost": eviction.cost,
            "saved_minutes": eviction.saved_minutes,
            "cost_minutes": eviction.cost_minutes,
            "probe": eviction.probe,
        },
        "forecast": {
            "expected_node": eviction.expected_node,
            "landing": eviction.landing,
            "landing_risk": eviction.landing_risk,
            "steered": eviction.steered,
        },
    }


def _result_of(record: EvictionRecord) -> dict[str, Any]:
    landed = record.landed_on
    at: datetime = record.settled_at or record.evicted_at
    return {
        "event": "result",
        "at": at,
        "pod": record.pod,
        "workload": record.workload,
        "node": record.node,
        "result": record.result,
        "landed_on": landed,
        "waiting_for": record.waiting_for,
        "replacement": record.replacement,
        "evicted_at": record.evicted_at,
        "purpose": record.purpose,
        "plan": {
            "cpu_millicores": record.cpu_millicores,
            "memory_bytes": record.memory_bytes,
            "devices": record.devices,
            "replicas": record.replicas,
            "probe": record.probe,
        },
        "forecast": {
            "expected_node": record.expected_node,
            "landing": record.landing,
            "landing_risk": record.landing_risk,
            "steered": record.steered,
        },
    }
