"""What is free for a plan, once everything that is already on its way has taken its place."""

import msgspec

from desched.model.cluster import ClusterState, Pod, PodRef
from desched.model.resources import Resource
from desched.model.state import State
from desched.planning.clocks import SEEMS_EARLIER
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.overload.classification import Pressure
from desched.planning.placement.free_capacity import FreeCapacity
from desched.planning.placement.landing_forecast import expected_node


def room_left(context: EligibilityContext, pressure: Pressure) -> FreeCapacity:
    """Room on every node after pending pods and awaited replacements; needs one known node."""
    cluster, policy, book = context.cluster, context.policy, context.book
    destinations = {
        name: loaded
        for name, loaded in pressure.known.items()
        if loaded.receives and policy.destination_selector.matches(loaded.node.labels)
    }
    watched = book.windows.keys()
    free = FreeCapacity(cluster, destinations, watched)
    waiting = [p for p in cluster.pods if not p.node and not p.finished and not p.deleting]
    waiting = [pod for pod in waiting if not pod.gated]
    for pod in sorted(waiting, key=lambda p: (-p.priority, p.created_at, p.ref)):
        node = expected_node(pod, free.schedulable(pod), free)
        if node is None:
            free.await_room(pod)
        else:
            charge = {resource: book.expected(pod, resource) for resource in watched}
            free.reserve(node, pod, charge)
    _reserve_replacements(free, cluster, context.state)
    return free


def _reserve_replacements(free: FreeCapacity, cluster: ClusterState, state: State) -> None:
    """Keep the place of an evicted pod whose replacement has not even been created."""
    awaited = [record for record in state.in_flight if record.replacement is None]
    if not awaited:
        return
    claimed = {record.replacement.uid for record in state.evictions if record.replacement}
    siblings: dict[str, list[Pod]] = {record.workload_uid: [] for record in awaited}
    for pod in cluster.pods:
        workload = cluster.workload_of(pod)
        if workload is not None and workload.uid in siblings:
            siblings[workload.uid].append(pod)
    for record in awaited:
        others = siblings[record.workload_uid]
        earliest = record.evicted_at - SEEMS_EARLIER
        created = (p for p in others if p.created_at >= earliest and p.uid not in claimed)
        replacement = next(created, None)
        if replacement is not None:
            claimed.add(replacement.uid)
        elif others and record.expected_node in free.arrays.index:
            usage = {resource: record.usage(resource) for resource in Resource}
            free.reserve(record.expected_node, _alike(others[-1], record.pod), usage)


def _alike(sibling: Pod, evicted: PodRef) -> Pod:
    """What is awaited in the place of an evicted pod; volumes are a pod's own and stay unknown."""
    return msgspec.structs.replace(
        sibling, name=evicted.name, uid="", node="", volumes=(), deleting=False
    )
