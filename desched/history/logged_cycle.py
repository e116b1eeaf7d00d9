"""What the logbook takes from the report of a cycle."""

from collections import Counter
from collections.abc import Iterator

from desched.history.logbook import Entry, LoggedMove, LoggedStep, SeenNode
from desched.history.timeline import Lines, why_idle
from desched.model.plan import NodeClass, NodeVerdict, PlannedEviction
from desched.model.report import MAY_HAVE_BEGUN, CycleReport, Mode
from desched.model.state import EvictionRecord


def entry_of(report: CycleReport) -> Entry:
    """The entry of a cycle."""
    last = report.state.last_cycle
    return Entry(
        at=report.started_at,
        target=report.target,
        instance=last.instance if last else "",
        totals=_totals(report),
        nodes=tuple(map(_seen, report.plan.nodes)),
        moves=tuple(_moves(report)),
        settled=tuple(map(_settled, report.settled)),
    )


def _totals(report: CycleReport) -> LoggedStep:
    plan = report.plan
    dry_run = report.mode is Mode.DRY_RUN
    overloaded = {v.node for v in plan.nodes if v.node_class is NodeClass.OVERLOADED}
    moves = any(True for _ in _moves(report))
    idle = None if moves else why_idle(report)
    refused = Counter(refusal.reason.value for refusal in plan.refusals)
    return LoggedStep(
        cycles=1,
        dry_runs=int(dry_run),
        overloaded=len(overloaded),
        relieved=len(overloaded & {eviction.node for eviction in plan.evictions}),
        idle={idle.value: 1} if idle else {},
        refused={reason: (pods, pods) for reason, pods in refused.items()},
        verdicts=dict(Counter(outcome.verdict.value for outcome in report.outcomes)),
    )


def _seen(verdict: NodeVerdict) -> SeenNode:
    loads = [
        (
            p.resource,
            p.measured[0][1] if p.measured else p.lowest_ratio,
            Lines(p.target_ratio, p.stop_ratio, p.ceiling_ratio),
        )
        for p in verdict.pressures
    ]
    outlook = verdict.outlook
    return SeenNode(
        verdict.node,
        verdict.node_class is NodeClass.OVERLOADED,
        loads,
        outlook.above_expected if outlook else None,
    )


def _moves(report: CycleReport) -> Iterator[LoggedMove]:
    """What was evicted, and in a dry run what would have been."""
    if report.mode is Mode.DRY_RUN:
        barred = report.plan.hold is not None or report.not_acting is not None
        for eviction in () if barred else report.plan.evictions:
            yield _move(eviction, report, "")
        return
    planned = {eviction.pod: eviction for eviction in report.plan.evictions}
    for outcome in report.outcomes:
        if outcome.verdict in MAY_HAVE_BEGUN and outcome.pod in planned:
            yield _move(planned[outcome.pod], report, outcome.verdict.value)


def _move(eviction: PlannedEviction, report: CycleReport, verdict: str) -> LoggedMove:
    return LoggedMove(
        at=report.started_at,
        last_at=report.started_at,
        pod=eviction.pod,
        node=eviction.node,
        workload=eviction.workload,
        expected_on=eviction.expected_on,
        landing_risk=round(eviction.landing_risk, 4),
        reason=eviction.grounds,
        dry_run=report.mode is Mode.DRY_RUN,
        verdict=verdict,
        purpose=eviction.purpose,
    )


def _settled(record: EvictionRecord) -> LoggedMove:
    return LoggedMove(
        at=record.evicted_at,
        last_at=record.evicted_at,
        pod=record.pod,
        node=record.node,
        workload=record.workload,
        expected_on=record.expected_on,
        landing_risk=round(record.landing_risk, 4),
        reason="",
        landed_on=record.landed_on,
        settled_at=record.settled_at,
        result=record.result.value if record.result else "",
        purpose=record.purpose,
    )
