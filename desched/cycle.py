"""One pass through the five words: observe, plan, confirm, evict, report."""

import gc
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import NamedTuple

from desched.eviction.executor import carry_out
from desched.model.memory import EvictionRecord, Memory
from desched.model.plan import NodeClass, Plan, PlannedEviction
from desched.model.report import (
    CycleReport,
    CycleResult,
    EvictionVerdict,
    Mode,
    Observed,
    Outcome,
)
from desched.model.snapshot import Snapshot
from desched.planning.planner import make_plan, surroundings
from desched.planning.usage import UsageBook
from desched.policy.policy import Policy
from desched.ports import World

ACCEPTED = frozenset({EvictionVerdict.EVICTED, EvictionVerdict.TAKEN_OVER, EvictionVerdict.UNKNOWN})
"""After these the pod may be gone: the next cycle must count it as leaving."""


class CycleContext(NamedTuple):
    """What a report says of the cycle beside what it found."""

    number: int
    mode: Mode
    target: str


def run_cycle(
    world: World,
    policy: Policy,
    memory: Memory,
    context: CycleContext,
    keep: Callable[[Memory], None] = lambda _: None,
) -> tuple[CycleReport, Memory]:
    """Look, decide, act as far as the mode allows, and tell.

    The only thing it changes is the cluster, and that only with an evictor and in evict mode.
    `keep` is given the memory after each eviction, so that none is forgotten if a later step fails.

    Raises:
        ObservationError: the cluster or its load could not be read.
        ConfigurationError: the policy names a PriorityClass that does not exist.
    """
    clock = world.clock
    began = clock.monotonic()
    started_at = clock.now()
    snapshot = observe(world, policy)
    observed = clock.monotonic()
    horizon = timedelta(seconds=policy.longest_window_seconds)
    memory = memory.observed(snapshot.cluster.pods, snapshot.taken_at, horizon)
    keep(memory)
    plan = decide(snapshot, policy, memory)
    planned = clock.monotonic()
    outcomes: list[Outcome] = []
    if context.mode is Mode.EVICT and world.evictor is not None:
        book = UsageBook(snapshot, policy, snapshot.taken_at)
        around = surroundings(snapshot, policy, memory, snapshot.taken_at, book)
        planned_of = {eviction.pod: eviction for eviction in plan.evictions}
        for outcome in carry_out(plan, world.cluster, world.evictor, clock, around):
            outcomes.append(outcome)
            if outcome.verdict in ACCEPTED:
                memory = memory.with_eviction(_record(planned_of[outcome.pod], outcome))
                keep(memory)
    report = CycleReport(
        cycle=context.number,
        started_at=started_at,
        duration_seconds=clock.monotonic() - began,
        observe_seconds=observed - began,
        plan_seconds=planned - observed,
        mode=context.mode,
        target=context.target,
        policy=policy.source,
        result=_result(plan, outcomes, context.mode),
        observed=Observed(
            nodes=len(snapshot.cluster.nodes),
            pods=len(snapshot.cluster.pods),
            pods_measured=len(snapshot.load.pods),
            unresolved_series=snapshot.load.unresolved_series,
        ),
        plan=plan,
        outcomes=tuple(outcomes),
    )
    return report, memory


def observe(world: World, policy: Policy) -> Snapshot:
    """The cluster, its load, and when they were read."""
    cluster = world.cluster.read_cluster()
    load = world.load.read_load(cluster, policy)
    return Snapshot(cluster, load, world.clock.now())


def decide(snapshot: Snapshot, policy: Policy, memory: Memory) -> Plan:
    """The plan as of the snapshot.

    Garbage collection pauses meanwhile: planning makes no cycles, and each collection would look at
    hundreds of thousands of values that are all in use, for an eighth of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return make_plan(snapshot, policy, memory, snapshot.taken_at)
    finally:
        if was_enabled:
            gc.enable()


def _record(eviction: PlannedEviction, outcome: Outcome) -> EvictionRecord:
    return EvictionRecord(
        pod=eviction.pod,
        node=eviction.node,
        workload_uid=eviction.workload_uid,
        evicted_at=outcome.at,
        expected_node=eviction.expected_node,
        cpu_millicores=eviction.cpu_millicores,
        memory_bytes=eviction.memory_bytes,
        taken_over=outcome.verdict is EvictionVerdict.TAKEN_OVER,
    )


def _result(plan: Plan, outcomes: Sequence[Outcome], mode: Mode) -> CycleResult:
    if plan.hold is not None:
        return CycleResult.HELD
    if not any(verdict.node_class is NodeClass.OVERLOADED for verdict in plan.nodes):
        return CycleResult.NOTHING_TO_DO
    if not plan.evictions:
        return CycleResult.NOTHING_MOVABLE
    return CycleResult.PLANNED if mode is Mode.DRY_RUN else _acted(outcomes)


def _acted(outcomes: Sequence[Outcome]) -> CycleResult:
    verdicts = {outcome.verdict for outcome in outcomes}
    if EvictionVerdict.UNKNOWN in verdicts:
        return CycleResult.STOPPED
    return CycleResult.EVICTED if verdicts & ACCEPTED else CycleResult.NOT_EVICTED
