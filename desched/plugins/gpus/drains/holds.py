"""The nodes that are held for what they are drained for, or for reserves."""

from collections.abc import Iterator, Mapping, Sequence

from desched.model.plan import PlannedTaint
from desched.planning.eligibility.context import EligibilityContext
from desched.plugins.devices import whole_gpus
from desched.plugins.gpus.drains.drain import Drains
from desched.plugins.gpus.drains.reserves import free_nodes
from desched.plugins.gpus.drains.rules import GpuDrainRules


def held_nodes(context: EligibilityContext, rules: GpuDrainRules) -> Iterator[PlannedTaint]:
    """The soft taints that hold nodes of drains under way, and nodes of reserves that are free."""
    for drain in Drains.of(context.state.extras).under_way:
        for node in drain.nodes:
            yield PlannedTaint(node, drain.why_held(node))
    for reserve in rules.reserves:
        for node in free_nodes(reserve, context):
            yield PlannedTaint(node, f"it is free for the {reserve}")


def held_for_pods(context: EligibilityContext) -> Mapping[str, Sequence[str]]:
    """The nodes of drains under way by the uids of the pods that wait for their GPUs.

    Pods without whole GPUs wait for those of their gang that have some, and get no node.
    """
    drains = Drains.of(context.state.extras).under_way
    nodes = {pod.uid: drain.nodes for drain in drains for pod in drain.pods}
    waiting = (pod for pod in context.cluster.pods if pod.uid in nodes) if nodes else ()
    return {
        pod.uid: nodes[pod.uid] if whole_gpus(pod.scheduling.requests) else () for pod in waiting
    }
