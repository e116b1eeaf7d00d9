"""What drains for GPUs have to do with a node or a pod."""

from desched.decision import Decision
from desched.model.cluster import Pod
from desched.model.drains import Drain
from desched.model.gpus import ClusterGpus
from desched.model.plan import Unserved
from desched.model.state import EvictionRecord
from desched.planning.plugins import held_nodes


def measured_gpus(decision: Decision) -> ClusterGpus | None:
    """What is measured of GPUs; None in a cluster without any."""
    measured: ClusterGpus | None = decision.facts.get("gpus")
    return measured


def drains_of(decision: Decision) -> tuple[Drain, ...]:
    """The drains under way, and those that the plan begins."""
    under_way = tuple(drain for drain in decision.state.drains if drain.under_way)
    planned = {eviction.drain: None for eviction in decision.plan.evictions if eviction.drain}
    keys = {drain.key for drain in under_way}
    return (*under_way, *(drain for drain in planned if drain.key not in keys))


def held_beside_drains(node: str, decision: Decision) -> tuple[str, ...]:
    """For what the node is held although no drain holds it: for reserves that are free."""
    drained = {name for drain in decision.context.state.drains for name in drain.nodes}
    held = held_nodes(decision.context)
    return tuple(hold.why for hold in held if hold.node == node and node not in drained)


def eviction_of(pod: Pod, decision: Decision) -> EvictionRecord | None:
    """The eviction of the pod, or the one after which it replaces another; None without one."""
    records = decision.state.evictions
    return next((record for record in records if pod.ref in {record.pod, record.replacement}), None)


def unserved(pod: Pod, decision: Decision) -> Unserved | None:
    """Why no drain is under way for the pod; None if the policy allows none, or one is."""
    names = {f"pod {pod.ref}", *map(str, decision.context.gangs_of(pod))} if not pod.node else ()
    return next((demand for demand in decision.plan.unserved if demand.demand in names), None)
