"""One pass through the five words: observe, plan, confirm, evict, report."""

import gc
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from desched.errors import ObservationError
from desched.eviction.cool_downs import refused
from desched.eviction.executor import Acting, carry_out
from desched.eviction.follow_up import follow_up
from desched.eviction.steering import Steering
from desched.model.plan import NodeClass, Plan, PlannedEviction
from desched.model.report import (
    CycleReport,
    CycleResult,
    EvictionVerdict,
    Mode,
    NotActing,
    Observed,
    Outcome,
)
from desched.model.snapshot import Snapshot
from desched.model.state import EvictionRecord, LastCycle, State
from desched.planning.clocks import clocks_differ, lead_seconds
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.other_deschedulers import other_deschedulers
from desched.planning.overload.pod_usage import UsageBook
from desched.planning.planner import make_plan
from desched.planning.taints import expired_taints, taints_to_remove
from desched.policy.acting_window import why_closed
from desched.policy.follow_up import FollowUpRules
from desched.policy.policy import Policy
from desched.ports import Clock, World

ACCEPTED = frozenset({EvictionVerdict.EVICTED, EvictionVerdict.TAKEN_OVER, EvictionVerdict.UNKNOWN})
"""After these the pod may be gone: the next cycle must count it as leaving."""

REFUSED = frozenset({EvictionVerdict.FORBIDDEN, EvictionVerdict.SEVERAL_BUDGETS})
"""After these asking again soon is of no use."""

MOST_NAMES = 20
"""Overloaded nodes beyond these are not named in the state."""


class CycleInfo(NamedTuple):
    """What a report says of the cycle beside what it found; `instance` is who runs it.

    A soft taint that nobody renews goes after `taints_last_seconds`.
    """

    number: int
    mode: Mode
    target: str
    instance: str = ""
    taints_last_seconds: float = 600.0


def run_cycle(
    world: World,
    policy: Policy,
    state: State,
    info: CycleInfo,
    keep: Callable[[State], None] = lambda _: None,
) -> tuple[CycleReport, State]:
    """Look, decide, act as far as the mode allows, and tell.

    The only thing it changes is the cluster, and that only with an evictor and in evict mode.
    `keep` writes the state down before each eviction; where it raises StopActing, none follows.

    Raises:
        ObservationError: the cluster or its load could not be read.
        ConfigurationError: the policy names a PriorityClass that does not exist.
    """
    clock = world.clock
    began = clock.monotonic()
    started_at = clock.now()
    steers = info.mode is Mode.EVICT and world.steerer is not None
    lasting = timedelta(seconds=info.taints_last_seconds)
    steering = Steering(world.steerer, clock, world.may_act, lasting)
    snapshot = observe(world, policy, steering if steers else None)
    observed = clock.monotonic()
    horizon = timedelta(seconds=policy.longest_window_seconds)
    settled: tuple[EvictionRecord, ...] = ()
    if not clocks_differ(snapshot):
        state = state.observed(snapshot.cluster.pods, snapshot.taken_at, horizon)
        state, settled = follow_up(state, snapshot, policy, snapshot.taken_at)
    plan = decide(snapshot, policy, state)
    planned = clock.monotonic()
    not_acting, why = _not_acting(world, policy, state, snapshot.taken_at)
    outcomes: tuple[Outcome, ...] = ()
    if steers:
        gone = taints_to_remove(snapshot, state, policy, plan, snapshot.taken_at)
        stayed = _change_taints(steering, gone, plan)
        if stayed and not_acting is None:
            not_acting, why = NotActing.TAINT_STAYED, stayed
    if info.mode is Mode.EVICT and not_acting is not None:
        outcomes = _not_begun(plan, why, clock.now())
    elif info.mode is Mode.EVICT:
        book = UsageBook(snapshot, policy, snapshot.taken_at)
        context = EligibilityContext.of(snapshot, policy, state, snapshot.taken_at, book)
        outcomes, state = _act(world, context, plan, state, keep, steering)
    result = _result(plan, outcomes, info.mode, not_acting)
    state = replace(
        state,
        last_cycle=LastCycle(
            at=started_at,
            instance=info.instance,
            mode=info.mode.value,
            result=result.value,
            overloaded=_overloaded(plan)[:MOST_NAMES],
            evicted=sum(outcome.verdict in ACCEPTED for outcome in outcomes),
            not_acting=why,
        ),
    )
    report = CycleReport(
        cycle=info.number,
        started_at=started_at,
        duration_seconds=clock.monotonic() - began,
        observe_seconds=observed - began,
        plan_seconds=planned - observed,
        mode=info.mode,
        target=info.target,
        policy=policy.source,
        result=result,
        observed=Observed(
            nodes=len(snapshot.cluster.nodes),
            pods=len(snapshot.cluster.pods),
            pods_measured=len(snapshot.load.pods),
            unresolved_series=snapshot.load.unresolved_series,
        ),
        plan=plan,
        outcomes=outcomes,
        not_acting=not_acting,
        not_acting_detail=why,
        taints=steering.changes,
        settled=settled,
        state=state,
        other_deschedulers=other_deschedulers(snapshot.cluster),
    )
    return report, state


def observe(world: World, policy: Policy, steering: Steering | None = None) -> Snapshot:
    """The cluster, its load, when they were read, and how the clocks differ.

    While the load cannot be read, soft taints go all the same when their time is over.

    Raises:
        ObservationError: the cluster or its load could not be read.
    """
    now = world.clock.now
    began = now()
    cluster = world.cluster.read_cluster()
    between = now()
    try:
        load = world.load.read_load(cluster, policy)
    except ObservationError:
        if steering is not None:
            steering.remove(expired_taints(cluster, now()))
        raise
    ended = now()
    return Snapshot(
        cluster,
        load,
        ended,
        lead_seconds(cluster.server_times, began, between),
        lead_seconds(load.server_times, between, ended),
    )


def decide(snapshot: Snapshot, policy: Policy, state: State) -> Plan:
    """The plan as of the snapshot.

    Garbage collection pauses meanwhile: planning makes no cycles, and each collection would look at
    hundreds of thousands of values that are all in use, for an eighth of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return make_plan(snapshot, policy, state, snapshot.taken_at)
    finally:
        if was_enabled:
            gc.enable()


def _not_acting(
    world: World, policy: Policy, state: State, now: datetime
) -> tuple[NotActing | None, str]:
    """Why no eviction may be made now, whatever is planned."""
    if not world.may_act():
        return NotActing.NOT_LEADING, world.why_not() or "another instance holds the lease"
    pause = state.pausing(now)
    if pause is not None:
        return NotActing.PAUSED, pause.describe()
    closed = why_closed(policy.maintenance_windows, policy.blackout_windows, now)
    return (NotActing.OUTSIDE_WINDOW, closed) if closed else (None, "")


def _change_taints(steering: Steering, gone: Iterable[tuple[str, str]], plan: Plan) -> str:
    """Take soft taints away, set those that no eviction waits for, and say what stayed."""
    stayed = steering.remove(gone)
    planned_pods = {eviction.pod for eviction in plan.evictions}
    steering.set_standing(t for t in plan.taints if t.until_landed_of not in planned_pods)
    return stayed


def _act(
    world: World,
    context: EligibilityContext,
    plan: Plan,
    state: State,
    keep: Callable[[State], None],
    steering: Steering,
) -> tuple[tuple[Outcome, ...], State]:
    """Carry the plan out; what became of its evictions, and the state with those that began."""
    if world.evictor is None:
        raise ValueError("a world without an evictor cannot be acted on")
    rules, clock = context.policy.follow_up, world.clock
    notes = _Notes(state, keep, rules, clock)
    acting = Acting(
        world.cluster,
        world.evictor,
        clock,
        context,
        world.may_act,
        notes.remember,
        notes.forget,
        steering.steer,
        notes.hand_over,
    )
    outcomes = carry_out(plan, acting)
    state = notes.state
    refused_pods = {o.pod for o in outcomes if o.verdict in REFUSED}
    evictions = [eviction for eviction in plan.evictions if eviction.pod in refused_pods]
    cool_downs = refused(state.cool_downs, evictions, rules, clock.now())
    return outcomes, replace(state, cool_downs=cool_downs)


class _Notes:
    """The state while a plan is carried out: each eviction is in it before it is asked for."""

    def __init__(
        self, state: State, keep: Callable[[State], None], rules: FollowUpRules, clock: Clock
    ) -> None:
        self.state = state
        self._keep = keep
        self._patience = timedelta(seconds=rules.patience_seconds)
        self._clock = clock

    def remember(self, eviction: PlannedEviction) -> None:
        """Write it down as under way.

        Raises:
            StopActing: it could not be written down.
        """
        record = _record(eviction, self._clock.now(), self._patience)
        state = self.state.with_eviction(record)
        self._keep(state)
        self.state = state

    def hand_over(self, eviction: PlannedEviction) -> None:
        """Write down at once that a webhook carries it out, for its pod may long be there.

        Raises:
            StopActing: it could not be written down.
        """
        records = tuple(
            replace(record, taken_over=True) if record.pod == eviction.pod else record
            for record in self.state.evictions
        )
        self.state = replace(self.state, evictions=records)
        self._keep(self.state)

    def forget(self, eviction: PlannedEviction) -> None:
        """It did not begin; that is written down with what comes next."""
        self.state = self.state.without_eviction(eviction.pod)


def _record(eviction: PlannedEviction, now: datetime, patience: timedelta) -> EvictionRecord:
    return EvictionRecord(
        pod=eviction.pod,
        node=eviction.node,
        workload_uid=eviction.workload_uid,
        evicted_at=now,
        expected_node=eviction.expected_node,
        cpu_millicores=eviction.cpu_millicores,
        memory_bytes=eviction.memory_bytes,
        workload=eviction.workload,
        replicas=eviction.replicas,
        pool=eviction.pool,
        landing=eviction.landing,
        landing_risk=eviction.landing_risk,
        judged_by=now + timedelta(seconds=eviction.grace_period_seconds) + patience,
        probe=eviction.probe,
        steered=eviction.steered,
    )


def _not_begun(plan: Plan, why: str, now: datetime) -> tuple[Outcome, ...]:
    return tuple(
        Outcome(eviction.pod, eviction.node, EvictionVerdict.NOT_BEGUN, now, why)
        for eviction in plan.evictions
    )


def _overloaded(plan: Plan) -> tuple[str, ...]:
    return tuple(v.node for v in plan.nodes if v.node_class is NodeClass.OVERLOADED)


def _result(
    plan: Plan, outcomes: Sequence[Outcome], mode: Mode, not_acting: NotActing | None
) -> CycleResult:
    if plan.hold is not None:
        return CycleResult.HELD
    if not _overloaded(plan):
        return CycleResult.NOTHING_TO_DO
    if not plan.evictions:
        return CycleResult.NOTHING_MOVABLE
    if mode is Mode.DRY_RUN:
        return CycleResult.PLANNED
    return CycleResult.NOT_ACTING if not_acting is not None else _acted(outcomes)


def _acted(outcomes: Sequence[Outcome]) -> CycleResult:
    verdicts = {outcome.verdict for outcome in outcomes}
    if EvictionVerdict.UNKNOWN in verdicts:
        return CycleResult.STOPPED
    return CycleResult.EVICTED if verdicts & ACCEPTED else CycleResult.NOT_EVICTED
