"""One cycle: observe, plan, confirm, evict, report."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from desched.eviction.cool_downs import with_refusals
from desched.eviction.executor import carry_out
from desched.eviction.follow_up import follow_up
from desched.eviction.journal import Journal
from desched.eviction.requests import Acting
from desched.eviction.steering import Steering
from desched.history.logged_cycle import BEGUN
from desched.model.cluster import Pod
from desched.model.load import ClusterLoad, PodChoice, Unknown
from desched.model.plan import Finding, NodeClass, Plan
from desched.model.report import (
    CycleReport,
    CycleResult,
    EvictionVerdict,
    GpuLoad,
    Mode,
    NotActing,
    ObservedCounts,
    Outcome,
    RecentLoad,
)
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.model.state import EvictionRecord, LastCycle, PolicyEdit, State
from desched.planning.clocks import clocks_differ, lead_seconds
from desched.planning.deadline import OutOfTime
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.needed_usage import needed_pods
from desched.planning.other_deschedulers import other_deschedulers, split_others
from desched.planning.overload.classification import ClassifiedNodes, Pressure
from desched.planning.planner import plan_moves
from desched.policy.acting_window import why_closed
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import Policy
from desched.ports import Clock, World

REFUSED = frozenset({EvictionVerdict.FORBIDDEN, EvictionVerdict.SEVERAL_BUDGETS})
"""After these verdicts another request soon is useless."""

PLANNING_SECONDS = 120.0
"""The time for planning, many times what the largest supported cluster needs."""

MOST_NAMES = 20
"""The maximum number of overloaded nodes of the last cycle in the state."""


class CycleInfo(NamedTuple):
    """Data of a cycle for its report; `instance` is the replica that runs it.

    Soft taints expire after `taints_last_seconds` unless they are renewed. `edit` is the last one
    of the policy that this process saw.
    """

    number: int
    mode: Mode
    target: str
    instance: str = ""
    taints_last_seconds: float = 600.0
    edit: PolicyEdit | None = None


class Decision(NamedTuple):
    """A plan with its context, and the earlier evictions whose result became known.

    `pressure` is the class of each node by its load. `may_steer` is whether it counts on soft
    taints.
    """

    context: EligibilityContext
    plan: Plan
    settled: tuple[EvictionRecord, ...]
    pressure: Pressure
    may_steer: bool = True


class _Acted(NamedTuple):
    """The outcomes of the plan's evictions, the state after them, and why none is allowed."""

    state: State
    outcomes: tuple[Outcome, ...] = ()
    barred: Finding[NotActing] | None = None


class _Times(NamedTuple):
    """The start of the cycle, and readings of the monotonic clock."""

    started_at: datetime
    began: float
    observed: float
    planned: float


def run_cycle(
    world: World,
    policy: Policy,
    state: State,
    info: CycleInfo,
    keep: Callable[[State], None] = lambda _: None,
) -> tuple[CycleReport, Decision]:
    """Observe, plan, evict if the mode allows it, and report.

    The next cycle gets the state of the report. This one changes only the cluster, and only with an
    evictor in evict mode. `keep` stores the state before each eviction; if it raises StopActing, no
    further eviction begins.

    Raises:
        ObservationError: the cluster or its load could not be read.
        ConfigurationError: the policy names a PriorityClass that does not exist.
    """
    clock = world.clock
    started_at, began = clock.now(), clock.monotonic()
    lasting = timedelta(seconds=info.taints_last_seconds)
    steering = Steering(world.steerer, clock, world.may_act, lasting)
    steers = info.mode is Mode.EVICT and world.steerer is not None
    classified = _observe_needed(world, policy, state)
    observed = clock.monotonic()
    # A dry run has no such right; it plans as a run that evicts would.
    may_steer = info.mode is Mode.DRY_RUN or _may_steer(world, policy)
    out_of_time = partial(_out_of_time, clock, observed)
    decision = _decided(classified, out_of_time, may_steer=may_steer)
    times = _Times(started_at, began, observed, clock.monotonic())
    barred = _barred(_why_not(world), decision)
    if steers:
        stayed = _change_taints(steering, decision.plan)
        if stayed and barred is None:
            barred = Finding(NotActing.TAINT_STAYED, stayed)
    acted = _Acted(decision.context.state, (), barred)
    if info.mode is Mode.EVICT and barred is not None:
        acted = acted._replace(outcomes=_not_begun(decision.plan, barred.detail, clock.now()))
    elif info.mode is Mode.EVICT:
        acted = _act(world, decision, steering, keep)
    report = _report(info, times, decision, acted)
    report = replace(report, duration_seconds=clock.monotonic() - began, taints=steering.changes)
    return report, decision


def _out_of_time(clock: Clock, began: float) -> bool:
    return clock.monotonic() - began > PLANNING_SECONDS


def observe(world: World, policy: Policy) -> Snapshot:
    """Read the cluster and its load with the usage of all pods, and compare the clocks.

    Raises:
        ObservationError: the cluster or its load could not be read.
    """
    unread = _without_load(world, policy)
    began = world.clock.now()
    with _without_garbage_collection():
        load = world.load.read_load(unread.cluster, policy)
    return _loaded(unread, load, began, world.clock.now())


def _observe_needed(world: World, policy: Policy, state: State) -> ClassifiedNodes:
    """Read the cluster, its load, and the usage of only those pods that a decision needs.

    The nodes are classified once for each load, for the choice of pods and for planning.
    """
    unread = _without_load(world, policy)
    began = world.clock.now()
    latest: ClassifiedNodes | None = None

    def classified(load: ClusterLoad) -> ClassifiedNodes:
        nonlocal latest
        if latest is None or latest.book.snapshot.load is not load:
            snapshot = _loaded(unread, load, began, world.clock.now())
            latest = ClassifiedNodes.of(snapshot, policy, state)
        return latest

    def choose(load: ClusterLoad) -> PodChoice:
        return needed_pods(classified(load))

    with _without_garbage_collection():
        return classified(world.load.read_load(unread.cluster, policy, choose))


def _without_load(world: World, policy: Policy) -> Snapshot:
    now = world.clock.now
    began = now()
    cluster = world.cluster.read_cluster(policy.protections.understood_owner_kinds)
    between = now()
    lead = lead_seconds(cluster.server_times, began, between)
    return Snapshot(cluster, ClusterLoad({}, {}), between, lead)


def _loaded(snapshot: Snapshot, load: ClusterLoad, began: datetime, ended: datetime) -> Snapshot:
    lead = lead_seconds(load.server_times, began, ended)
    return replace(snapshot, load=load, taken_at=ended, load_lead_seconds=lead)


def planned_report(
    snapshot: Snapshot,
    policy: Policy,
    state: State,
    info: CycleInfo,
    clock: Clock,
    *,
    may_steer: bool = True,
) -> CycleReport:
    """The report of a dry run that observed this snapshot.

    Raises:
        ConfigurationError: the policy names a PriorityClass that does not exist.
    """
    began = clock.monotonic()
    out_of_time = partial(_out_of_time, clock, began)
    decision = decide(snapshot, policy, state, out_of_time, may_steer=may_steer)
    times = _Times(snapshot.taken_at, began, began, clock.monotonic())
    acted = _Acted(decision.context.state, (), _barred("", decision))
    report = _report(info._replace(mode=Mode.DRY_RUN), times, decision, acted)
    return replace(report, duration_seconds=clock.monotonic() - began)


def _may_steer(world: World, policy: Policy) -> bool:
    return policy.steering.mode is not SteeringMode.OFF and world.may_steer()


def decide(
    snapshot: Snapshot,
    policy: Policy,
    state: State,
    out_of_time: OutOfTime = lambda: False,
    *,
    may_steer: bool = True,
) -> Decision:
    """Judge earlier evictions and plan; usage and node classes are computed once for both."""
    with _without_garbage_collection():
        classified = ClassifiedNodes.of(snapshot, policy, state)
        return _decided(classified, out_of_time, may_steer=may_steer)


def _decided(classified: ClassifiedNodes, out_of_time: OutOfTime, *, may_steer: bool) -> Decision:
    book, state, pressure, stayed = classified
    with _without_garbage_collection():
        context = EligibilityContext.of(book, state, out_of_time)
        settled: tuple[EvictionRecord, ...] = ()
        if not clocks_differ(book.snapshot):
            state, settled = follow_up(context, pressure, stayed)
            context = context.with_state(state)
        plan = plan_moves(context, pressure, may_steer=may_steer)
        context = context.with_state(replace(context.state, chains=plan.chains))
        return Decision(context, plan, settled, pressure, may_steer)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Pause garbage collection.

    Planning creates no reference cycles, and the load has none. Collections would visit hundreds of
    thousands of values that are all in use, and take an eighth of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _why_not(world: World) -> str:
    """Why this instance may not act; empty if it may."""
    return "" if world.may_act() else world.why_not() or "another instance holds the lease"


def _barred(not_leading: str, decision: Decision) -> Finding[NotActing] | None:
    """Why no eviction is allowed now, whatever is planned; `not_leading` as of `_why_not`."""
    context = decision.context
    policy, now = context.policy, context.now
    if not_leading:
        return Finding(NotActing.NOT_LEADING, not_leading)
    pause = context.state.pausing(now)
    if pause is not None:
        return Finding(NotActing.PAUSED, pause.describe())
    if policy.limits.total == 0:
        return Finding(NotActing.LIMIT_ZERO, policy.limits.zero_at)
    closed = why_closed(policy.maintenance_windows, policy.blackout_windows, now)
    return Finding(NotActing.OUTSIDE_WINDOW, closed) if closed else None


def _change_taints(steering: Steering, plan: Plan) -> str:
    """Remove and set the soft taints that no eviction waits for; return the errors of removals."""
    stayed = steering.remove(plan.removed_taints)
    planned_pods = {eviction.pod for eviction in plan.evictions}
    steering.set_standing(t for t in plan.taints if t.until_landed_of not in planned_pods)
    return stayed


def _act(
    world: World, decision: Decision, steering: Steering, keep: Callable[[State], None]
) -> _Acted:
    """Execute the plan."""
    context, plan = decision.context, decision.plan
    rules = context.policy.follow_up
    journal = Journal(context.state, keep, rules, world.clock)
    outcomes = carry_out(plan, Acting(world, context, journal, steering.steer))
    state = journal.state
    refused_pods = {o.pod for o in outcomes if o.verdict in REFUSED}
    refused = [eviction for eviction in plan.evictions if eviction.pod in refused_pods]
    cool_downs = with_refusals(state.cool_downs, refused, rules, world.clock.now())
    return _Acted(replace(state, cool_downs=cool_downs), outcomes)


def _not_begun(plan: Plan, why: str, now: datetime) -> tuple[Outcome, ...]:
    verdict = EvictionVerdict.NOT_BEGUN
    return tuple(Outcome(each.pod, each.node, verdict, now, why) for each in plan.evictions)


def _report(info: CycleInfo, times: _Times, decision: Decision, acted: _Acted) -> CycleReport:
    """The report without the duration and the taints, which are known only at the end."""
    plan, snapshot = decision.plan, decision.context.book.snapshot
    result = _result(plan, acted, info.mode)
    why = acted.barred.detail if acted.barred else ""
    others = split_others(other_deschedulers(snapshot.cluster), decision.context.policy)
    before = decision.context.state.last_cycle
    last_cycle = LastCycle(
        at=times.started_at,
        instance=info.instance,
        mode=info.mode.value,
        result=result.value,
        overloaded=_overloaded(plan)[:MOST_NAMES],
        evicted=sum(outcome.verdict in BEGUN for outcome in acted.outcomes),
        not_acting=why,
        unsteered=plan.unsteered,
        acknowledged_deschedulers=others.acknowledged,
        edit=info.edit or (before.edit if before else None),
    )
    return CycleReport(
        cycle=info.number,
        started_at=times.started_at,
        duration_seconds=0.0,
        observe_seconds=times.observed - times.began,
        plan_seconds=times.planned - times.observed,
        mode=info.mode,
        target=info.target,
        policy=decision.context.policy.source,
        result=result,
        observed=ObservedCounts(
            nodes=len(snapshot.cluster.nodes),
            pods=len(snapshot.cluster.pods),
            pods_asked=len(_asked(snapshot)),
            pods_measured=len(snapshot.load.pods),
            unresolved_series=snapshot.load.unresolved_series,
            unknown_gpu_nodes=_unknown_gpu_nodes(decision.context.policy, snapshot),
        ),
        plan=plan,
        outcomes=acted.outcomes,
        not_acting=acted.barred.reason if acted.barred else None,
        not_acting_detail=why,
        settled=decision.settled,
        state=replace(acted.state, last_cycle=last_cycle),
        other_deschedulers=others.unexpected,
        acknowledged_deschedulers=others.acknowledged,
        recent_loads=tuple(_recent_loads(snapshot)),
        gpu_loads=tuple(_gpu_loads(snapshot)),
        too_large=snapshot.cluster.too_large,
    )


def _asked(snapshot: Snapshot) -> Sequence[Pod]:
    pods, read = snapshot.cluster.pods, snapshot.load.pods_of
    if read is None:
        return pods
    return [pod for pod in pods if read.has(pod)] if read else ()


def _recent_loads(snapshot: Snapshot) -> Iterator[RecentLoad]:
    load = snapshot.load
    for node, loads in sorted((load.last_hour or load.history).items()):
        for resource, history in sorted(loads.items()):
            yield RecentLoad(node, resource, history.step_seconds, history.ratios)


def _gpu_loads(snapshot: Snapshot) -> Iterator[GpuLoad]:
    for node, load in sorted(snapshot.load.gpus.items()):
        if isinstance(load, Unknown):
            yield GpuLoad(node, None, detail=f"{load.reason.value}: {load.detail}")
        else:
            level = load.levels[0]
            yield GpuLoad(node, level.ratio, level.window_seconds)


def _unknown_gpu_nodes(policy: Policy, snapshot: Snapshot) -> int | None:
    if not policy.windows(Resource.GPU):
        return None
    return sum(isinstance(load, Unknown) for load in snapshot.load.gpus.values())


def _overloaded(plan: Plan) -> tuple[str, ...]:
    return tuple(v.node for v in plan.nodes if v.node_class is NodeClass.OVERLOADED)


def _result(plan: Plan, acted: _Acted, mode: Mode) -> CycleResult:
    if plan.hold is not None:
        return CycleResult.HELD
    if not _overloaded(plan):
        return CycleResult.NOTHING_TO_DO
    if not plan.evictions:
        return CycleResult.NOTHING_MOVABLE
    if mode is Mode.DRY_RUN:
        return CycleResult.PLANNED
    return CycleResult.NOT_ACTING if acted.barred is not None else _acted_on(acted.outcomes)


def _acted_on(outcomes: Sequence[Outcome]) -> CycleResult:
    verdicts = {outcome.verdict for outcome in outcomes}
    if EvictionVerdict.UNKNOWN in verdicts:
        return CycleResult.STOPPED
    return CycleResult.EVICTED if verdicts & BEGUN else CycleResult.NOT_EVICTED
