"""Which nodes get, keep and lose the soft taint of desched."""

from collections.abc import Iterable
from datetime import datetime

from desched.model.cluster import ClusterState, Node
from desched.model.plan import NodeClass, NodeVerdict, Plan, PlannedEviction, PlannedTaint
from desched.model.snapshot import Snapshot
from desched.model.state import State
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.overload.classification import Pressure
from desched.planning.overload.node_load import LoadedNode
from desched.planning.placement.steering import Steerable
from desched.policy.policy import Policy, Steering, count_of

REMOVED_SHARE = 0.1
"""So few nodes lose their taint in one cycle, so that pods do not crowd onto them at once."""


NodeAndWhy = tuple[str, str]


def most_nodes(cluster: ClusterState, policy: Policy) -> int:
    """How many nodes may have the taint at a time."""
    if policy.steering.mode is Steering.OFF:
        return 0
    looked_at = sum(policy.looks_at(node.labels) for node in cluster.nodes)
    return count_of(policy.steering.most_nodes, looked_at) or 0


def standing_taints(context: EligibilityContext, pressure: Pressure) -> tuple[PlannedTaint, ...]:
    """Taints that are needed whatever moves: for moves under way, and for overloaded nodes."""
    cluster, policy = context.cluster, context.policy
    most = most_nodes(cluster, policy)
    wanted = list(_for_moves_under_way(context.state))
    if policy.steering.mode is Steering.ALWAYS:
        awaiting = _awaiting(context.state)
        wanted += _for_overload(s for s in pressure.known.values() if s.node.name not in awaiting)
    has_taint = _that_stay(context, pressure)
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
    arrays: NodeArrays,
    context: EligibilityContext,
    pressure: Pressure,
    standing: Iterable[PlannedTaint],
) -> Steerable:
    """Which nodes a plan may keep replacements away from, in the order of the columns."""
    policy = context.policy
    most = most_nodes(context.cluster, policy)
    if not most:
        return Steerable(arrays.none(), arrays.none())
    first = {taint.node for taint in standing} | _that_stay(context, pressure)
    awaiting = _awaiting(context.state)
    return Steerable(
        arrays.where(lambda node: node.name in first),
        arrays.where(
            lambda node: (
                policy.looks_at(node.labels)
                and not _is_of_others(node)
                and node.name not in awaiting
            )
        ),
        most,
    )


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


def _for_moves_under_way(state: State) -> Iterable[PlannedTaint]:
    for record in state.in_flight:
        for node in record.steered:
            yield PlannedTaint(node, f"the replacement of {record.pod} is under way", record.pod)


def _for_overload(loaded_nodes: Iterable[LoadedNode]) -> Iterable[PlannedTaint]:
    """Nodes that keep it until they are below their stop lines, then overloaded ones."""
    found = []
    for loaded in loaded_nodes:
        above = [p for p in loaded.verdict.pressures if p.lowest_ratio > p.stop_ratio]
        kept = loaded.node.steered_until is not None and bool(above)
        if kept or loaded.verdict.node_class is NodeClass.OVERLOADED:
            worst = max(p.lowest_ratio - p.target_ratio for p in above or loaded.overloaded)
            why = ", ".join(
                f"{p.resource.value} {p.lowest_ratio:.1%}" for p in above or loaded.overloaded
            )
            found.append((not kept, -worst, loaded.node.name, f"its load is high: {why}"))
    for _, _, node, why in sorted(found):
        yield PlannedTaint(node, why)


def _awaiting(state: State) -> frozenset[str]:
    """Nodes on which replacements are expected that no node has yet: they are not kept away."""
    pending = [record for record in state.in_flight if not record.landed_on]
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
    snapshot: Snapshot, state: State, policy: Policy, plan: Plan, now: datetime
) -> tuple[NodeAndWhy, ...]:
    """Nodes whose own taint of desched is to go, and why; to be carried out before the plan.

    At once where steering is off or the time of a taint is over; else a few nodes in a cycle.

    Args:
        snapshot: what was seen.
        state: as of the snapshot, after what became of moves has been judged.
        policy: says whether and how nodes are steered.
        plan: of the same cycle; what it needs from the start stays. What only a later move needs
            goes until then, for the forecasts of the earlier ones count it as gone.
        now: the time of the decision.
    """
    later = {eviction.pod for eviction in plan.evictions[1:]}
    planned = {taint.node for taint in plan.taints if taint.until_landed_of not in later}
    due = _due(snapshot.cluster, state, policy, plan.nodes, now)
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


def _that_stay(context: EligibilityContext, pressure: Pressure) -> set[str]:
    """Nodes with desched's own taint, but for those that lose it before the plan is acted on.

    A plan that counted on the others would be wrong about where its replacements go.
    """
    verdicts = pressure.verdicts
    due = dict(_due(context.cluster, context.state, context.policy, verdicts, context.now))
    return {n.name for n in context.cluster.nodes if _is_kept(n, context.now) and n.name not in due}


def _due(
    cluster: ClusterState,
    state: State,
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
    under_way = {name for record in state.in_flight for name in record.steered}
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
