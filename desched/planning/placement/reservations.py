"""What is free for a plan, once everything that is already on its way has taken its place."""

import msgspec

from desched.model.cluster import ClusterState, Pod, PodRef
from desched.model.memory import Memory
from desched.model.resources import Resource
from desched.planning.clocks import SEEMS_EARLIER
from desched.planning.overload.classification import Pressure
from desched.planning.overload.pod_usage import UsageBook
from desched.planning.placement.landing_forecast import expected_node
from desched.planning.placement.room import Room
from desched.policy.policy import Policy


def room_left(
    cluster: ClusterState, policy: Policy, memory: Memory, pressure: Pressure, book: UsageBook
) -> Room:
    """Room on every node after pending pods and awaited replacements; needs one known node."""
    destinations = {
        name: state
        for name, state in pressure.known.items()
        if state.receives and policy.destination_selector.matches(state.node.labels)
    }
    watched = book.windows.keys()
    room = Room(cluster, destinations, watched)
    waiting = [p for p in cluster.pods if not p.node and not p.finished and not p.deleting]
    waiting = [pod for pod in waiting if not pod.gated]
    for pod in sorted(waiting, key=lambda p: (-p.priority, p.created_at, p.ref)):
        node = expected_node(pod, room.schedulable(pod), room)
        if node is None:
            room.await_room(pod)
        else:
            charge = {resource: book.expected(pod, resource) for resource in watched}
            room.reserve(node, pod, charge)
    _reserve_replacements(room, cluster, memory)
    return room


def _reserve_replacements(room: Room, cluster: ClusterState, memory: Memory) -> None:
    """Keep the place of an evicted pod whose replacement has not even been created."""
    awaited = [record for record in memory.in_flight if record.replacement is None]
    if not awaited:
        return
    claimed = {record.replacement.uid for record in memory.evictions if record.replacement}
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
        elif others and record.expected_node in room.columns.index:
            usage = {resource: record.usage(resource) for resource in Resource}
            room.reserve(record.expected_node, _alike(others[-1], record.pod), usage)


def _alike(sibling: Pod, evicted: PodRef) -> Pod:
    """What is awaited in the place of an evicted pod; volumes are a pod's own and stay unknown."""
    return msgspec.structs.replace(
        sibling, name=evicted.name, uid="", node="", volumes=(), deleting=False
    )
