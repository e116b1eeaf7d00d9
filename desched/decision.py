"""The decision of a cycle: what became of earlier evictions, and the plan."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from desched import garbage_collection
from desched.eviction.follow_up import follow_up
from desched.model.facts import Facts
from desched.model.plan import Plan
from desched.model.snapshot import Snapshot
from desched.model.state import EvictionRecord, State
from desched.planning.deadline import OutOfTime
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.newcomers import seen_newcomers
from desched.planning.overload.classification import Pressure
from desched.planning.planner import plan_moves
from desched.planning.situation import Situation
from desched.policy.policy import Policy
from desched.ports import Clock

PLANNING_SECONDS = 120.0
"""The time for planning, many times what the largest supported cluster needs."""


class Decision(NamedTuple):
    """A plan with its context, and the earlier evictions whose result became known.

    `pressure` is the class of each node by its load. `may_steer` is whether it counts on soft
    taints. `state` is the one of the context with what plugins keep of the plan. `facts` are what
    plugins have observed, by their names.
    """

    context: EligibilityContext
    plan: Plan
    settled: tuple[EvictionRecord, ...]
    pressure: Pressure
    may_steer: bool
    state: State
    facts: Mapping[str, Facts]


def decide(
    snapshot: Snapshot,
    policy: Policy,
    state: State,
    out_of_time: OutOfTime = lambda: False,
    *,
    may_steer: bool = True,
) -> Decision:
    """Decide by a snapshot with the usage of all pods that matter.

    Raises:
        ConfigurationError: the policy names a PriorityClass that does not exist.
    """
    with garbage_collection.paused():
        situation = Situation.of(snapshot, policy, state)
        return decide_in(situation, out_of_time, may_steer=may_steer)


def decide_in(situation: Situation, out_of_time: OutOfTime, *, may_steer: bool) -> Decision:
    """Judge earlier evictions, and plan after what they have shown."""
    context, pressure, stayed, differing_clocks = situation
    with garbage_collection.paused():
        state, settled = context.state, tuple[EvictionRecord, ...]()
        if not differing_clocks:
            state, settled = follow_up(context, pressure, stayed)
        state = replace(state, newcomers=seen_newcomers(context.book, state))
        context = context.for_planning(state, out_of_time)
        plan = plan_moves(context, pressure, may_steer=may_steer)
        facts: dict[str, Facts] = {}
        for plugin in context.policy.plugins:
            state = plugin.keep(state, plan)
            if (observed := plugin.facts(context, plan)) is not None:
                facts[observed.plugin] = observed
        return Decision(context, plan, settled, pressure, may_steer, state, facts)


def time_for_planning(clock: Clock) -> OutOfTime:
    """The time for planning, which begins now."""
    began = clock.monotonic()
    return lambda: clock.monotonic() - began > PLANNING_SECONDS
