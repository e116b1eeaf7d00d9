"""The recipe: what to evict, where it should land, and why everything else stays."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial

from desched.model.cluster import Pod
from desched.model.plan import (
    HoldReason,
    NodeClass,
    NodeVerdict,
    Plan,
    PlannedEviction,
    PlannedTaint,
    Refusal,
    RefusalReason,
)
from desched.model.snapshot import Snapshot
from desched.model.state import State
from desched.model.text import shortened
from desched.planning.eligibility.availability import replicas_to_spare
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.rules import refuse
from desched.planning.holds import hold_of
from desched.planning.kube_scheduler.scores.cluster_view import SchedulerView
from desched.planning.overload.classification import Pressure, classify
from desched.planning.overload.node_load import LoadedNode
from desched.planning.overload.pod_usage import UsageBook
from desched.planning.placement.destinations import Destinations
from desched.planning.placement.forecast_trust import risk_surcharge
from desched.planning.placement.free_capacity import FreeCapacity, usage_of
from desched.planning.placement.landing_feedback import LandingFeedback
from desched.planning.placement.reservations import room_left
from desched.planning.projection import planned_eviction, with_projected_load
from desched.planning.selection.all_nodes import choose_moves
from desched.planning.selection.eviction_cost import cost
from desched.planning.selection.excess import Candidate
from desched.planning.selection.limits import EvictionQuota
from desched.planning.selection.one_node import Move, OverloadedNode
from desched.planning.selection.probes import cut_to_probes
from desched.planning.taints import standing_taints, steerable, taints_for
from desched.policy.policy import Policy

PodFinding = tuple[Pod, RefusalReason, str]


def make_plan(snapshot: Snapshot, policy: Policy, state: State, now: datetime) -> Plan:
    """Decide; pure, and the same for any order of the snapshot's objects.

    Args:
        snapshot: what was seen.
        policy: what may be disturbed.
        state: as of the snapshot (`State.observed`).
        now: the time of the decision.

    Raises:
        ConfigurationError: the policy names a PriorityClass that the cluster does not have.
    """
    book = UsageBook(snapshot, policy, now)
    context = EligibilityContext.of(snapshot, policy, state, now, book)
    pressure = classify(snapshot, policy, state, book)
    overloaded = sorted(
        pressure.of_class(NodeClass.OVERLOADED), key=lambda s: (-s.excess_ratio, s.node.name)
    )
    candidates, refused = _sift(overloaded, context)
    hold = hold_of(snapshot, policy, state, pressure, now)
    if hold is not None:
        left = [(c.pod, RefusalReason.CYCLE_HELD, hold[0].value) for c in _flat(candidates)]
        return _plan(pressure.verdicts, [], [*refused, *left], hold)
    standing = standing_taints(context, pressure)
    if not overloaded:
        return _plan(pressure.verdicts, [], [], None, standing)
    free = room_left(context.cluster, policy, state, pressure, book)
    view = SchedulerView(context.cluster, policy.scheduler, free.index)
    within = steerable(free.arrays, context, pressure, standing)
    feedback = _feedback(policy, state, pressure, now)
    destinations = Destinations(free, view, policy.max_landing_risk, within, feedback)
    moves, left, stuck, free = _choose(overloaded, candidates, destinations, pressure, context)
    moves, later, probes = cut_to_probes(moves, state, partial(_spare, context=context), now)
    verdicts = with_projected_load(pressure.verdicts, moves, stuck, free)
    evictions = [
        planned_eviction(move, loaded, context, probe=move.candidate.pod.uid in probes)
        for loaded, move in moves
    ]
    taints = (*standing, *taints_for(evictions))
    return _plan(verdicts, evictions, [*refused, *left, *later], None, taints)


def _sift(
    overloaded: Iterable[LoadedNode], context: EligibilityContext
) -> tuple[dict[str, list[Candidate]], list[PodFinding]]:
    """Candidates by node, and the pods on overloaded nodes that must stay."""
    candidates: dict[str, list[Candidate]] = {}
    refused: list[PodFinding] = []
    for loaded in overloaded:
        found = candidates.setdefault(loaded.node.name, [])
        for pod in context.cluster.pods_by_node.get(loaded.node.name, ()):
            finding = refuse(pod, context)
            if finding is None and pod.scheduling.unevaluated:
                names = ", ".join(pod.scheduling.unevaluated)
                finding = RefusalReason.CONSTRAINT_NOT_EVALUATED, names
            if finding is not None:
                refused.append((pod, *finding))
            else:
                found.append(_candidate(pod, context))
    return candidates, refused


def _feedback(policy: Policy, state: State, pressure: Pressure, now: datetime) -> LandingFeedback:
    """What came of earlier moves, for where further pods may go."""
    pools = {name: loaded.verdict.pool for name, loaded in pressure.known.items()}
    by_pool = {pool: risk_surcharge(state, pool, now) for pool in set(pools.values())}
    surcharges = {name: by_pool[pool] for name, pool in pools.items() if by_pool[pool]}
    awaited = Counter(r.expected_node for r in state.in_flight)
    return LandingFeedback(surcharges, awaited, policy.limits.in_flight_destination)


def _spare(pod: Pod, context: EligibilityContext) -> int:
    """How many replicas the pod's workload can do without, by its budget where it has one."""
    budgets = context.cluster.budgets_of(pod)
    if budgets:
        return min(budget.disruptions_allowed for budget in budgets)
    return replicas_to_spare(pod, context) or 0


def _candidate(pod: Pod, context: EligibilityContext) -> Candidate:
    usage = {resource: context.book.measured(pod, resource) for resource in context.book.windows}
    price = cost(pod, context.cluster.workload_of(pod), context.now)
    return Candidate(pod, usage, usage_of(pod, context.book), price)


def _flat(candidates: Mapping[str, list[Candidate]]) -> list[Candidate]:
    return [candidate for found in candidates.values() for candidate in found]


def _choose(
    overloaded: list[LoadedNode],
    candidates: Mapping[str, list[Candidate]],
    destinations: Destinations,
    pressure: Pressure,
    context: EligibilityContext,
) -> tuple[list[tuple[LoadedNode, Move]], list[PodFinding], dict[str, str], FreeCapacity]:
    """The moves of the whole plan in the order of acting, and why the other candidates stay.

    The third part names nodes whose excess cannot be moved, with the numbers; the fourth is the
    room that the moves leave.
    """
    left: list[PodFinding] = []
    nodes: list[OverloadedNode] = []
    for loaded in overloaded:
        found = sorted(candidates[loaded.node.name], key=lambda candidate: candidate.pod.ref)
        if loaded.node.name in pressure.waiting:
            left += [(c.pod, *pressure.waiting[loaded.node.name]) for c in found]
        else:
            nodes.append(OverloadedNode(loaded, tuple(found)))
    quota = EvictionQuota(
        context.policy.limits,
        len(context.cluster.nodes),
        context.cluster,
        partial(replicas_to_spare, context=context),
        context.state.in_flight,
    )
    choice = choose_moves(nodes, destinations, quota)
    for node in nodes:
        stay = choice.covers[node.name].stay
        left += [(c.pod, *stay[c.pod.uid]) for c in node.candidates if c.pod.uid in stay]
    stuck = {name: cover.stuck for name, cover in choice.covers.items() if cover.stuck}
    return (
        [(node.loaded, move) for node, move in choice.moves],
        left,
        stuck,
        choice.destinations.free,
    )


def _plan(
    verdicts: tuple[NodeVerdict, ...],
    evictions: list[PlannedEviction],
    findings: list[PodFinding],
    hold: tuple[HoldReason, str] | None,
    taints: tuple[PlannedTaint, ...] = (),
) -> Plan:
    refusals = sorted(
        (Refusal(pod.ref, pod.node, reason, shortened(detail)) for pod, reason, detail in findings),
        key=lambda refusal: (refusal.node, refusal.pod),
    )
    held, detail = hold or (None, "")
    return Plan(verdicts, tuple(evictions), tuple(refusals), held, detail, taints)
