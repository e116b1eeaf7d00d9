"""Classifies nodes by load, and decides which overloaded nodes wait.

A source is judged by its lowest window, minus what has left since. A destination is judged by its
highest window, plus what has arrived. Both lead to fewer evictions.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from desched.model.cluster import Node
from desched.model.load import Unknown
from desched.model.plan import (
    Finding,
    HoldReason,
    NodeClass,
    NodeOutlook,
    NodeReason,
    NodeVerdict,
    RefusalReason,
    ResourcePressure,
)
from desched.model.resources import Resource
from desched.model.state import PauseScope, State
from desched.planning.overload.balance_scope import BalanceScope
from desched.planning.overload.measurement import DepartedLoad, measure
from desched.planning.overload.node_load import (
    LoadedNode,
    NodeLoad,
    SourceLoad,
    Thresholds,
    pool_thresholds,
)
from desched.planning.overload.outlook import Outlook, Pasts
from desched.planning.overload.pod_usage import UsageBook
from desched.planning.overload.saturation import in_saturated_pools, saturation, saturation_hold
from desched.planning.overload.scope import out_of_scope
from desched.planning.overload.unjudged import out_of_scope_verdict, unknown_verdict
from desched.policy.policy import NodePool, Policy

LEAST_RECURRING_MINUTES = 10.0
"""A node that was above its target for less of the last hour has no recurring overload."""

LEAST_SHOWN_MINUTES = 1.0
"""The report leaves out a forecast of less."""


class Pressure(msgspec.Struct, frozen=True, gc=False):
    """The class of every node; `known` has the nodes in scope with trusted load, by name.

    `waiting` has the sources that are not relieved now, with the reason for their pods. `outlook`
    is the forecast of the known nodes. `saturated` is why the cycle is held if it moves nothing:
    every overloaded node is in a pool that needs capacity.
    """

    known: Mapping[str, LoadedNode]
    verdicts: tuple[NodeVerdict, ...]
    waiting: Mapping[str, Finding[RefusalReason]]
    outlook: Outlook
    saturated: Finding[HoldReason] | None = None

    @property
    def sources(self) -> list[LoadedNode]:
        """The nodes that may be relieved, by name: overloaded now, or again and again."""
        return [loaded for loaded in self.known.values() if loaded.hot]

    def of_class(self, node_class: NodeClass) -> list[LoadedNode]:
        """The known nodes of a class, by name."""
        return [s for s in self.known.values() if s.verdict.node_class is node_class]

    def with_waits(self, wait_of: Mapping[str, "Wait | None"]) -> "Pressure":
        """Return a copy in which these overloaded nodes wait, for a new reason if there is one."""
        waits = {name: wait for name, wait in wait_of.items() if wait is not None}
        if not waits:
            return self
        waiting = {
            name: _waiting(loaded, waits[name]) if name in waits else loaded
            for name, loaded in self.known.items()
        }
        verdicts = (waiting[v.node].verdict if v.node in waits else v for v in self.verdicts)
        refused = {name: Finding(wait.refusal, wait.detail) for name, wait in waits.items()}
        return msgspec.structs.replace(
            self, known=waiting, verdicts=tuple(verdicts), waiting={**self.waiting, **refused}
        )


def classify(book: UsageBook, state: State) -> Pressure:
    """Classify every node by its load, without recent departures, and its pool's thresholds."""
    policy = book.policy
    departed_load = DepartedLoad(state, book)
    pools, left_out = _measured(book, departed_load)
    loaded_nodes = [loaded for pool in pools for loaded in _loaded_nodes(pool, policy)]
    saturated = saturation(loaded_nodes, policy.destination_selector, left_out)
    loaded_nodes = [in_saturated_pools(loaded, saturated) for loaded in loaded_nodes]
    loaded_nodes.sort(key=lambda loaded: loaded.node.name)
    outlook = Outlook(Pasts(book, state), loaded_nodes)
    loaded_nodes = [_with_outlook(loaded, outlook, policy) for loaded in loaded_nodes]
    verdicts = [*left_out, *(loaded.verdict for loaded in loaded_nodes)]
    pressure = Pressure(
        {loaded.node.name: loaded for loaded in loaded_nodes},
        tuple(sorted(verdicts, key=lambda verdict: verdict.node)),
        {},
        outlook,
        saturation_hold([loaded_node for loaded_node in loaded_nodes if loaded_node.overloaded]),
    )
    settling = departed_load.settling(policy.shortest_window_seconds)
    shown = {node.name: loads for pool in pools for node, loads in pool.nodes}
    return pressure.with_waits(
        {
            source.node.name: _not_shown(source, shown[source.node.name])
            or _wait(source, settling, book)
            for source in pressure.sources
        }
    )


def restrain(pressure: Pressure, state: State, now: datetime) -> Pressure:
    """Make nodes wait that are cooling down, and nodes of paused pools."""
    return pressure.with_waits({s.node.name: _restraint(s, state, now) for s in pressure.sources})


def _with_outlook(loaded: LoadedNode, outlook: Outlook, policy: Policy) -> LoadedNode:
    """The node with its forecast, if it is hot or may become so.

    It is a source without being overloaded now if it was above its target for a part of the last
    hour, and is expected to be again for longer than a move costs.
    """
    name = loaded.node.name
    overload = outlook.of(name)
    if not loaded.overloaded and overload < LEAST_SHOWN_MINUTES:
        return loaded
    seen = NodeOutlook(outlook.minutes_above_before(name), outlook.minutes_above(name), overload)
    verdict = msgspec.structs.replace(loaded.verdict, outlook=seen)
    again = (
        not loaded.overloaded
        and verdict.reason is not NodeReason.DEPARTED_LOAD  # the next windows do not show that
        and overload >= policy.eviction_price_minutes
        and seen.above_before >= LEAST_RECURRING_MINUTES
    )
    if not again:
        return msgspec.structs.replace(loaded, verdict=verdict)
    above = outlook.resources_above(name)
    pressures = tuple(
        msgspec.structs.replace(p, recurring=p.resource in above) for p in verdict.pressures
    )
    verdict = msgspec.structs.replace(
        verdict,
        pressures=pressures,
        reason=NodeReason.RECURRING_OVERLOAD,
        detail=f"it was {seen.in_words}",
    )
    return msgspec.structs.replace(loaded, verdict=verdict, receives=False)


class _Pool(msgspec.Struct, frozen=True):
    """The nodes in scope with trusted load that a pool selects, in one domain of the scope."""

    name: str
    pool: NodePool
    nodes: list[tuple[Node, tuple[NodeLoad, ...]]]


def _measured(
    book: UsageBook, departed_load: DepartedLoad
) -> tuple[Collection[_Pool], list[NodeVerdict]]:
    """Return the known nodes by pool, and the verdicts on nodes out of scope or unknown."""
    policy, scope = book.policy, BalanceScope(book.snapshot.cluster, book.policy)
    pools: dict[str, _Pool] = {}
    left_out: list[NodeVerdict] = []
    for node in book.snapshot.cluster.nodes:
        pool = policy.pool_of(node.labels)
        name = scope.pool(pool.name, node)
        excluded = out_of_scope(node, policy, book.now)
        if excluded is None and scope.domain(node) is None:
            excluded = Finding(NodeReason.WITHOUT_DOMAIN, policy.balance_scope)
        if excluded is not None:
            left_out.append(out_of_scope_verdict(node, excluded, name, book))
            continue
        loads = measure(node, pool.rules, book, departed_load)
        if isinstance(loads, Unknown):
            left_out.append(unknown_verdict(node, loads, name, book))
        else:
            pools.setdefault(name, _Pool(name, pool, [])).nodes.append((node, loads))
    return pools.values(), left_out


class Wait(msgspec.Struct, frozen=True):
    """The reason why an overloaded node is not relieved now, and its end if that is known."""

    node: NodeReason
    refusal: RefusalReason
    detail: str
    until: datetime | None = None


def _not_shown(loaded: LoadedNode, loads: Sequence[NodeLoad]) -> Wait | None:
    """Why the node waits if only its exporter reports the load: anybody may have written it."""
    hot = {pressure.resource for pressure in loaded.hot}
    for load in loads:
        if load.rule.resource not in hot or load.shown is None:
            continue
        reported, (shown, tolerance) = load.measured[0][1], load.shown
        if reported > shown + tolerance:
            detail = (
                f"{load.rule.resource} {reported:.1%} by its exporter, {shown:.1%} by its kubelet "
                f"and its pods; {100 * tolerance:g} points more are believed, at most "
                f"{shown + tolerance:.1%}"
            )
            return Wait(NodeReason.LOAD_NOT_SHOWN, RefusalReason.LOAD_NOT_SHOWN, detail)
    return None


def _wait(
    loaded: LoadedNode, settling: Mapping[str, datetime | None], book: UsageBook
) -> Wait | None:
    if loaded.node.name in settling:
        shortest_seconds = book.policy.shortest_window_seconds
        detail = f"lost a pod less than {shortest_seconds} s ago"
        until = settling[loaded.node.name]
        return Wait(NodeReason.SETTLING, RefusalReason.NODE_SETTLING, detail, until)
    outlook, price = loaded.verdict.outlook, book.policy.eviction_price_minutes
    if outlook is not None and outlook.overload < price:
        detail = f"it was {outlook.in_words}; a move must save {price:g}"
        return Wait(NodeReason.OVERLOAD_PASSES, RefusalReason.OVERLOAD_PASSES, detail)
    return None


def _restraint(loaded: LoadedNode, state: State, now: datetime) -> Wait | None:
    """Why the node waits because of the results of earlier moves, or because of a person."""
    pause = state.pausing(now, PauseScope.POOL, loaded.verdict.pool)
    if pause is not None:
        description = pause.describe()
        return Wait(NodeReason.POOL_PAUSED, RefusalReason.POOL_PAUSED, description, pause.until)
    for node in state.nodes:
        if node.node == loaded.node.name and node.is_cooling_down(now):
            until = node.cooling_down_until
            detail = f"moves have not relieved it; cooling down until {until:%Y-%m-%d %H:%M} UTC"
            return Wait(NodeReason.COOLING_DOWN, RefusalReason.NODE_COOLING_DOWN, detail, until)
    return None


def _waiting(loaded: LoadedNode, wait: Wait) -> LoadedNode:
    verdict = msgspec.structs.replace(
        loaded.verdict, reason=wait.node, detail=wait.detail, until=wait.until
    )
    return msgspec.structs.replace(loaded, verdict=verdict)


def _loaded_nodes(pool: _Pool, policy: Policy) -> list[LoadedNode]:
    thresholds = pool_thresholds(pool.pool, policy, [loads for _, loads in pool.nodes])
    return [_loaded_node(node, loads, thresholds, pool.name) for node, loads in pool.nodes]


def _loaded_node(
    node: Node, loads: Sequence[NodeLoad], thresholds: Mapping[Resource, Thresholds], pool: str
) -> LoadedNode:
    pressures = tuple(_pressure(load, thresholds[load.rule.resource]) for load in loads)
    known_as_destination = all(load.receives for load in loads)
    if any(p.overloaded for p in pressures):
        node_class = NodeClass.OVERLOADED
    elif all(p.highest_ratio <= p.low_ratio for p in pressures):
        node_class = NodeClass.UNDERLOADED
    else:
        node_class = NodeClass.BALANCED
    reason, departed = None, ""
    if node_class is not NodeClass.OVERLOADED:
        departed = ", ".join(_departed(loads, pressures))
        if departed:
            reason = NodeReason.DEPARTED_LOAD
        elif not known_as_destination:
            reason = NodeReason.DESTINATION_UNKNOWN
    return LoadedNode(
        node,
        tuple(SourceLoad(x.rule.resource, thresholds[x.rule.resource], x.bases) for x in loads),
        {load.rule.resource: load.highest for load in loads},
        NodeVerdict(node.name, node_class, pressures, reason, departed, pool),
        receives=known_as_destination and node_class is not NodeClass.OVERLOADED,
    )


def _departed(loads: Sequence[NodeLoad], pressures: Sequence[ResourcePressure]) -> Iterator[str]:
    """The resources above their target only by pods that ended, left or are leaving."""
    for load, pressure in zip(loads, pressures, strict=True):
        if load.lowest_uncorrected > pressure.target_ratio:
            levels = f"{load.lowest_uncorrected:.1%}, {load.lowest:.1%} without them"
            yield f"{pressure.resource} {levels}"


def _pressure(load: NodeLoad, thresholds: Thresholds) -> ResourcePressure:
    lowest = load.lowest
    return ResourcePressure(
        load.rule.resource,
        load.measured,
        lowest,
        load.highest,
        thresholds.low_ratio,
        thresholds.target_ratio,
        thresholds.stop_ratio,
        thresholds.ceiling_ratio,
        overloaded=lowest > thresholds.target_ratio,
        departed_ratio=load.departed,
    )
