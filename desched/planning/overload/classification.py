"""Which nodes are overloaded, and which of them are to be relieved now.

A source is judged by the lowest of its windows, less what has left since; a destination by the
highest, plus what has come. Both lean to fewer evictions.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from desched.model.cluster import Node
from desched.model.load import Unknown
from desched.model.memory import Memory
from desched.model.plan import (
    HoldReason,
    NodeClass,
    NodeReason,
    NodeVerdict,
    RefusalReason,
    ResourcePressure,
)
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.planning.overload.departed_load import Departures
from desched.planning.overload.measurement import measure
from desched.planning.overload.node_load import Lines, NodeLoad, NodeLoadState, SourceLoad
from desched.planning.overload.pauses import parked_until, pool_pause
from desched.planning.overload.pod_usage import UsageBook
from desched.planning.overload.saturation import Saturated, saturation, saturation_hold
from desched.planning.overload.scope import out_of_scope
from desched.planning.overload.sustained import not_sustained
from desched.planning.overload.thresholds import pool_lines
from desched.policy.policy import NodePool, Policy


class Pressure(msgspec.Struct, frozen=True, gc=False):
    """Every node's class; `known` holds the states of the nodes in scope with trusted load.

    `resting` names nodes that lost a pod less than their shortest window ago; `waiting` has every
    overloaded node that is not relieved now, and the reason that its pods get. `hold` says that
    every overloaded node is in a pool that needs capacity, not moves.
    """

    known: Mapping[str, NodeLoadState]
    verdicts: tuple[NodeVerdict, ...]
    resting: frozenset[str]
    waiting: Mapping[str, tuple[RefusalReason, str]]
    hold: tuple[HoldReason, str] | None = None

    def of_class(self, node_class: NodeClass) -> list[NodeLoadState]:
        """The known nodes of a class, by name."""
        return [s for s in self.known.values() if s.verdict.node_class is node_class]


def classify(snapshot: Snapshot, policy: Policy, memory: Memory, book: UsageBook) -> Pressure:
    """Class every node by its load, beside the other nodes of its pool."""
    departures = Departures(memory, book)
    pools, left_out = _measured(snapshot.cluster.nodes, policy, book, departures)
    states = {s.node.name: s for pool in pools for s in _states(pool, policy)}
    hot = {n: s for n, s in states.items() if s.verdict.node_class is NodeClass.OVERLOADED}
    resting = departures.resting(policy.shortest_window_seconds)
    saturated = saturation(states.values(), policy.destination_selector)
    found = (
        (name, _restrained(state, memory, book.now) or _wait(state, resting, saturated, book))
        for name, state in hot.items()
    )
    waits = {name: wait for name, wait in found if wait is not None}
    states |= {name: _waiting(states[name], wait) for name, wait in waits.items()}
    verdicts = [*left_out, *(state.verdict for state in states.values())]
    return Pressure(
        {name: states[name] for name in sorted(states)},
        tuple(sorted(verdicts, key=lambda verdict: verdict.node)),
        resting,
        {name: (wait.refusal, wait.detail) for name, wait in waits.items()},
        saturation_hold(hot.values(), saturated),
    )


class _Pool(msgspec.Struct, frozen=True):
    """The nodes in scope with trusted load that a pool selects."""

    pool: NodePool
    nodes: list[tuple[Node, tuple[NodeLoad, ...]]]


def _measured(
    nodes: Iterable[Node], policy: Policy, book: UsageBook, departures: Departures
) -> tuple[Collection[_Pool], list[NodeVerdict]]:
    """The nodes by pool, and the verdicts on those that are out of scope or unknown."""
    pools: dict[str, _Pool] = {}
    left_out: list[NodeVerdict] = []
    for node in nodes:
        excluded = out_of_scope(node, policy, book.now)
        if excluded:
            left_out.append(NodeVerdict(node.name, NodeClass.OUT_OF_SCOPE, (), *excluded))
            continue
        pool = policy.pool_of(node.labels)
        loads = measure(node, pool.rules, book, departures)
        if isinstance(loads, Unknown):
            why = (loads.reason, loads.detail, pool.name)
            left_out.append(NodeVerdict(node.name, NodeClass.UNKNOWN, (), *why))
        else:
            pools.setdefault(pool.name, _Pool(pool, [])).nodes.append((node, loads))
    return pools.values(), left_out


class Wait(msgspec.Struct, frozen=True):
    """Why an overloaded node is not relieved now."""

    node: NodeReason
    refusal: RefusalReason
    detail: str


def _wait(
    state: NodeLoadState, resting: Collection[str], saturated: Saturated, book: UsageBook
) -> Wait | None:
    if state.node.name in resting:
        shortest_seconds = book.policy.shortest_window_seconds
        rests = f"lost a pod less than {shortest_seconds} s ago"
        return Wait(NodeReason.RESTING, RefusalReason.NODE_RESTS, rests)
    if lasted := not_sustained(state, book):
        return Wait(NodeReason.NOT_SUSTAINED_YET, RefusalReason.NOT_SUSTAINED_YET, lasted)
    for pressure in state.hot:
        if full := saturated.get((state.verdict.pool, pressure.resource)):
            return Wait(NodeReason.POOL_SATURATED, RefusalReason.POOL_SATURATED, full)
    return None


def _restrained(state: NodeLoadState, memory: Memory, now: datetime) -> Wait | None:
    """Why the node is left alone for a while because of what came of earlier moves."""
    pause = pool_pause(state.verdict.pool, memory, now)
    if pause is not None:
        return Wait(NodeReason.POOL_PAUSED, RefusalReason.POOL_PAUSED, pause.describe())
    until = parked_until(state.node.name, memory, now)
    if until is not None:
        detail = f"moves have not relieved it; left alone until {until:%Y-%m-%d %H:%M} UTC"
        return Wait(NodeReason.PARKED, RefusalReason.NODE_PARKED, detail)
    return None


def _waiting(state: NodeLoadState, wait: Wait) -> NodeLoadState:
    verdict = msgspec.structs.replace(state.verdict, reason=wait.node, detail=wait.detail)
    return msgspec.structs.replace(state, verdict=verdict)


def _states(each: _Pool, policy: Policy) -> list[NodeLoadState]:
    lines = pool_lines(each.pool, policy, [loads for _, loads in each.nodes])
    return [_state(node, loads, lines, each.pool.name) for node, loads in each.nodes]


def _state(
    node: Node, loads: Sequence[NodeLoad], lines: Mapping[Resource, Lines], pool: str
) -> NodeLoadState:
    pressures = tuple(_pressure(load, lines[load.rule.resource]) for load in loads)
    known_as_destination = all(load.receives for load in loads)
    if any(p.overloaded for p in pressures):
        node_class = NodeClass.OVERLOADED
    elif all(p.highest_ratio <= p.low_ratio for p in pressures):
        node_class = NodeClass.UNDERLOADED
    else:
        node_class = NodeClass.BALANCED
    if node_class is NodeClass.OVERLOADED or known_as_destination:
        reason = None
    else:
        reason = NodeReason.DESTINATION_UNKNOWN
    return NodeLoadState(
        node,
        tuple(SourceLoad(x.rule.resource, lines[x.rule.resource], x.bases) for x in loads),
        {load.rule.resource: load.highest for load in loads},
        NodeVerdict(node.name, node_class, pressures, reason, "", pool),
        receives=known_as_destination and node_class is not NodeClass.OVERLOADED,
    )


def _pressure(load: NodeLoad, lines: Lines) -> ResourcePressure:
    lowest = load.lowest
    return ResourcePressure(
        load.rule.resource,
        load.measured,
        lowest,
        load.highest,
        lines.low_ratio,
        lines.trigger_ratio,
        lines.stop_ratio,
        lines.ceiling_ratio,
        overloaded=lowest > lines.trigger_ratio,
    )
