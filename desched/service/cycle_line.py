"""The one line that each cycle leaves in the log."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import structlog

from desched.model.plan import HoldReason, NodeClass, NodeVerdict
from desched.model.report import CycleReport

MOST_NAMES = 10
"""Names beyond these are only counted: a line has to stay readable in a cluster of thousands."""

_log = structlog.get_logger(__name__)


def log_cycle(report: CycleReport) -> None:
    """Log `cycle.completed` with the essentials of the report; a hold that lasts is a warning."""
    passes = report.plan.hold in {None, HoldReason.JUST_STARTED}
    log = _log.info if passes else _log.warning
    log("cycle.completed", **essentials(report))


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
    if overloaded := _first(v.node for v in _of(report, NodeClass.OVERLOADED)):
        line["overloaded"] = overloaded
    if unknown := _of(report, NodeClass.UNKNOWN):
        line["unknown"] = {
            reason: _first(v.node for v in unknown if v.reason == reason)
            for reason in sorted({v.reason.value for v in unknown if v.reason is not None})
        }
    if plan.evictions:
        line["evictions"] = [
            f"{eviction.pod} from {eviction.node}: {eviction.reason}"
            for eviction in plan.evictions[:MOST_NAMES]
        ]
    if plan.hold is not None:
        line |= {"hold": plan.hold.value, "hold_detail": plan.hold_detail}
    return line


def _of(report: CycleReport, node_class: NodeClass) -> list[NodeVerdict]:
    return [verdict for verdict in report.plan.nodes if verdict.node_class is node_class]


def _first(names: Iterable[str]) -> list[str]:
    return sorted(names)[:MOST_NAMES]


def _counts(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))
