"""Builds the report of a cycle."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import replace

from desched.decision import Decision
from desched.eviction.action import Acted
from desched.model.load import Unknown
from desched.model.plan import NodeClass, Plan
from desched.model.report import (
    MAY_HAVE_BEGUN,
    CycleReport,
    CycleResult,
    EvictionVerdict,
    Mode,
    NodeDeviceLoad,
    ObservedCounts,
    Outcome,
    RecentLoad,
)
from desched.model.snapshot import Snapshot
from desched.model.state import LastCycle, PolicyEdit
from desched.planning.other_deschedulers import other_deschedulers, split_others
from desched.ports import Clock

MOST_NAMES = 20
"""The maximum number of overloaded nodes of the last cycle in the state."""


class CycleInfo(NamedTuple):
    """Data of a cycle for its report; `instance` is the replica that runs it.

    Soft taints expire after `taints_last_seconds` unless they are renewed. `edit` is the last one
    of the policy that this process saw, and `refused_edit` why the newest one is not in force.
    """

    number: int
    mode: Mode
    target: str
    instance: str = ""
    taints_last_seconds: float = 600.0
    edit: PolicyEdit | None = None
    refused_edit: str = ""


class Stopwatch:
    """When a cycle started, and how long its steps took, in seconds of the monotonic clock."""

    def __init__(self, clock: Clock, started_at: datetime | None = None) -> None:
        self.started_at = started_at or clock.now()
        self.observe_seconds = self.plan_seconds = 0.0
        self._clock = clock
        self._began = clock.monotonic()

    def observed(self) -> None:
        """Observing ends now."""
        self.observe_seconds = self.total_seconds

    def planned(self) -> None:
        """Planning ends now."""
        self.plan_seconds = self.total_seconds - self.observe_seconds

    @property
    def total_seconds(self) -> float:
        """The time since the start."""
        return self._clock.monotonic() - self._began


def report_of(info: CycleInfo, watch: Stopwatch, decision: Decision, acted: Acted) -> CycleReport:
    """The report of a cycle that ends now."""
    plan, context = decision.plan, decision.context
    snapshot = context.book.snapshot
    others = split_others(other_deschedulers(snapshot.cluster), context.policy)
    before = context.state.last_cycle
    hold = plan.hold.value if plan.hold else ""
    began_before = before.held_since if before and before.hold == hold else None
    last_cycle = LastCycle(
        at=watch.started_at,
        instance=info.instance,
        mode=info.mode.value,
        result=_result(plan, acted, info.mode).value,
        overloaded=_overloaded(plan)[:MOST_NAMES],
        evicted=sum(outcome.verdict in MAY_HAVE_BEGUN for outcome in acted.outcomes),
        hold=hold,
        hold_detail=plan.hold_detail,
        held_since=(began_before or watch.started_at) if hold else None,
        not_acting=acted.barred.detail if acted.barred else "",
        unsteered=plan.unsteered,
        acknowledged_deschedulers=others.acknowledged,
        edit=info.edit or (before.edit if before else None),
        refused_edit=info.refused_edit,
    )
    return CycleReport(
        cycle=info.number,
        started_at=watch.started_at,
        duration_seconds=watch.total_seconds,
        observe_seconds=watch.observe_seconds,
        plan_seconds=watch.plan_seconds,
        mode=info.mode,
        target=info.target,
        policy=context.policy.source,
        result=_result(plan, acted, info.mode),
        observed=_counts(snapshot),
        plan=plan,
        outcomes=acted.outcomes,
        not_acting=acted.barred.reason if acted.barred else None,
        not_acting_detail=acted.barred.detail if acted.barred else "",
        settled=decision.settled,
        state=replace(acted.state, last_cycle=last_cycle, skipped=None),
        other_deschedulers=others.unexpected,
        acknowledged_deschedulers=others.acknowledged,
        taints=acted.taints,
        recent_loads=tuple(_recent_loads(snapshot)),
        device_loads=tuple(_device_loads(snapshot)),
        too_large=snapshot.cluster.too_large,
        unmet=tuple(
            warning
            for plugin in context.policy.plugins
            for warning in plugin.warnings(context.policy, snapshot.cluster)
        ),
        facts=decision.facts,
    )


def _counts(snapshot: Snapshot) -> ObservedCounts:
    pods, read = snapshot.cluster.pods, snapshot.load.pods_of
    return ObservedCounts(
        nodes=len(snapshot.cluster.nodes),
        pods=len(pods),
        pods_asked=len(pods) if read is None else sum(map(read.has, pods)) if read else 0,
        pods_measured=len(snapshot.load.pods),
        unresolved_series=snapshot.load.unresolved_series,
    )


def _recent_loads(snapshot: Snapshot) -> Iterator[RecentLoad]:
    load = snapshot.load
    for node, loads in sorted((load.last_hour or load.history).items()):
        for resource, history in sorted(loads.items()):
            yield RecentLoad(node, resource, history.step_seconds, history.ratios)


def _device_loads(snapshot: Snapshot) -> Iterator[NodeDeviceLoad]:
    for devices in snapshot.load.extras.values():
        for node, load in sorted(devices.nodes.items()):
            if isinstance(load, Unknown):
                doubt = f"{load.reason.value}: {load.detail}"
                yield NodeDeviceLoad(node, devices.resource, None, detail=doubt)
            else:
                level = load.levels[0]
                yield NodeDeviceLoad(node, devices.resource, level.ratio, level.window_seconds)


def _overloaded(plan: Plan) -> tuple[str, ...]:
    return tuple(v.node for v in plan.nodes if v.node_class is NodeClass.OVERLOADED)


def _result(plan: Plan, acted: Acted, mode: Mode) -> CycleResult:
    if plan.hold is not None:
        return CycleResult.HELD
    if not plan.evictions:
        overloaded = _overloaded(plan)
        return CycleResult.NOTHING_MOVABLE if overloaded else CycleResult.NOTHING_TO_DO
    if mode is Mode.DRY_RUN:
        return CycleResult.PLANNED
    return CycleResult.NOT_ACTING if acted.barred is not None else _acted_on(acted.outcomes)


def _acted_on(outcomes: Sequence[Outcome]) -> CycleResult:
    verdicts = {outcome.verdict for outcome in outcomes}
    if EvictionVerdict.UNKNOWN in verdicts:
        return CycleResult.STOPPED
    return CycleResult.EVICTED if verdicts & MAY_HAVE_BEGUN else CycleResult.NOT_EVICTED
