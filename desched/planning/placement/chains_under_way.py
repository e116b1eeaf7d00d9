"""Chains whose first pod was evicted in an earlier cycle: which of them go on, and for which nodes.

A chain holds its room until the second pod takes it. It breaks if the first move failed, if pending
pods or others took the room, or if it takes too long.
"""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

import msgspec

from desched.model.chain import Chain, ChainUnderWay
from desched.model.cluster import Pod
from desched.model.state import SUCCESSES
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.overload.classification import Pressure
from desched.planning.placement.free_capacity import FreeCapacity
from desched.planning.placement.replacement import replacement_of

BROKEN_RESTS = timedelta(hours=1)
"""The time after a broken chain in which no other one begins for its source."""

TOO_LATE = "the second move did not come in time"


class UnderWay(msgspec.Struct, frozen=True):
    """The chains of earlier cycles that are not over; `ready` ones may make their second move."""

    now: datetime
    chains: tuple[ChainUnderWay, ...] = ()
    ready: tuple[Chain, ...] = ()

    def after(self, used: Collection[tuple[str, str]]) -> tuple[ChainUnderWay, ...]:
        """The chains after a plan with moves between these nodes.

        One whose time is over was ready: either the plan uses its room, or it is broken.
        """
        return tuple(
            each if self.now < each.until else _broken(each, TOO_LATE, self.now)
            for each in self.chains
            if self.now < each.until or (each.chain.source, each.chain.room_on) not in used
        )


def under_way(context: EligibilityContext, pressure: Pressure, free: FreeCapacity) -> UnderWay:
    """Judge the chains of earlier cycles; `free` loses the nodes where they hold room.

    A chain whose time is over may make its second move now or never: cycles may be far apart.
    """
    if not (context.policy.chains and context.state.chains):
        return UnderWay(context.now)
    pods = {pod.uid: pod for pod in context.cluster.pods}
    now = context.now
    chains = [c for c in context.state.chains if c.broken_at is not None and now < c.until]
    ready: list[Chain] = []
    held: list[Chain] = []
    for each in context.state.chains:
        if each.broken_at is not None or _is_over(each.chain, pods, context, pressure):
            continue
        is_ready = _is_ready(each.chain, context, pressure)
        second = _replacement(pods[each.chain.second.uid], context)
        why = _why_broken(each.chain, second, free, context)
        if now >= each.until and not is_ready:
            why = why or TOO_LATE
        if why:
            chains.append(_broken(each, why, now))
            continue
        chains.append(each)
        (ready if is_ready else held).append(each.chain)
    for chain in held:
        free.load.hold(chain.room_on)
    return UnderWay(now, tuple(chains), tuple(ready))


def _replacement(pod: Pod, context: EligibilityContext) -> Pod:
    return replacement_of(pod, context.cluster.workload_of(pod))


def _broken(each: ChainUnderWay, why: str, now: datetime) -> ChainUnderWay:
    return ChainUnderWay(each.chain, now + BROKEN_RESTS, now, why)


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
    free: FreeCapacity,
    context: EligibilityContext,
) -> str:
    """Why the second move cannot come any more, empty if it can.

    A node that is above its ceiling may soon take the pod.
    """
    record = next((r for r in context.state.evictions if r.pod == chain.first), None)
    if record is not None and record.result is not None and record.result not in SUCCESSES:
        return f"the result of {chain.first} is {record.result.value}"
    if chain.room_on not in free.arrays.index:
        return f"node {chain.room_on} is gone"
    if not _first_landed(chain, context):
        return ""
    return f"others took the room on {chain.room_on}" if free.lacks(chain.room_on, second) else ""


def _is_ready(chain: Chain, context: EligibilityContext, pressure: Pressure) -> bool:
    """Whether the second move may be planned now."""
    may_be_relieved = chain.source in pressure.known and chain.source not in pressure.waiting
    return may_be_relieved and _first_landed(chain, context)


def _first_landed(chain: Chain, context: EligibilityContext) -> bool:
    """Whether the first pod is gone, and its replacement landed well."""
    record = next((r for r in context.state.evictions if r.pod == chain.first), None)
    return record is None or (record.result in SUCCESSES and record.left_at is not None)
