"""The free capacity for a plan, after reservations for pending pods and awaited replacements."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

import msgspec

from desched.model.cluster import ClusterState, Pod, PodRef
from desched.model.groups import grouped
from desched.model.plan import UnreservedReason
from desched.model.resources import Resource
from desched.model.state import State
from desched.planning.clocks import SEEMS_EARLIER
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.overload.classification import Pressure
from desched.planning.placement.free_capacity import FreeCapacity
from desched.planning.placement.landing_forecast import expected_node
from desched.planning.placement.room_shares import RoomShares
from desched.planning.plugins import held_for_pods


def room_left(context: EligibilityContext, pressure: Pressure) -> FreeCapacity:
    """The free capacity of every node; at least one node must be known."""
    cluster, policy, book = context.cluster, context.policy, context.book
    destinations = {
        name: loaded
        for name, loaded in pressure.known.items()
        if loaded.receives and policy.destination_selector.matches(loaded.node.labels)
    }
    watched = book.windows.keys()
    awaited = tuple(_awaited(cluster, context.state))
    free = FreeCapacity.of(context, destinations, watched, pressure.outlook)
    waiting = (p for p in cluster.pods if not (p.node or p.finished or p.deleting or p.gated))
    held = held_for_pods(context)
    shares = RoomShares(context, free.room, held)

    assumed = {pod.uid: pod.nominated_node for pod in cluster.assumed_pods}

    def order(pod: Pod) -> tuple[int, bool, datetime, PodRef]:
        return -pod.priority, pod.uid not in held, pod.created_at, pod.ref

    for pod in sorted(waiting, key=order):
        context.deadline.check(pod)
        usage = {resource: book.expected(pod, resource) for resource in watched}
        if node := _held_for(pod, held.get(pod.uid, ()), free):
            free.reserve(node, pod, usage)
        if node or not shares.accepts(pod):
            continue
        node = assumed.get(pod.uid)
        if node in free.arrays.index:  # where its requests count already
            free.load.add_pod(node, usage, pod)
        else:
            _reserve_where_expected(pod, usage, free, shares)
    free.unreserved = shares.refused
    for expected, pod, uses in awaited:
        if expected in free.arrays.index:
            free.reserve(expected, pod, uses)
    return free


def _held_for(pod: Pod, nodes: Iterable[str], free: FreeCapacity) -> str | None:
    """The first of the nodes that are held for the pod on which it fits now."""
    there = [node for node in nodes if node in free.arrays.index]
    fitting = free.schedulable(pod) if there else free.arrays.none()
    return next((node for node in there if fitting[free.arrays.index[node]]), None)


def _reserve_where_expected(
    pod: Pod, usage: Mapping[Resource, float], free: FreeCapacity, shares: RoomShares
) -> None:
    with free.arrays.comparisons.of(pod.namespace):
        node = expected_node(pod, free.schedulable(pod), free)
        if free.arrays.comparisons.share_is_used:
            shares.count_refusal(pod, UnreservedReason.PLANNING_SHARE)
            return
    if node is None:
        free.await_room(pod)
    else:
        free.reserve(node, pod, usage)


def _awaited(
    cluster: ClusterState, state: State
) -> Iterator[tuple[str, Pod, Mapping[Resource, float]]]:
    """The replacements that do not exist yet, each with its expected node and its usage."""
    awaited = [record for record in state.in_flight if record.replacement is None]
    if not awaited:
        return
    claimed = {record.replacement.uid for record in state.evictions if record.replacement}
    workloads = {record.workload_uid for record in awaited}
    siblings = grouped(
        (workload.uid, pod)
        for pod in cluster.pods
        if (workload := cluster.workload_of(pod)) and workload.uid in workloads
    )
    for record in awaited:
        others = siblings.get(record.workload_uid, [])
        earliest = record.evicted_at - SEEMS_EARLIER
        created = (p for p in others if p.created_at >= earliest and p.uid not in claimed)
        replacement = next(created, None)
        if replacement is not None:
            claimed.add(replacement.uid)
        elif others:
            usage = {resource: record.usage(resource) for resource in Resource}
            yield record.expected_node, _alike(others[-1], record.pod), usage


def _alike(sibling: Pod, evicted: PodRef) -> Pod:
    """The awaited replacement, like this sibling; its volumes are not known."""
    return msgspec.structs.replace(
        sibling, name=evicted.name, uid="", node="", volumes=(), deleting=False
    )
