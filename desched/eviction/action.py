"""Acts on a plan: changes soft taints, confirms and evicts, unless no eviction is allowed now."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from desched.eviction.cool_downs import with_refusals
from desched.eviction.executor import carry_out
from desched.eviction.journal import Journal
from desched.eviction.requests import Acting
from desched.eviction.steering import Steering
from desched.model.plan import Finding, Plan
from desched.model.report import EvictionVerdict, NotActing, Outcome, TaintChange
from desched.model.state import State
from desched.planning.eligibility.context import EligibilityContext
from desched.policy.acting_window import why_closed
from desched.policy.policy import Policy
from desched.ports import World

REFUSED = frozenset({EvictionVerdict.FORBIDDEN, EvictionVerdict.SEVERAL_BUDGETS})
"""After these verdicts another request soon is useless."""


class Acted(NamedTuple):
    """The outcomes of a plan's evictions, the state after them, and the changes of soft taints.

    `barred` is why no eviction is allowed.
    """

    state: State
    barred: Finding[NotActing] | None = None
    outcomes: tuple[Outcome, ...] = ()
    taints: tuple[TaintChange, ...] = ()


def confirm_and_evict(
    world: World,
    context: EligibilityContext,
    plan: Plan,
    state: State,
    keep: Callable[[State], None],
    taints_last_seconds: float,
) -> Acted:
    """Confirm and request each eviction of the plan, one after the other, unless something bars it.

    `state` is the one after planning, and `keep` stores it before each eviction. Soft taints that
    no eviction waits for change even if no eviction is allowed.
    """
    lasting = timedelta(seconds=taints_last_seconds)
    steering = Steering(world.steerer, world.clock, world.may_act, lasting)
    barred = why_barred(context.policy, state, context.now, world)
    if world.steerer is not None:
        stayed = _change_taints(steering, plan)
        if stayed and barred is None:
            barred = Finding(NotActing.TAINT_STAYED, stayed)
    if barred is not None:
        outcomes = _not_begun(plan, barred.detail, world.clock.now())
        return Acted(state, barred, outcomes, steering.changes)
    rules = context.policy.follow_up
    journal = Journal(state, keep, rules, world.clock)
    outcomes = carry_out(plan, Acting(world, context, journal, steering.steer))
    refused_pods = {outcome.pod for outcome in outcomes if outcome.verdict in REFUSED}
    refused = [eviction for eviction in plan.evictions if eviction.pod in refused_pods]
    cool_downs = with_refusals(journal.state.cool_downs, refused, rules, world.clock.now())
    return Acted(replace(journal.state, cool_downs=cool_downs), None, outcomes, steering.changes)


def why_barred(
    policy: Policy, state: State, now: datetime, world: World | None = None
) -> Finding[NotActing] | None:
    """Return why no eviction is allowed now, whatever is planned, or None if evictions are allowed.

    Without a world, whether this instance may act is left out.
    """
    if world is not None and not world.may_act():
        reason = world.why_not() or "another instance holds the lease"
        return Finding(NotActing.NOT_LEADING, reason)
    pause = state.pausing(now)
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


def _not_begun(plan: Plan, reason: str, now: datetime) -> tuple[Outcome, ...]:
    verdict = EvictionVerdict.NOT_BEGUN
    return tuple(
        Outcome(eviction.pod, eviction.node, verdict, now, reason) for eviction in plan.evictions
    )
