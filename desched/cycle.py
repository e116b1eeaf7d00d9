"""One cycle: observe, plan, confirm, evict, report."""

from collections.abc import Callable

from desched.cycle_report import CycleInfo, Stopwatch, report_of
from desched.decision import Decision, decide, decide_in, time_for_planning
from desched.eviction.action import Acted, confirm_and_evict, why_barred
from desched.model.report import CycleReport, Mode
from desched.model.snapshot import Snapshot
from desched.model.state import State
from desched.observation import observe_needed
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import Policy
from desched.ports import Clock, World


def run_cycle(
    world: World,
    policy: Policy,
    state: State,
    info: CycleInfo,
    keep: Callable[[State], None] = lambda _: None,
) -> tuple[CycleReport, Decision]:
    """Observe, plan, confirm and evict if the mode allows it, and report.

    The next cycle gets the state of the report. This one changes only the cluster, and only with an
    evictor in evict mode. `keep` stores the state before each eviction; if it raises StopActing, no
    further eviction begins.

    Raises:
        ObservationError: the cluster or its load could not be read.
        ConfigurationError: the policy names a PriorityClass that does not exist.
    """
    watch = Stopwatch(world.clock)
    situation = observe_needed(world, policy, state)
    watch.observed()
    # A dry run has no right to set soft taints; it plans as a run that evicts would.
    may_steer = info.mode is Mode.DRY_RUN or _may_steer(world, policy)
    decision = decide_in(situation, time_for_planning(world.clock), may_steer=may_steer)
    watch.planned()
    if info.mode is Mode.EVICT:
        context, plan, after = decision.context, decision.plan, decision.state
        acted = confirm_and_evict(world, context, plan, after, keep, info.taints_last_seconds)
    else:
        acted = _only_planned(decision, world)
    return report_of(info, watch, decision, acted), decision


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
    watch = Stopwatch(clock, snapshot.taken_at)
    out_of_time = time_for_planning(clock)
    decision = decide(snapshot, policy, state, out_of_time, may_steer=may_steer)
    watch.planned()
    return report_of(info._replace(mode=Mode.DRY_RUN), watch, decision, _only_planned(decision))


def _may_steer(world: World, policy: Policy) -> bool:
    return policy.steering.mode is not SteeringMode.OFF and world.may_steer()


def _only_planned(decision: Decision, world: World | None = None) -> Acted:
    """What a dry run does: nothing, but it reports what would bar its evictions."""
    context, state = decision.context, decision.state
    return Acted(state, why_barred(context.policy, state, context.now, world))
