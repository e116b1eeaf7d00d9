"""Chains whose first pod was evicted in an earlier cycle: which of them go on, and for which nodes.

A chain holds its room until the second pod takes it. It breaks if the first move failed, if pending
pods or others took the room, or if it takes too long.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta

import msgspec

from desched.model.chain import Chain, ChainUnderWay
from desched.model.cluster import Pod
from desched.model.resources import Resource
from desched.model.state import SUCCESSES
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.overload.classification import Pressure
from desched.planning.placement.free_capacity import FreeCapacity

BROKEN_RESTS = timedelta(hours=1)
"""The time after a broken chain in which no other one begins for its source."""

Charged = Callable[[Pod], tuple[Pod, Mapping[Resource, float]]]
"""A pod as its replacement, and what a destination is charged for it."""


class UnderWay(msgspec.Struct, frozen=True):
    """The chains of earlier cycles that are not over; `ready` ones may make their second move."""

    chains: tuple[ChainUnderWay, ...]
    ready: tuple[Chain, ...]


def under_way(
    context: EligibilityContext, pressure: Pressure, free: FreeCapacity, charged: Charged
) -> UnderWay:
    """Judge the chains of earlier cycles; `free` loses the nodes where they hold room."""
    pods = {pod.uid: pod for pod in context.cluster.pods}
    chains, ready, held = [], [], []
    for each in context.state.chains:
        if each.broken_at is not None:
            if context.now < each.until:
                chains.append(each)
            continue
        second = pods.get(each.chain.second.uid)
        if second is None or _is_over(each.chain, second, context, pressure):
            continue
        pod, usage = charged(second)
        why = _why_broken(each, pod, usage, free, context)
        if why:
            until = context.now + BROKEN_RESTS
            chains.append(ChainUnderWay(each.chain, until, context.now, why))
            continue
        chains.append(each)
        if _first_landed(each.chain, context) and each.chain.source not in pressure.waiting:
            ready.append(each.chain)
        else:
            held.append(each.chain.room_on)
    for node in held:
        free.hold(node)
    return UnderWay(tuple(chains), tuple(ready))


def _is_over(chain: Chain, second: Pod, context: EligibilityContext, pressure: Pressure) -> bool:
    """Whether the first move did not begin, or the second one has or is not needed any more."""
    if second.node != chain.source or second.deleting:
        return True
    # Another pod of the source may have been the better choice for the room.
    records = context.state.evictions
    if any(r.node == chain.source and r.expected_node == chain.room_on for r in records):
        return True
    source = pressure.known.get(chain.source)
    if source is not None and not source.overloaded:
        return True
    first = next((p for p in context.cluster.pods if p.uid == chain.first.uid), None)
    return first is not None and not first.deleting


def _why_broken(
    each: ChainUnderWay,
    second: Pod,
    usage: Mapping[Resource, float],
    free: FreeCapacity,
    context: EligibilityContext,
) -> str:
    """Why the second move cannot come any more, empty if it can."""
    chain = each.chain
    record = next((r for r in context.state.evictions if r.pod == chain.first), None)
    if record is not None and record.result is not None and record.result not in SUCCESSES:
        return f"the result of {chain.first} is {record.result.value}"
    if context.now >= each.until:
        return "the second move did not come in time"
    if chain.room_on not in free.arrays.index:
        return f"node {chain.room_on} is gone"
    if not _first_landed(chain, context):
        return ""
    lacking, admitting = free.shortage(second, usage)
    position = free.arrays.index[chain.room_on]
    if lacking[:, position].any():
        return f"others took the room on {chain.room_on}"
    return "" if admitting[position] else f"{chain.room_on} does not take {chain.second} any more"


def _first_landed(chain: Chain, context: EligibilityContext) -> bool:
    """Whether the first pod is gone, and its replacement landed well."""
    record = next((r for r in context.state.evictions if r.pod == chain.first), None)
    return record is None or (record.result in SUCCESSES and record.left_at is not None)
