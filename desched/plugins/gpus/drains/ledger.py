"""The drains under way: which have what they were for, and which cannot go on."""

from collections.abc import Mapping
from datetime import timedelta

from desched.model.cluster import Pod
from desched.model.state import PauseScope
from desched.planning.eligibility.context import EligibilityContext
from desched.plugins.devices import whole_gpus
from desched.plugins.gpus.drains.demands import DAY, is_named
from desched.plugins.gpus.drains.drain import Drain, DrainEnd, drains_of
from desched.plugins.gpus.drains.reserves import idle_gpus, lacking
from desched.plugins.gpus.drains.rules import GpuDrainRules

MOST_ENDED = 200
"""The most ended drains that are kept, so that the state stays small; those with moves first."""


def judged(context: EligibilityContext, rules: GpuDrainRules | None) -> tuple[Drain, ...]:
    """The drains of the state, those that are over with their end; old ones are removed.

    Without rules all of them are over.
    """
    now = context.now
    before = drains_of(context.state)
    if not before:
        return ()
    pods = {pod.uid: pod for pod in context.cluster.pods}
    drains = [_judged(each, pods, context, rules) if each.under_way else each for each in before]
    under_way = [drain for drain in drains if drain.under_way]
    ended = [drain for drain in drains if drain.ended_at and now - drain.began_at < DAY]
    if len(ended) > MOST_ENDED:
        ended.sort(key=lambda drain: drain.moves > 0)  # the moves of a day are counted
    return (*ended[-MOST_ENDED:], *under_way)


def _judged(
    drain: Drain,
    pods: Mapping[str, Pod],
    context: EligibilityContext,
    rules: GpuDrainRules | None,
) -> Drain:
    now, nodes = context.now, context.cluster.node_by_name
    if landed := _landed(drain, pods, context):
        return drain.ended(DrainEnd.LANDED, now, landed)
    reason = "the policy has no GpuFragmentation any more"
    if rules is None or (reason := _not_wanted(drain, pods, context, rules)):
        return drain.ended(DrainEnd.NOT_WANTED, now, reason)
    if reason := _not_needed(drain, pods, context, rules):
        return drain.ended(DrainEnd.NOT_NEEDED, now, reason)
    for name in drain.nodes:
        node = nodes.get(name)
        if node is None or not node.ready or node.unschedulable or node.deleting:
            reason = f"node {name} is {'gone' if node is None else 'not ready or cordoned'}"
            return drain.ended(DrainEnd.BROKEN, now, reason)
    if now >= drain.until:
        took = (drain.until - drain.began_at) // timedelta(minutes=1)
        return drain.ended(DrainEnd.TIME_OVER, now, f"{took} minutes were not enough")
    return drain


def _landed(drain: Drain, pods: Mapping[str, Pod], context: EligibilityContext) -> str:
    """What has landed on the nodes of the drain; empty if it is not all that it is for."""
    if drain.reserve:
        nodes = context.cluster.node_by_name
        idle = [idle_gpus(nodes[name], context.cluster) for name in drain.nodes if name in nodes]
        free = len(idle) == len(drain.nodes) and min(idle, default=0) >= drain.gpus
        return f"{drain.gpus} GPUs are free on {', '.join(drain.nodes)}" if free else ""
    own = [pods[ref.uid] for ref in drain.pods if ref.uid in pods]
    if len(own) == len(drain.pods) and all(pod.node for pod in own):
        used = sorted({pod.node for pod in own}.intersection(drain.nodes))
        return f"on {', '.join(used)}" if used else ""
    if not drain.workload_uid:
        return ""
    siblings = (
        pod
        for node in drain.nodes
        for pod in context.cluster.pods_by_node.get(node, ())
        if (workload := context.cluster.workload_of(pod)) and workload.uid == drain.workload_uid
    )
    for pod in siblings:  # each is as good as the one that the drain began for
        if whole_gpus(pod.scheduling.requests) >= drain.gpus and not pod.deleting:
            return f"{pod.ref} on {pod.node}"
    return ""


def _not_wanted(
    drain: Drain, pods: Mapping[str, Pod], context: EligibilityContext, rules: GpuDrainRules
) -> str:
    if drain.reserve and drain.reserve not in map(str, rules.reserves):
        return "the policy has no such reserve any more"
    own = [pods[ref.uid].priority for ref in drain.pods if ref.uid in pods]
    if own and not is_named(drain.namespace, min(own), rules):
        return "the policy does not name its pods any more"
    for pause in context.state.pauses:
        of_namespace = pause.scope is PauseScope.NAMESPACE and pause.subject == drain.namespace
        if of_namespace and pause.by and pause.lasts(context.now):
            return pause.describe()
    return ""


def _not_needed(
    drain: Drain, pods: Mapping[str, Pod], context: EligibilityContext, rules: GpuDrainRules
) -> str:
    """Why nothing waits for the room any more; empty if something does."""
    if drain.reserve:
        reserve = next(each for each in rules.reserves if str(each) == drain.reserve)
        return "" if lacking(reserve, context) else "other nodes are free for it"
    own = [pods[ref.uid] for ref in drain.pods if ref.uid in pods]
    waiting = [pod for pod in own if not (pod.node or pod.finished or pod.deleting)]
    if waiting:
        return ""
    elsewhere = sorted({pod.node for pod in own if pod.node})
    return f"it runs on {', '.join(elsewhere)}" if elsewhere else "its pods are gone"
