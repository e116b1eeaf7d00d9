"""What a cycle writes to the log: one line, and warnings about other deschedulers and plugins."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import structlog

from desched.model.load import UnknownReason
from desched.model.plan import RELIEF, HoldReason, NodeClass, PlannedEviction, RefusalReason
from desched.model.report import CycleReport, EvictionVerdict, Outcome
from desched.model.state import EvictionRecord
from desched.model.text import shortened
from desched.plugins import HOUSE
from desched.service.telemetry.new_results import is_acting_replica
from desched.views.cycle import CycleView
from desched.wording.reasons import describe_unsteered

MOST_NAMES = 10
"""Names beyond these are only counted, so that the line stays readable in a large cluster."""

_log = structlog.get_logger(__name__)


def log_cycle(report: CycleReport) -> None:
    """Log `cycle.completed` with the essentials of the report, as a warning if a hold lasts."""
    passing = report.plan.hold in {None, HoldReason.JUST_STARTED}
    log = _log.info if passing else _log.warning
    log("cycle.completed", **essentials(report))
    if is_acting_replica(report):
        for plugin in HOUSE:
            for event in plugin.views.log_events(report):
                log = _log.warning if event.warning else _log.info
                log(event.name, **{name: _shown(value) for name, value in event.fields.items()})


def _shown(value: object) -> object:
    return _cut(value) if isinstance(value, tuple) else value


def essentials(report: CycleReport) -> Mapping[str, Any]:
    """The counts and reasons of a cycle; parts that are empty are left out."""
    plan, cycle = report.plan, CycleView(report)
    names, held = cycle.names_by_class, cycle.state
    line = {
        "cycle": report.cycle,
        "result": report.result.value,
        "mode": report.mode.value,
        "nodes": {kind.value: len(names[kind]) for kind in sorted(names) if names[kind]},
        "planned": len(plan.evictions),
        "verdicts": _counts(outcome.verdict.value for outcome in report.outcomes),
        "refusals": _counts(refusal.reason.value for refusal in plan.refusals),
        "duration_seconds": round(report.duration_seconds, 3),
        "observe_seconds": round(report.observe_seconds, 3),
        "plan_seconds": round(report.plan_seconds, 3),
    }
    of_plugins = {
        name: _cut(map(shortened, texts))
        for plugin in HOUSE
        for name, texts in plugin.views.log_fields(report).items()
    }
    optional = {
        "overloaded": _cut(names[NodeClass.OVERLOADED]),
        "unknown": {
            group.reason.value: _first(member.name for member in group.members)
            for group in sorted(cycle.left_alone, key=lambda group: group.reason)
            if isinstance(group.reason, UnknownReason)
        },
        "evictions": _cut(map(_planned, plan.evictions)),
        "hold": plan.hold and plan.hold.value,
        "hold_detail": plan.hold_detail,
        "not_acting": report.not_acting and report.not_acting.value,
        "not_acting_detail": report.not_acting_detail,
        "unsteered": plan.unsteered and describe_unsteered(plan.unsteered),
        **_obstacles(report),
        "settled": _counts(record.result.value for record in report.settled if record.result),
        "settled_moves": _cut(map(_move, cycle.settled)),
        "in_flight": len(report.state.in_flight),
        "cooling_down": len(held.cool_downs),
        "cooling_nodes": _first(rounds.node for rounds in held.cooling_nodes),
        "paused": _first(str(pause) for pause in held.pauses),
        "awaiting_probe": _first(str(pause) for pause in held.awaiting_probe),
        "purposes": _counts(e.purpose for e in plan.evictions if e.purpose != RELIEF),
        **of_plugins,
        "too_large": _first(f"{name}: {item}" for name, item in report.too_large.items()),
        "other_deschedulers": list(report.other_deschedulers),
        "acknowledged_deschedulers": list(report.acknowledged_deschedulers),
    }
    return line | {key: value for key, value in optional.items() if value}


def _obstacles(report: CycleReport) -> Mapping[str, Any]:
    """Why planned actions were not carried out; empty where `not_acting` gives the reason."""
    if report.not_acting is not None:
        return {}
    failed = [o for o in report.outcomes if o.verdict is not EvictionVerdict.EVICTED]
    return {
        "outcomes": _cut(shortened(_outcome(outcome)) for outcome in failed),
        "taints_failed": _cut(
            shortened(f"{change.node}: {change.detail}")
            for change in report.taints
            if not change.done
        ),
    }


class CompetitorLog:
    """Logs when the other deschedulers in the cluster change, not in every cycle."""

    def __init__(self) -> None:
        self._last: tuple[str, ...] = ()

    def publish(self, report: CycleReport) -> None:
        """Log the other deschedulers if they differ from those of the last report."""
        if report.other_deschedulers == self._last:
            return
        self._last = report.other_deschedulers
        if self._last:
            _log.warning(
                "other_descheduler.found",
                others=list(self._last),
                meaning="two deschedulers undo each other's work; choose one",
            )
        else:
            _log.info("other_descheduler.gone")


class PluginLog:
    """Logs the first failure of each out-of-tree plugin; reports have the others."""

    def __init__(self) -> None:
        self._logged = set[str]()

    def publish(self, report: CycleReport) -> None:
        """Log the plugins that have failed now and never before."""
        for refusal in report.plan.refusals:
            if refusal.reason is RefusalReason.PLUGIN_FAILED:
                name, _, why = refusal.detail.partition(": ")
                if name not in self._logged:
                    self._logged.add(name)
                    _log.warning("plugin.failed", plugin=name, why=why, pod=str(refusal.pod))


def _outcome(outcome: Outcome) -> str:
    refusal = outcome.refusal.value if outcome.refusal is not None else ""
    return ": ".join(
        filter(None, (str(outcome.pod), outcome.verdict.value, refusal, outcome.detail))
    )


def _move(record: EvictionRecord) -> str:
    result = record.result.value if record.result else "in_flight"
    landed = f" on {record.landed_on}" if record.landed_on else ""
    waits = f", {record.waiting_for}" if record.waiting_for else ""
    return f"{record.pod} from {record.node}: {result}{landed}{waits}"


def _planned(eviction: PlannedEviction) -> str:
    route = f"from {eviction.node} to {eviction.expected_on}"
    return f"{eviction.pod} {route}: {eviction.grounds}"


def _first(names: Iterable[str]) -> list[str]:
    return _cut(sorted(names))


def _cut(lines: Iterable[str]) -> list[str]:
    """The first lines, and how many more there are."""
    listed = list(lines)
    more = len(listed) - MOST_NAMES
    return listed[:MOST_NAMES] + ([f"and {more} more"] if more > 0 else [])


def _counts(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))
