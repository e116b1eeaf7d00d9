"""The recipe of a plan: which pods to evict, where they should land, why all others stay.

Nodes are classified by their load before. Their pods are sifted by the rules of eligibility. For
those that may move, the places are found where they could land, after what is under way already.
Then moves are chosen, node by node, and after them those of plugins. What they do becomes the plan.
"""

from typing import NamedTuple

from desched.model.plan import Finding, HoldReason, Plan, RefusalReason
from desched.planning.composition import (
    ChosenMoves,
    plan_of,
    plan_without_moves,
    with_cost_of_no_steering,
)
from desched.planning.deadline import PlanningTooSlowError
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.eligibility import Eligibility
from desched.planning.holds import hold_of
from desched.planning.overload.classification import Pressure, restrain
from desched.planning.placement.destinations import Destinations
from desched.planning.placement.starting_room import StartingRoom
from desched.planning.selection.all_nodes import Selection, select_moves
from desched.planning.selection.candidates import Sifted, sift
from desched.planning.selection.limits import EvictionQuota
from desched.planning.selection.other_moves import no_other_moves, other_moves
from desched.planning.selection.probes import cut_to_probes
from desched.planning.selection.staying_excess import without_staying_excess
from desched.planning.taints import SoftTaints
from desched.policy.compatibility import SteeringMode


def plan_moves(context: EligibilityContext, pressure: Pressure, *, may_steer: bool = True) -> Plan:
    """Make the plan from a context after the follow-up, and the class of every node by its load.

    The order of the snapshot's objects does not matter. If desched may not steer, it plans without
    soft taints, and counts what that costs.
    """
    eligibility = Eligibility(context)
    pressure = _of_moves(pressure, eligibility)
    sifted = sift(pressure, eligibility)
    mode = context.policy.steering.mode
    if may_steer or mode is SteeringMode.OFF:
        return _planned(sifted, mode, eligibility, pressure)
    plan = _planned(sifted, SteeringMode.OFF, eligibility, pressure)
    if all(refusal.reason is not RefusalReason.LANDING_RISK for refusal in plan.refusals):
        return plan
    return with_cost_of_no_steering(plan, _planned(sifted, mode, eligibility, pressure))


def _planned(
    sifted: Sifted, mode: SteeringMode, eligibility: Eligibility, pressure: Pressure
) -> Plan:
    """The plan with soft taints by this mode."""
    context = eligibility.context
    taints = SoftTaints.of(context, pressure, mode)
    due = any(plugin.is_due(context) for plugin in context.policy.plugins)
    held = hold_of(pressure, context, others_due=due)
    if held is not None or not (sifted.nodes or due):
        return plan_without_moves(held, sifted, pressure, taints, no_other_moves(context))
    try:
        room = StartingRoom.of(context, pressure)
        destinations = room.destinations(taints.steerable(room.free.arrays), taints.inflow)
        selection = _choose(sifted, destinations, eligibility, pressure)
        others = other_moves(eligibility, pressure, selection)
    except PlanningTooSlowError as error:
        held = Finding(HoldReason.PLANNING_TOO_SLOW, str(error))
        return plan_without_moves(held, sifted, pressure, taints, no_other_moves(context))
    probing = cut_to_probes(selection.moves, eligibility)
    chosen = ChosenMoves(selection, probing, others)
    return plan_of(chosen, sifted, pressure, taints)


def _choose(
    sifted: Sifted,
    destinations: Destinations,
    eligibility: Eligibility,
    pressure: Pressure,
) -> Selection:
    """Choose the moves of the nodes that may be relieved now."""
    nodes = [node for node in sifted.nodes if node.name not in pressure.waiting]
    quota = EvictionQuota(eligibility)
    policy = eligibility.context.policy
    reliefs = (plugin.relief(eligibility, pressure) for plugin in policy.plugins)
    price = policy.eviction_price_minutes
    return select_moves(nodes, destinations, quota, filter(None, reliefs), price=price)


def _of_moves(pressure: Pressure, eligibility: Eligibility) -> Pressure:
    """The classes by which moves are chosen: some nodes wait, and some load stays."""
    context = eligibility.context
    pressure = restrain(pressure, context.state, context.now)
    if context.policy.relieves_staying_excess:
        return pressure
    return without_staying_excess(pressure, eligibility)


class BeforeMoves(NamedTuple):
    """What a plan chooses its first move by; at least one node must be known."""

    pressure: Pressure
    destinations: Destinations


def before_moves(
    context: EligibilityContext, pressure: Pressure, *, may_steer: bool = True
) -> BeforeMoves:
    """The classes and the destinations of a plan before its first move."""
    pressure = _of_moves(pressure, Eligibility(context))
    mode = context.policy.steering.mode if may_steer else SteeringMode.OFF
    taints, room = SoftTaints.of(context, pressure, mode), StartingRoom.of(context, pressure)
    destinations = room.destinations(taints.steerable(room.free.arrays), taints.inflow)
    return BeforeMoves(pressure, destinations)
