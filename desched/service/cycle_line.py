"""The one line that each cycle leaves in the log."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import structlog

from desched.model.plan import NodeClass
from desched.model.report import CycleReport

MOST_NAMES = 10
"""Names beyond these are only counted: a line has to stay readable in a cluster of thousands."""

_log = structlog.get_logger(__name__)


def log_cycle(report: CycleReport) -> None:
    """Log `cycle.completed` with the essentials of the report."""
    _log.info("cycle.completed", **essentials(report))


def essentials(report: CycleReport) -> Mapping[str, Any]:
    """What happened in a cycle and why, in counts; durations in seconds."""
    plan = report.plan
    line: dict[str, Any] = {
        "cycle": report.cycle,
        "result": report.result.value,
        "mode": report.mode.value,
        "nodes": _counts(verdict.node_class.value for verdict in plan.nodes),
        "planned": len(plan.evictions),
        "verdicts": _counts(outcome.verdict.value for outcome in report.outcomes),
        "refusals": _counts(refusal.reason.value for refusal in plan.refusals),
        "duration_seconds": round(report.duration_seconds, 3),
        "observe_seconds": round(report.observe_seconds, 3),
        "plan_seconds": round(report.plan_seconds, 3),
    }
    if overloaded := _names(report, NodeClass.OVERLOADED):
        line["overloaded"] = overloaded
    if unknown := _names(report, NodeClass.UNKNOWN):
        line["unknown"] = unknown
    if plan.evictions:
        line["evictions"] = [
            f"{eviction.pod} from {eviction.node}" for eviction in plan.evictions[:MOST_NAMES]
        ]
    if plan.hold is not None:
        line |= {"hold": plan.hold.value, "hold_detail": plan.hold_detail}
    return line


def _names(report: CycleReport, node_class: NodeClass) -> list[str]:
    names = sorted(v.node for v in report.plan.nodes if v.node_class is node_class)
    return names[:MOST_NAMES]


def _counts(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))
