"""What is free for a plan, once everything that is already on its way has taken its place."""

from datetime import datetime, timedelta

from desched.model.cluster import SchedulingClass
from desched.model.memory import Memory
from desched.model.plan import NodeClass
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
        if state.verdict.node_class is not NodeClass.OVERLOADED
        and policy.destination_selector.matches(state.node.labels)
    }
    any_state = next(iter(pressure.known.values()))
    ceilings = {source.resource: source.lines.ceiling_ratio for source in any_state.sources}
    room = Room(snapshot.cluster, destinations, ceilings)
    waiting = [p for p in snapshot.cluster.pods if not p.node and not p.finished and not p.deleting]
    waiting = [pod for pod in waiting if not pod.gated]
    for pod in sorted(waiting, key=lambda p: (-p.priority, p.created_at, p.ref)):
        node = expected_node(pod, room.schedulable(pod), room)
        if node is not None:
            charge = {resource: book.expected(pod, resource) for resource in ceilings}
            room.reserve(node, pod.scheduling.requests, charge)
    _reserve_replacements(room, snapshot, memory)
    return room


def _reserve_replacements(room: Room, snapshot: Snapshot, memory: Memory) -> None:
    """Keep the place of an evicted pod whose replacement has not even been created."""
    if not memory.evictions:
        return
    awaited = {record.workload_uid for record in memory.evictions}
    created: dict[str, list[datetime]] = {uid: [] for uid in awaited}
    by_class: dict[str, SchedulingClass] = {}
    for pod in snapshot.cluster.pods:
        workload = snapshot.cluster.workload_of(pod)
        if workload is not None and workload.uid in awaited:
            created[workload.uid].append(pod.created_at)
            by_class[workload.uid] = pod.scheduling
    for record in memory.evictions:
        # The API server's time stamps are whole seconds.
        earliest = record.evicted_at - timedelta(seconds=1)
        replaced = next((t for t in created[record.workload_uid] if t >= earliest), None)
        if replaced is not None:
            created[record.workload_uid].remove(replaced)
        elif record.workload_uid in by_class and record.expected_node in room.names:
            usage = {resource: record.usage(resource) for resource in Resource}
            room.reserve(record.expected_node, by_class[record.workload_uid].requests, usage)
