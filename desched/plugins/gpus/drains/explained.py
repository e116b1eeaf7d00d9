"""What drains for GPUs have to do with a node or a pod."""

from collections.abc import Iterator

from desched.decision import Decision
from desched.gangs.members import gangs_of
from desched.model.cluster import Pod
from desched.planning.plugins import held_nodes
from desched.plugins.gpus.drains.drain import (
    GPU_DEMAND,
    Drain,
    DrainPlan,
    Drains,
    drain_of,
    drains_of,
)
from desched.plugins.gpus.drains.wording import describe_drain, drained_for
from desched.wording.formatting import moment


def holds_of(node: str, decision: Decision) -> Iterator[str]:
    """For what the node is held: drains under way, those that the plan begins, and reserves."""
    now = decision.context.now
    for drain in _drains_of(decision):
        if node in drain.nodes and drain.moves:
            yield f"New pods are kept off it: {describe_drain(drain, now)}."
        elif node in drain.nodes:
            yield f"The plan drains it: {drained_for(drain)}."
    drained = {name for drain in drains_of(decision.context.state) for name in drain.nodes}
    for hold in held_nodes(decision.context):
        if hold.node == node and node not in drained:
            yield f"New pods are kept off it: {hold.why}."


def drains_of_pod(pod: Pod, decision: Decision) -> Iterator[str]:
    """What moves for the pod, and for what it moves or has moved."""
    now = decision.context.now
    yield from _moved_for(pod, decision)
    for drain in _drains_of(decision):
        if pod.ref in drain.pods and drain.moves:
            yield f"A drain for it is under way: {describe_drain(drain, now)}."
        elif pod.ref in drain.pods:
            yield f"The plan begins a drain for it: {drained_for(drain)}."
    if not pod.node:
        names = {f"pod {pod.ref}", *map(str, gangs_of(pod, decision.context))}
        for demand in DrainPlan.of(decision.plan.extras).unserved:
            if demand.demand in names:
                yield f"No drain is under way for it: {demand.why}."
                return


def _moved_for(pod: Pod, decision: Decision) -> Iterator[str]:
    """For which drain the pod leaves or has left, or which such pod it replaces."""
    for eviction in decision.plan.evictions:
        if eviction.pod == pod.ref and drain_of(eviction):
            yield f"It leaves because {eviction.reason}."
            return
    for record in decision.state.evictions:
        if pod.ref in {record.pod, record.replacement}:
            if record.purpose == GPU_DEMAND:
                at = moment(record.evicted_at, decision.context.now)
                is_it = record.pod == pod.ref
                what = "Its eviction" if is_it else f"It replaces {record.pod}, whose eviction"
                yield f"{what} from {record.node} was requested {at} for a drain (gpu_demand)."
            return


def _drains_of(decision: Decision) -> tuple[Drain, ...]:
    """The drains under way, and those that the plan begins."""
    under_way = Drains.of(decision.state.extras).under_way
    drains = (drain for move in decision.plan.evictions if (drain := drain_of(move)))
    planned = dict.fromkeys(drains)
    keys = {drain.key for drain in under_way}
    return (*under_way, *(drain for drain in planned if drain.key not in keys))
