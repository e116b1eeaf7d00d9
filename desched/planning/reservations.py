"""What is free for a plan, once everything that is already on its way has taken its place."""

from datetime import datetime, timedelta

import msgspec

from desched.model.cluster import Pod, PodRef
from desched.model.memory import Memory
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.planning.feasibility import Room
from desched.planning.landing import expected_node
from desched.planning.pressure import Pressure
from desched.planning.usage import UsageBook
from desched.policy.policy import Policy


def room_left(
    snapshot: Snapshot, policy: Policy, memory: Memory, pressure: Pressure, book: UsageBook
) -> Room:
    """Room on every node after pending pods and awaited replacements; needs one known node."""
    destinations = {
        name: state
        for name, state in pressure.known.items()
        if state.receives and policy.destination_selector.matches(state.node.labels)
    }
    watched = book.windows.keys()
    room = Room(snapshot.cluster, destinations, watched)
    waiting = [p for p in snapshot.cluster.pods if not p.node and not p.finished and not p.deleting]
    waiting = [pod for pod in waiting if not pod.gated]
    for pod in sorted(waiting, key=lambda p: (-p.priority, p.created_at, p.ref)):
        node = expected_node(pod, room.schedulable(pod), room)
        if node is not None:
            charge = {resource: book.expected(pod, resource) for resource in watched}
            room.reserve(node, pod, charge)
    _reserve_replacements(room, snapshot, memory)
    return room


def _reserve_replacements(room: Room, snapshot: Snapshot, memory: Memory) -> None:
    """Keep the place of an evicted pod whose replacement has not even been created."""
    if not memory.evictions:
        return
    awaited = {record.workload_uid for record in memory.evictions}
    created: dict[str, list[datetime]] = {uid: [] for uid in awaited}
    sibling: dict[str, Pod] = {}
    for pod in snapshot.cluster.pods:
        workload = snapshot.cluster.workload_of(pod)
        if workload is not None and workload.uid in awaited:
            created[workload.uid].append(pod.created_at)
            sibling[workload.uid] = pod
    for record in memory.evictions:
        # The API server's time stamps are whole seconds.
        earliest = record.evicted_at - timedelta(seconds=1)
        replaced = next((t for t in created[record.workload_uid] if t >= earliest), None)
        if replaced is not None:
            created[record.workload_uid].remove(replaced)
        elif record.workload_uid in sibling and record.expected_node in room.columns.index:
            usage = {resource: record.usage(resource) for resource in Resource}
            awaited_pod = _alike(sibling[record.workload_uid], record.pod)
            room.reserve(record.expected_node, awaited_pod, usage)


def _alike(sibling: Pod, evicted: PodRef) -> Pod:
    """What is awaited in the place of an evicted pod; volumes are a pod's own and stay unknown."""
    return msgspec.structs.replace(
        sibling, name=evicted.name, uid="", node="", volumes=(), deleting=False
    )
