"""Decides which nodes get, keep and lose desched's soft taint."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

import msgspec

from desched.model.cluster import ClusterState, Node
from desched.model.plan import (
    HoldReason,
    NodeClass,
    NodeReason,
    NodeVerdict,
    PlannedEviction,
    PlannedTaint,
    TaintRemoval,
)
from desched.model.state import State
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.inflow import Inflow
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.overload.classification import Pressure
from desched.planning.overload.node_load import LoadedNode
from desched.planning.placement.steering import Steerable
from desched.planning.plugins import held_nodes
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import Policy
from desched.policy.share import count_of

EXPIRED = "it has expired"

REMOVED_SHARE = 0.1
"""At most this share of tainted nodes loses the taint in one cycle: pods should not rush there."""


class SoftTaints(msgspec.Struct, frozen=True):
    """The soft taints of one cycle.

    `standing` taints do not depend on the moves of this cycle. Nodes in `due` lose their taint
    before the first eviction, unless the plan needs it. `kept` names the other nodes with desched's
    taint. At most `most` nodes may have it at a time; 0 if steering is off. Nodes in `awaiting` get
    no taint, because they await replacements. `inflow` is what new pods do.
    """

    policy: Policy
    standing: tuple[PlannedTaint, ...]
    due: tuple[TaintRemoval, ...]
    kept: frozenset[str]
    most: int
    awaiting: frozenset[str]
    inflow: Inflow

    @classmethod
    def of(
        cls, context: EligibilityContext, pressure: Pressure, mode: SteeringMode
    ) -> "SoftTaints":
        """The taints that overloaded nodes and evictions in flight need."""
        cluster, now = context.cluster, context.now
        inflow = Inflow.of(context, pressure, _most_steered(context, mode))
        taints = tuple(inflow.taints())
        due = _due(context, pressure.verdicts, mode, {taint.node for taint in taints})
        leaving = {removal.node for removal in due}
        # The due taints do not count: forecasts that relied on them would be wrong.
        kept = frozenset(n.name for n in cluster.nodes if _is_kept(n, now)) - leaving
        most = _most_nodes(context, mode, kept)
        awaiting = _awaiting(context.state)
        free = (taint for taint in taints if taint.node not in awaiting)
        wanted = [*_wanted(context, pressure, mode), *free]
        standing = _standing(context, wanted, kept, most)
        return cls(context.policy, standing, due, kept, most, awaiting, inflow)

    def steerable(self, arrays: NodeArrays) -> Steerable:
        """The nodes that a plan may keep replacements away from, as masks."""
        if not self.most:
            return Steerable(arrays.none(), arrays.none())
        first = {taint.node for taint in self.standing} | self.kept
        return Steerable(
            arrays.where(lambda node: node.name in first),
            arrays.where(
                lambda node: (
                    self.policy.looks_at(node.labels)
                    and not node.avoided_by_others
                    and node.name not in self.awaiting
                )
            ),
            self.most,
        )

    def planned(self, evictions: Iterable[PlannedEviction]) -> tuple[PlannedTaint, ...]:
        """The standing taints, then those that each eviction needs, in the order of evictions."""
        return (
            *self.standing,
            *(
                PlannedTaint(node, why_steered(node, eviction), eviction.pod)
                for eviction in evictions
                for node in eviction.steered
            ),
        )

    def removed(
        self, evictions: Sequence[PlannedEviction], hold: HoldReason | None = None
    ) -> tuple[TaintRemoval, ...]:
        """The nodes that lose the taint before the first eviction.

        While the cluster is in trouble, only taints that have expired are removed: many pods look
        for a node then, and those without the taint would get more of them.

        Taints that the first eviction needs stay. A taint that only a later eviction needs is
        removed and set again, because the forecasts of the earlier ones assume its absence.
        """
        if hold is HoldReason.CLUSTER_IN_TROUBLE:
            return tuple(removal for removal in self.due if removal.why == EXPIRED)
        held = (
            hold is not None or self.policy.limits.total == 0
        )  # nothing moves, whatever is planned
        planned = () if held else self.planned(evictions[:1])
        needed = {taint.node for taint in planned}
        return tuple(removal for removal in self.due if removal.node not in needed)


def why_steered(node: str, eviction: PlannedEviction) -> str:
    """Why the node needs the taint for this eviction."""
    held = eviction.undertaking.why_held(node) if eviction.undertaking is not None else ""
    return held or f"it must not receive the replacement of {eviction.pod}"


def _expired(cluster: ClusterState, now: datetime) -> tuple[TaintRemoval, ...]:
    """The nodes whose taint by desched has expired."""
    expired = (n for n in _ours(cluster) if not _is_kept(n, now))
    return tuple(TaintRemoval(node.name, EXPIRED) for node in expired)


def _most_nodes(context: EligibilityContext, mode: SteeringMode, kept: frozenset[str]) -> int:
    """The policy's limit, plus the taints of other installations on nodes outside its selector."""
    most = _most_steered(context, mode)
    if not most:
        return 0
    return most + sum(
        not context.policy.looks_at(node.labels) and node.name in kept
        for node in context.cluster.nodes
    )


def _most_steered(context: EligibilityContext, mode: SteeringMode) -> int:
    """The policy's limit for the nodes that it looks at."""
    policy = context.policy
    if mode is SteeringMode.OFF:
        return 0
    looked_at = sum(policy.looks_at(node.labels) for node in context.cluster.nodes)
    return count_of(policy.steering.most_nodes, looked_at) or 0


def _wanted(
    context: EligibilityContext, pressure: Pressure, mode: SteeringMode
) -> Iterable[PlannedTaint]:
    yield from _for_moves_under_way(context.state)
    yield from held_nodes(context)
    if mode is SteeringMode.ALWAYS:
        awaiting = _awaiting(context.state)
        loaded_nodes = pressure.known.values()
        yield from _for_overload(s for s in loaded_nodes if s.node.name not in awaiting)


def _standing(
    context: EligibilityContext, wanted: Iterable[PlannedTaint], kept: frozenset[str], most: int
) -> tuple[PlannedTaint, ...]:
    has_taint = set(kept)
    nodes, chosen = context.cluster.node_by_name, dict[str, PlannedTaint]()
    for taint in wanted:
        node = nodes.get(taint.node)
        if node is None or node.name in chosen or node.avoided_by_others or len(chosen) >= most:
            continue
        if node.name in has_taint or len(has_taint) < most:
            has_taint.add(node.name)
            chosen[node.name] = taint
    return tuple(chosen.values())


def _for_moves_under_way(state: State) -> Iterable[PlannedTaint]:
    for record in state.in_flight:
        for node in record.steered:
            yield PlannedTaint(node, f"the replacement of {record.pod} is under way", record.pod)


def _for_overload(loaded_nodes: Iterable[LoadedNode]) -> Iterable[PlannedTaint]:
    """Tainted nodes until they are below their stop lines, then overloaded nodes."""
    ranked = []
    for loaded in loaded_nodes:
        if loaded.verdict.reason is NodeReason.LOAD_NOT_SHOWN:
            continue  # nobody is kept off a node by a load that may be forged
        above = [p for p in loaded.verdict.pressures if p.lowest_ratio > p.stop_ratio]
        kept = loaded.node.steered_until is not None and bool(above)
        if kept or loaded.verdict.node_class is NodeClass.OVERLOADED:
            worst = max(p.lowest_ratio - p.target_ratio for p in above or loaded.overloaded)
            loads = ", ".join(
                f"{p.resource.value} {p.lowest_ratio:.1%}" for p in above or loaded.overloaded
            )
            ranked.append((not kept, -worst, loaded.node.name, f"its load is high: {loads}"))
    for _, _, node, loads in sorted(ranked):
        yield PlannedTaint(node, loads)


def _awaiting(state: State) -> frozenset[str]:
    """The nodes that await the replacements of evictions in flight; they get no taint."""
    pending = [record for record in state.in_flight if not record.landed_on]
    return frozenset(
        name for r in pending for name in (r.expected_node, *(c.node for c in r.landing))
    ).difference(name for r in pending for name in r.steered)


def _is_kept(node: Node, now: datetime) -> bool:
    """Whether the node has desched's own taint, not expired."""
    return node.avoided and node.steered_until is not None and node.steered_until > now


def _ours(cluster: ClusterState) -> list[Node]:
    """Nodes tainted by desched, earliest expiry first."""
    return sorted(
        (node for node in cluster.nodes if node.steered_until is not None),
        key=lambda node: (node.steered_until, node.name),
    )


def _due(
    context: EligibilityContext,
    verdicts: Iterable[NodeVerdict],
    mode: SteeringMode,
    needed: Collection[str],
) -> tuple[TaintRemoval, ...]:
    """The nodes that lose the taint in this cycle, unless its plan needs it.

    All at once if steering is off or their taint has expired; else only a few nodes in each cycle.
    A node outside the policy's selector may belong to another installation, so its taint only
    expires.
    """
    cluster, policy, now = context.cluster, context.policy, context.now
    expired = _expired(cluster, now)
    ours = _ours(cluster)
    kept = [node for node in ours if _is_kept(node, now) and policy.looks_at(node.labels)]
    if mode is SteeringMode.OFF:
        return (*expired, *(TaintRemoval(node.name, "steering is off") for node in kept))
    under_way = {name for record in context.state.in_flight for name in record.steered}
    under_way |= {taint.node for taint in held_nodes(context)} | set(needed)
    by_name = {verdict.node: verdict for verdict in verdicts} if kept else {}
    free = (node for node in kept if node.name not in under_way)
    whys = ((node.name, _no_longer_needed(mode, by_name.get(node.name))) for node in free)
    no_longer_needed = [TaintRemoval(name, reason) for name, reason in whys if reason]
    count = max(1, int(len(ours) * REMOVED_SHARE))
    return (*expired, *no_longer_needed[:count])


def _no_longer_needed(mode: SteeringMode, verdict: NodeVerdict | None) -> str:
    """Why the node does not need the taint any more, empty if its load is too high."""
    if mode is SteeringMode.WHEN_NEEDED:
        return "the moves that needed it have settled"
    pressures = verdict.pressures if verdict else ()
    if pressures and all(p.lowest_ratio <= p.stop_ratio for p in pressures):
        return "its load is below its stop lines"
    return ""
