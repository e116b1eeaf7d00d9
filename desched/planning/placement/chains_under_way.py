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
    """Judge the chains of earlier cycles; `free` loses the nodes where they hold room.

    A chain whose time is over may make its second move now or never: cycles may be far apart.
    """
    if not context.state.chains:
        return UnderWay((), ())
    pods = {pod.uid: pod for pod in context.cluster.pods}
    chains = [each for each in context.state.chains if each.broken_at is not None]
    ready: list[Chain] = []
    held: list[Chain] = []
    for each in context.state.chains:
        if each.broken_at is not None or _is_over(each.chain, pods, context, pressure):
            continue
        is_ready = _is_ready(each.chain, context, pressure)
        why = _why_broken(each.chain, *charged(pods[each.chain.second.uid]), free, context)
        if context.now >= each.until and not is_ready:
            why = why or "the second move did not come in time"
        if why:
            rests_until = context.now + BROKEN_RESTS
            chains.append(ChainUnderWay(each.chain, rests_until, context.now, why))
            continue
        chains.append(each)
        (ready if is_ready else held).append(each.chain)
    for chain in held:
        free.hold(chain.room_on)
    lasting = tuple(each for each in chains if context.now < each.until)
    return UnderWay(lasting, tuple(ready))


def _is_over(
    chain: Chain, pods: Mapping[str, Pod], context: EligibilityContext, pressure: Pressure
) -> bool:
    """Whether the first move did not begin, or the second one has or is not needed any more."""
    first, second = pods.get(chain.first.uid), pods.get(chain.second.uid)
    if first is not None and not first.deleting:
        return True
    if second is None or second.node != chain.source or second.deleting:
        return True
    # Another pod of the source may have been the better choice for the room.
    records = context.state.evictions
    if any(r.node == chain.source and r.expected_node == chain.room_on for r in records):
        return True
    source = pressure.known.get(chain.source)
    return source is not None and not source.overloaded


def _why_broken(
    chain: Chain,
    second: Pod,
    usage: Mapping[Resource, float],
    free: FreeCapacity,
    context: EligibilityContext,
) -> str:
    """Why the second move cannot come any more, empty if it can."""
    record = next((r for r in context.state.evictions if r.pod == chain.first), None)
    if record is not None and record.result is not None and record.result not in SUCCESSES:
        return f"the result of {chain.first} is {record.result.value}"
    if chain.room_on not in free.arrays.index:
        return f"node {chain.room_on} is gone"
    if not _first_landed(chain, context):
        return ""
    lacking, admitting = free.shortage(second, usage)
    position = free.arrays.index[chain.room_on]
    if lacking[:, position].any():
        return f"others took the room on {chain.room_on}"
    return "" if admitting[position] else f"{chain.room_on} does not take {chain.second} any more"


def _is_ready(chain: Chain, context: EligibilityContext, pressure: Pressure) -> bool:
    """Whether the second move may be planned now."""
    return _first_landed(chain, context) and chain.source not in pressure.waiting


def _first_landed(chain: Chain, context: EligibilityContext) -> bool:
    """Whether the first pod is gone, and its replacement landed well."""
    record = next((r for r in context.state.evictions if r.pod == chain.first), None)
    return record is None or (record.result in SUCCESSES and record.left_at is not None)
