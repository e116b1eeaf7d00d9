"""Soft taints that keep replacements away from nodes on which they would do harm or crowd.

The scheduler avoids a node with such a taint as long as there is another place, whatever free room
its scores see there. docs/decisions/0005-steer-with-soft-taints.md explains who gets one.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from datetime import datetime

import msgspec
import numpy as np

from desched.model.cluster import ClusterState, Node
from desched.model.memory import Memory
from desched.model.plan import NodeClass, NodeVerdict, Plan, PlannedEviction, PlannedTaint
from desched.model.snapshot import Snapshot
from desched.planning.filters.columns import Mask, NodeColumns
from desched.planning.landing import Landing
from desched.planning.node_load import NodeLoadState
from desched.planning.pressure import Pressure
from desched.planning.scheduler_view import SchedulerView
from desched.planning.surroundings import Surroundings
from desched.policy.policy import Policy, Steering, count_of

REMOVED_SHARE = 0.1
"""So few nodes lose their taint in one cycle, so that pods do not crowd onto them at once."""

STEERED_MARGIN_RATIO = 0.02
"""So far below its target a node has to stay on which a replacement may land.

Near the target a node's load rises by more than that within minutes as often as `maxLandingRisk`
bears: docs/decisions/0009-steer-clear-of-the-target.md.
"""

NodeAndWhy = tuple[str, str]

Check = Callable[[Landing], bool]


class Steerable(msgspec.Struct, frozen=True):
    """Which nodes a plan may keep replacements away from.

    `steered` have the taint when acting begins, `eligible` may get it, and `most` may have it at a
    time. Where steering is off there are none.
    """

    steered: Mask
    eligible: Mask
    most: int = 0

    @property
    def is_on(self) -> bool:
        """Whether any node may have the taint."""
        return self.most > 0

    @property
    def margin_ratio(self) -> float:
        """How far below its target a landing has to leave a node, as there is a choice of nodes."""
        return STEERED_MARGIN_RATIO if self.is_on else 0.0


def most_nodes(cluster: ClusterState, policy: Policy) -> int:
    """How many nodes may have the taint at a time."""
    if policy.steering.mode is Steering.OFF:
        return 0
    looked_at = sum(policy.looks_at(node.labels) for node in cluster.nodes)
    return count_of(policy.steering.most_nodes, looked_at) or 0


def standing_taints(around: Surroundings, pressure: Pressure) -> tuple[PlannedTaint, ...]:
    """Taints that are needed whatever moves: for moves under way, and for overloaded nodes."""
    cluster, policy = around.cluster, around.policy
    most = most_nodes(cluster, policy)
    wanted = list(_for_moves_under_way(around.memory))
    if policy.steering.mode is Steering.ALWAYS:
        awaiting = _awaiting(around.memory)
        wanted += _for_overload(s for s in pressure.known.values() if s.node.name not in awaiting)
    has_taint = _that_stay(around, pressure)
    nodes, chosen = cluster.node_by_name, dict[str, PlannedTaint]()
    for taint in wanted:
        node = nodes.get(taint.node)
        if node is None or node.name in chosen or _is_of_others(node) or len(chosen) >= most:
            continue
        if node.name in has_taint or len(has_taint) < most:
            has_taint.add(node.name)
            chosen[node.name] = taint
    return tuple(chosen.values())


def steerable(
    columns: NodeColumns,
    around: Surroundings,
    pressure: Pressure,
    standing: Iterable[PlannedTaint],
) -> Steerable:
    """Which nodes a plan may keep replacements away from, in the order of the columns."""
    policy = around.policy
    most = most_nodes(around.cluster, policy)
    if not most:
        return Steerable(columns.none(), columns.none())
    first = {taint.node for taint in standing} | _that_stay(around, pressure)
    awaiting = _awaiting(around.memory)
    return Steerable(
        columns.where(lambda node: node.name in first),
        columns.where(
            lambda node: (
                policy.looks_at(node.labels)
                and not _is_of_others(node)
                and node.name not in awaiting
            )
        ),
        most,
    )


def steer(
    landing: Landing, view: SchedulerView, avoided: Mask, within: Steerable, is_bearable: Check
) -> SchedulerView | None:
    """The view in which the fewest further nodes have the taint that make the landing bearable.

    Those that the scheduler likes best are first: as long as one of them is left, it takes it. None
    if that is not possible.

    Args:
        landing: of a replacement, as the view has it.
        view: what earlier moves leave to the scheduler.
        avoided: nodes to keep it from, as `Landing.risk` takes them.
        within: the nodes that may have the taint.
        is_bearable: tells it of a landing.
    """
    open_nodes = within.eligible & landing.harmful(avoided) & landing.places & ~view.steered
    most = min(int(open_nodes.sum()), within.most - int(view.steered.sum()))
    candidates = np.flatnonzero(open_nodes)
    ranking = np.argsort(-landing.scores.mean(axis=0)[candidates], kind="stable")

    def with_first(count: int) -> SchedulerView:
        steered = view.steered.copy()
        steered[candidates[ranking[:count]]] = True
        return view.with_steered(steered)

    def is_enough(count: int) -> bool:
        return is_bearable(landing.seen_by(with_first(count)))

    if most <= 0 or not is_enough(most):
        return None
    enough = 1  # mostly few are, and each question is a forecast
    while enough < most and not is_enough(enough):
        enough *= 2
    counts = range(enough // 2 + 1, min(enough, most))
    return with_first(counts.start + bisect_left(counts, 1, key=is_enough))


def relied_on(
    landing: Landing, view: SchedulerView, avoided: Mask, is_bearable: Check
) -> tuple[str, ...]:
    """The nodes without whose taints it would not be bearable; arguments as of `steer`."""
    # Where the taints stand, no encounter is likely any more: all nodes that may see one count.
    anywhere = avoided if avoided.ndim == 1 else np.logical_or.reduce(avoided, axis=0)
    helpful = view.steered & landing.harmful(anywhere) & landing.places
    if landing.any_fit or not helpful.any():
        return ()
    if is_bearable(landing.seen_by(view.with_steered(view.steered & ~helpful))):
        return ()
    return tuple(landing.names[i] for i in np.flatnonzero(helpful))


def taints_for(evictions: Iterable[PlannedEviction]) -> tuple[PlannedTaint, ...]:
    """What has to be tainted before each of these evictions, in their order."""
    return tuple(
        PlannedTaint(
            node,
            f"the replacement of {eviction.pod} would do harm there, or crowd it",
            eviction.pod,
        )
        for eviction in evictions
        for node in eviction.steered
    )


def _for_moves_under_way(memory: Memory) -> Iterable[PlannedTaint]:
    for record in memory.in_flight:
        for node in record.steered:
            yield PlannedTaint(node, f"the replacement of {record.pod} is under way", record.pod)


def _for_overload(states: Iterable[NodeLoadState]) -> Iterable[PlannedTaint]:
    """Nodes that keep it until they are below their stop lines, then overloaded ones."""
    found = []
    for state in states:
        above = [p for p in state.verdict.pressures if p.lowest_ratio > p.stop_ratio]
        kept = state.node.steered_until is not None and bool(above)
        if kept or state.verdict.node_class is NodeClass.OVERLOADED:
            worst = max(p.lowest_ratio - p.trigger_ratio for p in above or state.hot)
            why = ", ".join(f"{p.resource.value} {p.lowest_ratio:.1%}" for p in above or state.hot)
            found.append((not kept, -worst, state.node.name, f"its load is high: {why}"))
    for _, _, node, why in sorted(found):
        yield PlannedTaint(node, why)


def _awaiting(memory: Memory) -> frozenset[str]:
    """Nodes on which replacements are expected that no node has yet: they are not kept away."""
    pending = [record for record in memory.in_flight if not record.landed_on]
    return frozenset(
        name for r in pending for name in (r.expected_node, *(c.node for c in r.landing))
    ).difference(name for r in pending for name in r.steered)


def _is_kept(node: Node, now: datetime) -> bool:
    """Whether it has desched's own taint, and for longer than until now."""
    return node.avoided and node.steered_until is not None and node.steered_until > now


def _is_of_others(node: Node) -> bool:
    """Whether somebody else has put the taint there: desched leaves it to them."""
    return node.avoided and node.steered_until is None


def taints_to_remove(
    snapshot: Snapshot, memory: Memory, policy: Policy, plan: Plan, now: datetime
) -> tuple[NodeAndWhy, ...]:
    """Nodes whose own taint of desched is to go, and why; to be carried out before the plan.

    At once where steering is off or the time of a taint is over; else a few nodes in a cycle.

    Args:
        snapshot: what was seen.
        memory: as of the snapshot, after what became of moves has been judged.
        policy: says whether and how nodes are steered.
        plan: of the same cycle; what it needs from the start stays. What only a later move needs
            goes until then, for the forecasts of the earlier ones count it as gone.
        now: the time of the decision.
    """
    later = {eviction.pod for eviction in plan.evictions[1:]}
    planned = {taint.node for taint in plan.taints if taint.until_landed_of not in later}
    due = _due(snapshot.cluster, memory, policy, plan.nodes, now)
    return tuple((name, why) for name, why in due if name not in planned)


def expired_taints(cluster: ClusterState, now: datetime) -> tuple[NodeAndWhy, ...]:
    """Nodes whose own taint of desched nobody has prolonged in time, and why it is to go."""
    expired = (n for n in _ours(cluster) if not _is_kept(n, now))
    return tuple((node.name, "its time is over") for node in expired)


def _ours(cluster: ClusterState) -> list[Node]:
    """Nodes with desched's own taint, those first whose time is over first."""
    return sorted(
        (node for node in cluster.nodes if node.steered_until is not None),
        key=lambda node: (node.steered_until, node.name),
    )


def _that_stay(around: Surroundings, pressure: Pressure) -> set[str]:
    """Nodes with desched's own taint, but for those that lose it before the plan is acted on.

    A plan that counted on the others would be wrong about where its replacements go.
    """
    verdicts = pressure.verdicts
    due = dict(_due(around.cluster, around.memory, around.policy, verdicts, around.now))
    return {n.name for n in around.cluster.nodes if _is_kept(n, around.now) and n.name not in due}


def _due(
    cluster: ClusterState,
    memory: Memory,
    policy: Policy,
    verdicts: Iterable[NodeVerdict],
    now: datetime,
) -> tuple[NodeAndWhy, ...]:
    """Nodes that lose the taint in this cycle, unless its plan needs them.

    What is not looked at may be the node of another installation: it keeps its taint for its time.
    """
    expired = expired_taints(cluster, now)
    ours = _ours(cluster)
    kept = [node for node in ours if _is_kept(node, now) and policy.looks_at(node.labels)]
    mode = policy.steering.mode
    if mode is Steering.OFF:
        return (*expired, *((node.name, "steering is off") for node in kept))
    under_way = {name for record in memory.in_flight for name in record.steered}
    by_name = {verdict.node: verdict for verdict in verdicts} if kept else {}
    free = (node for node in kept if node.name not in under_way)
    whys = ((node.name, _no_longer_needed(mode, by_name.get(node.name))) for node in free)
    no_longer_needed = [(name, why) for name, why in whys if why]
    count = max(1, int(len(ours) * REMOVED_SHARE))
    return (*expired, *no_longer_needed[:count])


def _no_longer_needed(mode: Steering, verdict: NodeVerdict | None) -> str:
    """Why no move needs the taint, empty if the node's load may."""
    if mode is Steering.WHEN_NEEDED:
        return "the moves that it was set for have settled"
    pressures = verdict.pressures if verdict else ()
    if pressures and all(p.lowest_ratio <= p.stop_ratio for p in pressures):
        return "its load is below its stop lines"
    return ""
