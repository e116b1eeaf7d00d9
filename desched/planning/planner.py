"""The recipe: what to evict, where it should land, and why everything else stays."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial

from desched.model.cluster import Pod
from desched.model.memory import Memory
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
from desched.model.text import shortened
from desched.planning.eligibility.availability import replicas_to_spare
from desched.planning.eligibility.context import Surroundings
from desched.planning.eligibility.rules import refuse
from desched.planning.holds import hold_of
from desched.planning.kube_scheduler.scores.cluster_view import SchedulerView
from desched.planning.overload.classification import Pressure, classify
from desched.planning.overload.node_load import NodeLoadState
from desched.planning.overload.pod_usage import UsageBook
from desched.planning.placement.destinations import Places
from desched.planning.placement.forecast_trust import risk_surcharge
from desched.planning.placement.landing_feedback import Caution
from desched.planning.placement.reservations import room_left
from desched.planning.placement.room import Room, usage_of
from desched.planning.projection import planned_eviction, with_outlook
from desched.planning.selection.all_nodes import choose_moves
from desched.planning.selection.eviction_cost import cost
from desched.planning.selection.excess import Candidate
from desched.planning.selection.limits import Allowance
from desched.planning.selection.one_node import HotNode, Move
from desched.planning.selection.probes import cut_to_probes
from desched.planning.taints import standing_taints, steerable, taints_for
from desched.policy.policy import Policy

PodFinding = tuple[Pod, RefusalReason, str]


def make_plan(snapshot: Snapshot, policy: Policy, memory: Memory, now: datetime) -> Plan:
    """Decide; pure, and the same for any order of the snapshot's objects.

    Args:
        snapshot: what was seen.
        policy: what may be disturbed.
        memory: as of the snapshot (`Memory.observed`).
        now: the time of the decision.

    Raises:
        ConfigurationError: the policy names a PriorityClass that the cluster does not have.
    """
    book = UsageBook(snapshot, policy, now)
    around = Surroundings.of(snapshot, policy, memory, now, book)
    pressure = classify(snapshot, policy, memory, book)
    overloaded = sorted(
        pressure.of_class(NodeClass.OVERLOADED), key=lambda s: (-s.excess_ratio, s.node.name)
    )
    candidates, refused = _sift(overloaded, around)
    hold = hold_of(snapshot, policy, memory, pressure, now)
    if hold is not None:
        left = [(c.pod, RefusalReason.CYCLE_HELD, hold[0].value) for c in _flat(candidates)]
        return _plan(pressure.verdicts, [], [*refused, *left], hold)
    standing = standing_taints(around, pressure)
    if not overloaded:
        return _plan(pressure.verdicts, [], [], None, standing)
    room = room_left(around.cluster, policy, memory, pressure, book)
    view = SchedulerView(around.cluster, policy.scheduler, room.index)
    within = steerable(room.columns, around, pressure, standing)
    caution = _caution(policy, memory, pressure, now)
    places = Places(room, view, policy.max_landing_risk, within, caution)
    moves, left, stuck, room = _choose(overloaded, candidates, places, pressure, around)
    moves, later, probes = cut_to_probes(moves, memory, partial(_spare, around=around), now)
    verdicts = with_outlook(pressure.verdicts, moves, stuck, room)
    evictions = [
        planned_eviction(move, state, around, probe=move.candidate.pod.uid in probes)
        for state, move in moves
    ]
    taints = (*standing, *taints_for(evictions))
    return _plan(verdicts, evictions, [*refused, *left, *later], None, taints)


def _sift(
    overloaded: Iterable[NodeLoadState], around: Surroundings
) -> tuple[dict[str, list[Candidate]], list[PodFinding]]:
    """Candidates by node, and the pods on overloaded nodes that must stay."""
    candidates: dict[str, list[Candidate]] = {}
    refused: list[PodFinding] = []
    for state in overloaded:
        found = candidates.setdefault(state.node.name, [])
        for pod in around.cluster.pods_by_node.get(state.node.name, ()):
            finding = refuse(pod, around)
            if finding is None and pod.scheduling.unevaluated:
                names = ", ".join(pod.scheduling.unevaluated)
                finding = RefusalReason.CONSTRAINT_NOT_EVALUATED, names
            if finding is not None:
                refused.append((pod, *finding))
            else:
                found.append(_candidate(pod, around))
    return candidates, refused


def _caution(policy: Policy, memory: Memory, pressure: Pressure, now: datetime) -> Caution:
    """What came of earlier moves, for where further pods may go."""
    pools = {name: state.verdict.pool for name, state in pressure.known.items()}
    by_pool = {pool: risk_surcharge(memory, pool, now) for pool in set(pools.values())}
    surcharges = {name: by_pool[pool] for name, pool in pools.items() if by_pool[pool]}
    awaited = Counter(r.expected_node for r in memory.in_flight)
    return Caution(surcharges, awaited, policy.limits.in_flight_destination)


def _spare(pod: Pod, around: Surroundings) -> int:
    """How many replicas the pod's workload can do without, by its budget where it has one."""
    budgets = around.cluster.budgets_of(pod)
    if budgets:
        return min(budget.disruptions_allowed for budget in budgets)
    return replicas_to_spare(pod, around) or 0


def _candidate(pod: Pod, around: Surroundings) -> Candidate:
    usage = {resource: around.book.measured(pod, resource) for resource in around.book.windows}
    price = cost(pod, around.cluster.workload_of(pod), around.now)
    return Candidate(pod, usage, usage_of(pod, around.book), price)


def _flat(candidates: Mapping[str, list[Candidate]]) -> list[Candidate]:
    return [candidate for found in candidates.values() for candidate in found]


def _choose(
    overloaded: list[NodeLoadState],
    candidates: Mapping[str, list[Candidate]],
    places: Places,
    pressure: Pressure,
    around: Surroundings,
) -> tuple[list[tuple[NodeLoadState, Move]], list[PodFinding], dict[str, str], Room]:
    """The moves of the whole plan in the order of acting, and why the other candidates stay.

    The third part names nodes whose excess cannot be moved, with the numbers; the fourth is the
    room that the moves leave.
    """
    left: list[PodFinding] = []
    nodes: list[HotNode] = []
    for state in overloaded:
        found = sorted(candidates[state.node.name], key=lambda candidate: candidate.pod.ref)
        if state.node.name in pressure.waiting:
            left += [(c.pod, *pressure.waiting[state.node.name]) for c in found]
        else:
            nodes.append(HotNode(state, tuple(found)))
    allowance = Allowance(
        around.policy.limits,
        len(around.cluster.nodes),
        around.cluster,
        partial(replicas_to_spare, around=around),
        around.memory.in_flight,
    )
    choice = choose_moves(nodes, places, allowance)
    for node in nodes:
        stay = choice.covers[node.name].stay
        left += [(c.pod, *stay[c.pod.uid]) for c in node.candidates if c.pod.uid in stay]
    stuck = {name: cover.stuck for name, cover in choice.covers.items() if cover.stuck}
    return [(node.state, move) for node, move in choice.moves], left, stuck, choice.places.room


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
