"""Overloaded nodes take turns: each gets what the turns before it have left.

What a plan decides is the order of the turns, and prices that keep a node off some of its pods.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from desched.model.plan import RefusalReason
from desched.planning.placement.destinations import Destinations
from desched.planning.selection.limits import OF_QUOTA, EvictionQuota
from desched.planning.selection.one_node import Move, NodeSelection, OverloadedNode, select_for_node

MOVABLE_SHARE = 0.5
"""If the best moves clear less of a node's excess, the load is not the pods' to take away."""

DISSUASION = 10.0
"""More than a pod costs: a pod of this price goes only where the node has no other choice."""

Demerit = tuple[int, float, float]
"""Nodes left hot, the shares of excess left, the cost of all evictions."""


class Choice(msgspec.Struct, frozen=True):
    """The moves of a whole plan.

    `order` has the nodes in the order of acting, `covers` is keyed by their names, and
    `destinations` is what all the moves leave.
    """

    order: tuple[OverloadedNode, ...]
    covers: Mapping[str, NodeSelection]
    destinations: Destinations

    @property
    def moves(self) -> list[tuple[OverloadedNode, Move]]:
        """All moves with the nodes that they leave, in the order of acting."""
        return [(node, move) for node in self.order for move in self.covers[node.name].moves]

    @property
    def demerit(self) -> Demerit:
        """How bad it is."""
        return demerit(self.covers.values())


def demerit(covers: Collection[NodeSelection]) -> Demerit:
    """How bad these covers are together."""
    return (
        sum(not cover.relieved for cover in covers),
        round(sum(cover.left for cover in covers if not cover.relieved), 6),
        round(sum(cover.cost for cover in covers), 6),
    )


def better(best: Choice, other: Choice) -> Choice:
    """The other choice if it is better, else the first."""
    return other if other.demerit < best.demerit else best


def relieve_nodes(
    nodes: Iterable[OverloadedNode], destinations: Destinations, quota: EvictionQuota
) -> Choice:
    """The choice that comes of this order of turns."""
    nodes = tuple(nodes)
    covers: dict[str, NodeSelection] = {}
    for node in nodes:
        covers[node.name], destinations, quota = relieve_node(node, destinations, quota)
    return Choice(nodes, covers, destinations)


def relieve_node(
    node: OverloadedNode, destinations: Destinations, quota: EvictionQuota
) -> tuple[NodeSelection, Destinations, EvictionQuota]:
    """The node's cover, without moves where the best ones would hardly help or none is allowed.

    The places and the allowance are what it leaves to the nodes that follow.
    """
    if quota.exhausted:
        stay = dict.fromkeys(_uids(node), (quota.exhausted, ""))
        return (
            NodeSelection((), 1.0, relieved=False, stay=stay, exhausted=True),
            destinations,
            quota,
        )
    cover, trial = select_for_node(node, destinations, quota)
    if cover.left > MOVABLE_SHARE:
        best = cover
        if lacks_evictions(cover):
            best = select_for_node(node, destinations.without_limits(), None)[0]
        if best.left > MOVABLE_SHARE:
            return _stuck(node, best), destinations, quota
    return cover, trial.destinations, trial.quota or quota


def lacks_evictions(cover: NodeSelection) -> bool:
    """Whether limits or budgets kept pods of the node."""
    return any(reason in OF_QUOTA for reason, _ in cover.stay.values())


def dissuaded(node: OverloadedNode, pods: Iterable[str]) -> OverloadedNode:
    """The node with so high a price on these pods that it takes others if it can."""
    return msgspec.structs.replace(node, prices={**node.prices, **dict.fromkeys(pods, DISSUASION)})


def _stuck(node: OverloadedNode, best: NodeSelection) -> NodeSelection:
    """No moves, for the best ones would hardly help."""
    stuck = f"the best moves clear {1 - best.left:.0%} of its excess"
    moved = dict.fromkeys(_uids(node), (RefusalReason.EXCESS_NOT_MOVABLE, stuck))
    stay = {**moved, **best.stay}
    return NodeSelection((), 1.0, relieved=False, stay=stay, exhausted=False, stuck=stuck)


def _uids(node: OverloadedNode) -> list[str]:
    return [candidate.pod.uid for candidate in node.candidates]
