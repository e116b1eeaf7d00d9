"""The plan as a value: evictions with their reasons and figures, and why all other pods stay."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from desched.model.cluster import DEFAULT_SCHEDULER
from desched.model.plan import (
    Finding,
    HoldReason,
    Plan,
    PlannedEviction,
    Refusal,
    RefusalReason,
    ResourcePressure,
    ResourceRelief,
    Unsteered,
)
from desched.model.resources import Resource
from desched.model.text import shortened
from desched.planning.overload.classification import Pressure
from desched.planning.overload.node_load import LoadedNode
from desched.planning.plugins import OtherMove, OtherMoves
from desched.planning.projection import with_projected_load
from desched.planning.selection.all_nodes import Selection
from desched.planning.selection.candidates import Sifted, refusal_of
from desched.planning.selection.excess import Excess
from desched.planning.selection.outcomes import JointMove
from desched.planning.selection.probes import Probing
from desched.planning.selection.trial import Move
from desched.planning.taints import SoftTaints


def plan_without_moves(
    hold: Finding[HoldReason] | None,
    sifted: Sifted,
    pressure: Pressure,
    taints: SoftTaints,
    others: OtherMoves,
) -> Plan:
    """The plan of a cycle that is held, or needs no eviction; `others` is what plugins say then."""
    if hold is None:
        return Plan(
            pressure.verdicts,
            taints=taints.planned(()),
            removed_taints=taints.removed(()),
            extras=others.extras,
        )
    held = Finding(RefusalReason.CYCLE_HELD, hold.reason.value)
    stay = [refusal_of(c.pod, held) for node in sifted.nodes for c in node.candidates]
    return Plan(
        pressure.verdicts,
        refusals=_by_node((*sifted.refusals, *stay)),
        hold=hold.reason,
        hold_detail=hold.detail,
        removed_taints=taints.removed((), hold.reason),
        extras=others.extras,
    )


class ChosenMoves(NamedTuple):
    """All moves of a cycle: those that relieve nodes, which of them pauses allow, and others."""

    selection: Selection
    probing: Probing
    others: OtherMoves


def plan_of(chosen: ChosenMoves, sifted: Sifted, pressure: Pressure, taints: SoftTaints) -> Plan:
    """The plan with these moves."""
    selection, probing, others = chosen
    moves = probing.moves
    further = [other.chosen for other in others.moves]
    evictions = [
        _eviction(move, source, probe=move.candidate.pod.uid in probing.probes)
        for source, move in moves
    ]
    for joint in selection.joint_moves:
        evictions = list(_noted(joint, evictions))
    evictions += [_other_eviction(other) for other in others.moves]
    hold = None if selection.moves or further else pressure.saturated
    return Plan(
        with_projected_load(pressure, [*moves, *further], selection),
        tuple(evictions),
        _by_node(_refusals(sifted, selection, probing, pressure, evictions)),
        hold.reason if hold else None,
        hold.detail if hold else "",
        () if hold else taints.planned(evictions),
        taints.removed(evictions, hold.reason if hold else None),
        selection.destinations.free.unreserved,
        extras=others.extras,
    )


def with_cost_of_no_steering(plan: Plan, steered: Plan) -> Plan:
    """The plan with the number of evictions that only the plan with soft taints has."""
    here = {eviction.pod for eviction in plan.evictions}
    nodes = [eviction.node for eviction in steered.evictions if eviction.pod not in here]
    unsteered = Unsteered(len(nodes), len(set(nodes))) if nodes else None
    return msgspec.structs.replace(plan, unsteered=unsteered)


def _by_node(refusals: Iterable[Refusal]) -> tuple[Refusal, ...]:
    return tuple(sorted(refusals, key=lambda refusal: (refusal.node, refusal.pod)))


def _refusals(
    sifted: Sifted,
    selection: Selection,
    probing: Probing,
    pressure: Pressure,
    evictions: Iterable[PlannedEviction],
) -> Iterator[Refusal]:
    """Why each pod stays; the selection may replace earlier reasons."""
    refusals_by_pod = {
        refusal.pod: _judged_again(refusal, selection) for refusal in sifted.refusals
    }
    refusals_by_pod |= {
        refusal.pod: refusal for refusal in _left_in_place(sifted, selection, pressure)
    }
    moved = {eviction.pod for eviction in evictions}
    yield from (refusal for pod, refusal in refusals_by_pod.items() if pod not in moved)
    yield from (refusal_of(pod, finding) for pod, finding in probing.waiting)


def _judged_again(refusal: Refusal, selection: Selection) -> Refusal:
    """The refusal with the reason of the selection, if it has one for the pod."""
    selected = selection.by_node.get(refusal.node)
    finding = selected.refusals.get(refusal.pod.uid) if selected else None
    if finding is None:
        return refusal
    return msgspec.structs.replace(refusal, reason=finding.reason, detail=shortened(finding.detail))


def _left_in_place(sifted: Sifted, selection: Selection, pressure: Pressure) -> Iterator[Refusal]:
    """The refusals of candidates that do not move."""
    for node in sifted.nodes:
        waits = pressure.waiting.get(node.name)
        refusals = selection.by_node[node.name].refusals if waits is None else {}
        for candidate in node.candidates:
            finding = waits or refusals.get(candidate.pod.uid)
            if finding is not None:
                yield refusal_of(candidate.pod, finding)


def _noted(joint: JointMove, evictions: Iterable[PlannedEviction]) -> Iterable[PlannedEviction]:
    """The evictions; those of the joint move have its note and what it says."""
    moved = {move.candidate.pod.ref for _, move in joint.moves}
    for eviction in evictions:
        if eviction.pod not in moved:
            yield eviction
            continue
        reason = "; ".join(filter(None, (eviction.reason, joint.note)))
        yield msgspec.structs.replace(eviction, reason=reason, **joint.says)


def _other_eviction(other: OtherMove) -> PlannedEviction:
    """A move that relieves no overloaded node."""
    source, move = other.chosen
    return msgspec.structs.replace(_eviction(move, source, probe=False), **other.says)


def _above(pressure: ResourcePressure) -> str:
    """How a resource is above its target, or was and will be."""
    now, target = f"{pressure.resource.value} {pressure.lowest_ratio:.1%}", pressure.target_ratio
    if pressure.overloaded:
        return f"{now} > {target:.1%}"
    return f"{now}, expected above {target:.1%} again"


def _eviction(move: Move, loaded: LoadedNode, *, probe: bool) -> PlannedEviction:
    """The move with its reasons and numbers, for the plan."""
    pod, workload, measured = move.candidate.pod, move.candidate.workload, move.candidate.measured
    landing = move.destination.landing
    reason = "; ".join(f"node {loaded.node.name} {_above(p)}" for p in loaded.hot)
    return PlannedEviction(
        pod=pod.ref,
        node=loaded.node.name,
        workload=str(workload) if workload else "",
        workload_uid=workload.uid if workload else "",
        priority=pod.priority,
        cpu_millicores=measured[Resource.CPU],
        memory_bytes=measured[Resource.MEMORY],
        relief=Excess(loaded).relief(move.candidate),
        landing=move.destination.likely,
        destinations=move.destination.count,
        reason=reason,
        landing_nodes=move.destination.possible,
        landing_risk=move.destination.risk,
        pool=loaded.verdict.pool,
        replicas=workload.desired_replicas if workload else 0,
        grace_period_seconds=pod.grace_period_seconds,
        probe=probe,
        cost=move.candidate.cost,
        steered=move.destination.steered,
        scheduler="" if pod.scheduler == DEFAULT_SCHEDULER else pod.scheduler,
        scheduler_profile=landing.scheduler.profile if landing.scheduler else "",
        scheduler_note=landing.scheduler.differing if landing.scheduler else landing.unclear,
        levelled_to=tuple(
            ResourceRelief(resource, ratio) for resource, ratio in move.destination.at_most.items()
        ),
        devices=measured[Resource.GPU],
        queue=move.candidate.queue,
        saved_minutes=move.saved_minutes,
        cost_minutes=move.destination.cost_minutes,
    )
