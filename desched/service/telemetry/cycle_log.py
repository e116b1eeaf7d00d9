"""The one line that each cycle leaves in the log."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import structlog

from desched.model.plan import HoldReason, NodeClass, NodeVerdict
from desched.model.report import CycleReport, EvictionVerdict, Outcome
from desched.model.state import FAILURES, EvictionRecord
from desched.service.reports.on_hold import on_hold

MOST_NAMES = 10
"""Names beyond these are only counted: a line has to stay readable in a cluster of thousands."""

LONGEST_DETAIL = 300
"""Characters of what a server said: webhooks may say a lot."""

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
    if report.not_acting is not None:
        line |= {
            "not_acting": report.not_acting.value,
            "not_acting_detail": report.not_acting_detail,
        }
    told = {
        **_obstacles(report),
        **_earlier_moves(report),
        "other_deschedulers": list(report.other_deschedulers),
    }
    return line | {key: value for key, value in told.items() if value}


def _obstacles(report: CycleReport) -> Mapping[str, Any]:
    """Why what was planned was not done; empty if it was, and where `not_acting` says it."""
    if report.not_acting is not None:
        return {}
    failed = [o for o in report.outcomes if o.verdict is not EvictionVerdict.EVICTED]
    return {
        "outcomes": [_outcome(outcome)[:LONGEST_DETAIL] for outcome in failed[:MOST_NAMES]],
        "taints_failed": [
            f"{change.node}: {change.detail}"[:LONGEST_DETAIL]
            for change in report.taints
            if not change.done
        ][:MOST_NAMES],
    }


def _outcome(outcome: Outcome) -> str:
    refusal = outcome.refusal.value if outcome.refusal is not None else ""
    return ": ".join(
        filter(None, (str(outcome.pod), outcome.verdict.value, refusal, outcome.detail))
    )


def _earlier_moves(report: CycleReport) -> Mapping[str, Any]:
    """What came of earlier evictions, and what is left alone because of it; empty if nothing."""
    alone = on_hold(report.state, report.started_at)
    failures_first = sorted(report.settled, key=lambda record: record.result not in FAILURES)
    return {
        "settled": _counts(record.result.value for record in report.settled if record.result),
        "settled_moves": [_move(record) for record in failures_first[:MOST_NAMES]],
        "in_flight": len(report.state.in_flight),
        "cooling_down": len(alone.cool_downs),
        "cooling_nodes": _first(rounds.node for rounds in alone.cooling_nodes),
        "paused": _first(str(pause) for pause in alone.pauses),
        "awaiting_probe": _first(str(pause) for pause in alone.awaiting_probe),
    }


def _move(record: EvictionRecord) -> str:
    result = record.result.value if record.result else "in_flight"
    landed = f" on {record.landed_on}" if record.landed_on else ""
    return f"{record.pod} from {record.node}: {result}{landed}"


def _of(report: CycleReport, node_class: NodeClass) -> list[NodeVerdict]:
    return [verdict for verdict in report.plan.nodes if verdict.node_class is node_class]


def _first(names: Iterable[str]) -> list[str]:
    return sorted(names)[:MOST_NAMES]


def _counts(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))
