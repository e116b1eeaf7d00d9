"""The recipe of a plan: which pods to evict, where they should land, why all others stay."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial

from msgspec.structs import replace

from desched.model.cluster import Pod
from desched.model.devices import amounts_of_networks, networks_of
from desched.model.plan import (
    Finding,
    HoldReason,
    NodeClass,
    NodeVerdict,
    Plan,
    PlannedEviction,
    Refusal,
    RefusalReason,
    Unsteered,
)
from desched.model.state import PauseScope
from desched.model.text import shortened
from desched.planning.deadline import PlanningTooSlowError
from desched.planning.eligibility.availability import replicas_to_spare
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.pod_groups import surpluses
from desched.planning.eligibility.rules import refuse, waits_for_moves
from desched.planning.eligibility.whole_gangs import WholeGang, WholeGangs
from desched.planning.holds import hold_of
from desched.planning.kube_scheduler.scores.cluster_view import SchedulerView
from desched.planning.overload.classification import Pressure, restrain
from desched.planning.overload.node_load import LoadedNode
from desched.planning.placement.chains_under_way import UnderWay, under_way
from desched.planning.placement.destinations import Destinations
from desched.planning.placement.forecast_trust import risk_surcharge
from desched.planning.placement.free_capacity import usage_of
from desched.planning.placement.landing_limits import LandingFeedback
from desched.planning.placement.reservations import room_left
from desched.planning.projection import of_gang, planned_eviction, with_projected_load
from desched.planning.selection.all_nodes import Selection, select_moves
from desched.planning.selection.chains import NoOpenings, Openings, rooms
from desched.planning.selection.eviction_cost import cost
from desched.planning.selection.excess import Candidate
from desched.planning.selection.limits import EvictionQuota
from desched.planning.selection.one_node import Gang, OverloadedNode
from desched.planning.selection.probes import Chosen, cut_to_probes
from desched.planning.selection.whole_gangs import WholeMoves
from desched.planning.taints import SoftTaints
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import Policy


def plan_moves(context: EligibilityContext, pressure: Pressure, *, may_steer: bool = True) -> Plan:
    """Make the plan from a context after the follow-up, and the class of every node by its load.

    The order of the snapshot's objects does not matter. If desched may not steer, it plans without
    soft taints, and counts what that costs.
    """
    mode = context.policy.steering.mode
    if may_steer:
        return _plan_with(mode, context, pressure)
    plan = _plan_with(SteeringMode.OFF, context, pressure)
    risky = any(refusal.reason is RefusalReason.LANDING_RISK for refusal in plan.refusals)
    if mode is SteeringMode.OFF or not risky:
        return plan
    return replace(plan, unsteered=_only_in(_plan_with(mode, context, pressure), plan))


def _only_in(steered: Plan, plan: Plan) -> Unsteered | None:
    """The evictions that only the plan with soft taints has."""
    here = {eviction.pod for eviction in plan.evictions}
    nodes = [eviction.node for eviction in steered.evictions if eviction.pod not in here]
    return Unsteered(len(nodes), len(set(nodes))) if nodes else None


def _plan_with(mode: SteeringMode, context: EligibilityContext, pressure: Pressure) -> Plan:
    pressure = restrain(pressure, context.state, context.now)
    overloaded = sorted(
        pressure.of_class(NodeClass.OVERLOADED), key=lambda s: (-s.excess_ratio, s.node.name)
    )
    nodes, refusals = _sift(overloaded, context, WholeGangs(context))
    taints = SoftTaints.of(context, pressure, mode)
    hold = hold_of(pressure, context)
    if hold is not None:
        return _held(hold, nodes, refusals, pressure, taints)
    if not overloaded:
        return _plan(pressure.verdicts, (), (), taints)
    try:
        selection, chains_before = _select(nodes, taints, pressure, context)
    except PlanningTooSlowError as error:
        hold = Finding(HoldReason.PLANNING_TOO_SLOW, str(error))
        return _held(hold, nodes, refusals, pressure, taints)
    spare = partial(_spare, context=context)
    chains = selection.chains | {chain.second.uid: chain for chain in chains_before.ready}
    probing = cut_to_probes(
        selection.moves, context.state, partial(_workload, context=context), spare, context.now
    )
    evictions = [
        planned_eviction(
            move,
            node.loaded,
            context,
            chains.get(move.candidate.pod.uid),
            probe=move.candidate.pod.uid in probing.probes,
        )
        for node, move in probing.moves
    ]
    if selection.whole is not None:
        evictions = list(of_gang(selection.whole.gang, evictions))
    refusals = _changed(refusals, evictions, _left_in_place(nodes, selection, pressure))
    refusals += [_refusal(pod, finding) for pod, finding in probing.waiting]
    verdicts = with_projected_load(pressure, probing.moves, selection)
    hold = None if selection.moves else pressure.saturated
    plan = _plan(verdicts, evictions, refusals, taints, hold)
    unreserved = selection.destinations.free.unreserved
    used = {(move.candidate.pod.node, move.destination.expected_node) for _, move in probing.moves}
    chains_after = chains_before.after(used, context.now)
    return replace(plan, unreserved=unreserved, chains=chains_after)


def _held(
    hold: Finding[HoldReason],
    nodes: Iterable[OverloadedNode],
    refusals: Iterable[Refusal],
    pressure: Pressure,
    taints: SoftTaints,
) -> Plan:
    """The plan of a cycle that evicts nothing."""
    held = Finding(RefusalReason.CYCLE_HELD, hold.reason.value)
    stay = [_refusal(c.pod, held) for node in nodes for c in node.candidates]
    plan = _plan(pressure.verdicts, (), (*refusals, *stay), taints, hold)
    return replace(plan, chains=taints.context.state.chains)


def _sift(
    overloaded: Iterable[LoadedNode], context: EligibilityContext, whole: WholeGangs
) -> tuple[list[OverloadedNode], list[Refusal]]:
    """Split the pods of each node into candidates and refusals, and find gangs to move whole."""
    nodes: list[OverloadedNode] = []
    refusals: list[Refusal] = []
    for loaded in overloaded:
        movable: list[Candidate] = []
        later: list[Candidate] = []
        gangs: dict[str, Gang] = {}
        for pod in context.cluster.pods_by_node.get(loaded.node.name, ()):
            finding = whole.refuse(pod)
            if finding is None and pod.scheduling.unevaluated:
                names = ", ".join(pod.scheduling.unevaluated)
                finding = Finding(RefusalReason.CONSTRAINT_NOT_EVALUATED, names)
            if finding is not None:
                refusals.append(_refusal(pod, finding))
                gang = whole.of(pod) if finding.reason is RefusalReason.POD_GROUP else ""
                if isinstance(gang, WholeGang) and str(gang) not in gangs:
                    members = tuple(candidate_of(member, context) for member in gang.members)
                    gangs[str(gang)] = Gang(str(gang), members)
                if waits_for_moves(pod, context):
                    later.append(candidate_of(pod, context))
            else:
                movable.append(candidate_of(pod, context))
        for candidates in (movable, later):
            candidates.sort(key=lambda candidate: candidate.pod.ref)
        together = tuple(gangs.values())
        nodes.append(OverloadedNode(loaded, tuple(movable), tuple(later), together))
    return nodes, refusals


def _movable(pod: Pod, context: EligibilityContext, pressure: Pressure) -> Candidate | None:
    """The pod as a candidate to leave a node that is not overloaded, None if it stays."""
    pool = pressure.known[pod.node].verdict.pool
    if context.state.pausing(context.now, PauseScope.POOL, pool) is not None:
        return None
    if refuse(pod, context) is not None or pod.scheduling.unevaluated:
        return None
    return candidate_of(pod, context)


def candidate_of(pod: Pod, context: EligibilityContext) -> Candidate:
    """The pod with what its move would bring, charge and cost."""
    usage = {resource: context.book.relief(pod, resource) for resource in context.book.windows}
    workload = context.cluster.workload_of(pod)
    price = cost(pod, workload, context.now, model_elsewhere=context.model_elsewhere(pod))
    charged = usage_of(pod, context.book)
    return Candidate(_replaced(pod, context), usage, charged, price)


def _replaced(pod: Pod, context: EligibilityContext) -> Pod:
    """The pod with requests that its replacement does not exceed.

    The replacement requests what the template and a VerticalPodAutoscaler say, and the networks
    that its annotation names. A pod may request more than that, by a LimitRange or an older
    recommendation; then its own requests count.
    """
    workload, scheduling = context.cluster.workload_of(pod), pod.scheduling
    networks = networks_of(pod.annotations)
    requests = scheduling.requests
    if networks:
        requests = requests.raised_to(amounts_of_networks(networks))
    if workload is not None and workload.template_requests is not None:
        requests = requests.raised_to(workload.template_requests)
    if requests is scheduling.requests:
        return pod
    larger = replace(
        scheduling,
        requests=requests,
        scored_cpu_millicores=max(scheduling.scored_cpu_millicores, requests.cpu_millicores),
        scored_memory_bytes=max(scheduling.scored_memory_bytes, requests.memory_bytes),
    )
    return replace(pod, scheduling=larger)


def _select(
    nodes: Iterable[OverloadedNode],
    taints: SoftTaints,
    pressure: Pressure,
    context: EligibilityContext,
) -> tuple[Selection, UnderWay]:
    """Select the moves of the nodes that may be relieved now, and judge the chains under way.

    A node for which room was made comes first, before others take it.
    """
    policy = context.policy
    destinations, chains = _destinations(taints, pressure, context)
    quota = EvictionQuota(
        policy.limits,
        context.cluster,
        partial(replicas_to_spare, context=context),
        context.state,
        context.moved_within_hour,
        partial(surpluses, context=context),
    )
    openings: Openings | NoOpenings
    if policy.chains:
        judge = partial(_movable, context=context, pressure=pressure)
        may_make_room = rooms(pressure, policy.destination_selector)
        openings = Openings(judge, pressure.known, chains.chains, may_make_room)
    else:
        openings = NoOpenings(_why_no_chain(policy))
    made = {chain.source: chain.room_on for chain in chains.ready}
    relieved = [node for node in nodes if node.name not in pressure.waiting]
    relieved.sort(key=lambda node: node.name not in made)
    gangs = WholeMoves(context, pressure)
    return select_moves(relieved, destinations, quota, openings, made, gangs), chains


def _why_no_chain(policy: Policy) -> str:
    if policy.steering.mode is SteeringMode.OFF:
        return "none is sought where steering is Off, unless chainedMoves is true"
    return "chainedMoves is false"


def destinations_before(
    context: EligibilityContext, pressure: Pressure, *, may_steer: bool = True
) -> Destinations:
    """The destinations of a plan before its first move; at least one node must be known."""
    pressure = restrain(pressure, context.state, context.now)
    mode = context.policy.steering.mode if may_steer else SteeringMode.OFF
    return _destinations(SoftTaints.of(context, pressure, mode), pressure, context)[0]


def _destinations(
    taints: SoftTaints, pressure: Pressure, context: EligibilityContext
) -> tuple[Destinations, UnderWay]:
    """The destinations before the first move, and the chains under way, which hold room."""
    policy = context.policy
    free = room_left(context, pressure)
    chains = UnderWay((), ())
    if policy.chains:
        chains = under_way(context, pressure, free, partial(_replaced, context=context))
    destinations = Destinations(
        free,
        SchedulerView(context.cluster, policy.scheduler, free.index),
        policy.max_landing_risk,
        taints.steerable(free.arrays),
        _feedback(context, pressure),
    )
    return destinations, chains


def _feedback(context: EligibilityContext, pressure: Pressure) -> LandingFeedback:
    state = context.state
    pools = {name: loaded.verdict.pool for name, loaded in pressure.known.items()}
    by_pool = {pool: risk_surcharge(state, pool, context.now) for pool in set(pools.values())}
    surcharges = {name: by_pool[pool] for name, pool in pools.items() if by_pool[pool]}
    awaited = Counter(r.expected_node for r in state.in_flight)
    return LandingFeedback(surcharges, awaited, context.policy.limits.in_flight_destination)


def _workload(chosen: Chosen, context: EligibilityContext) -> str:
    return str(context.cluster.workload_of(chosen[1].candidate.pod))


def _spare(pod: Pod, context: EligibilityContext) -> int:
    """How many replicas the pod's workload can spare, by its budget if it has one."""
    budgets = context.cluster.budgets_of(pod)
    if budgets:
        return min(budget.disruptions_allowed for budget in budgets)
    return replicas_to_spare(pod, context) or 0


def _changed(
    refusals: Iterable[Refusal], evictions: Iterable[PlannedEviction], later: Iterable[Refusal]
) -> list[Refusal]:
    """The refusals with those of the selection, which replace earlier ones of pods of gangs."""
    found = {refusal.pod: refusal for each in (refusals, later) for refusal in each}
    moved = {eviction.pod for eviction in evictions}
    return [refusal for pod, refusal in found.items() if pod not in moved]


def _left_in_place(
    nodes: Iterable[OverloadedNode], selection: Selection, pressure: Pressure
) -> Iterable[Refusal]:
    """The refusals of candidates, and of gangs that could have moved whole, that do not move."""
    for node in nodes:
        waits = pressure.waiting.get(node.name)
        refusals = selection.by_node[node.name].refusals if waits is None else {}
        together = (c for gang in node.gangs for c in gang.members if c.pod.node == node.name)
        for candidate in (*node.candidates, *(() if waits else together)):
            finding = waits or refusals.get(candidate.pod.uid)
            if finding is not None:
                yield _refusal(candidate.pod, finding)


def _refusal(pod: Pod, finding: Finding[RefusalReason]) -> Refusal:
    return Refusal(pod.ref, pod.node, finding.reason, shortened(finding.detail))


def _plan(
    verdicts: tuple[NodeVerdict, ...],
    evictions: Sequence[PlannedEviction],
    refusals: Iterable[Refusal],
    taints: SoftTaints,
    hold: Finding[HoldReason] | None = None,
) -> Plan:
    return Plan(
        verdicts,
        tuple(evictions),
        tuple(sorted(refusals, key=lambda refusal: (refusal.node, refusal.pod))),
        hold.reason if hold else None,
        hold.detail if hold else "",
        () if hold else taints.planned(evictions),
        taints.removed(evictions, held=hold is not None),
    )
