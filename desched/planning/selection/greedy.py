"""Overloaded nodes take turns: each gets what the turns before it have left.

What a plan decides is the order of the turns, and prices that keep a node off some of its pods.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from desched.model.plan import RefusalReason
from desched.planning.placement.destinations import Places
from desched.planning.selection.limits import OF_ALLOWANCE, Allowance
from desched.planning.selection.one_node import Cover, HotNode, Move, choose_cover

MOVABLE_SHARE = 0.5
"""If the best moves clear less of a node's excess, the load is not the pods' to take away."""

DISSUASION = 10.0
"""More than a pod costs: a pod of this price goes only where the node has no other choice."""

Demerit = tuple[int, float, float]
"""Nodes left hot, the shares of excess left, the cost of all evictions."""


class Choice(msgspec.Struct, frozen=True):
    """The moves of a whole plan.

    `order` has the nodes in the order of acting, `covers` is keyed by their names, and `places` is
    what all the moves leave.
    """

    order: tuple[HotNode, ...]
    covers: Mapping[str, Cover]
    places: Places

    @property
    def moves(self) -> list[tuple[HotNode, Move]]:
        """All moves with the nodes that they leave, in the order of acting."""
        return [(node, move) for node in self.order for move in self.covers[node.name].moves]

    @property
    def demerit(self) -> Demerit:
        """How bad it is."""
        return demerit(self.covers.values())


def demerit(covers: Collection[Cover]) -> Demerit:
    """How bad these covers are together."""
    return (
        sum(not cover.relieved for cover in covers),
        round(sum(cover.left for cover in covers if not cover.relieved), 6),
        round(sum(cover.cost for cover in covers), 6),
    )


def better(best: Choice, other: Choice) -> Choice:
    """The other choice if it is better, else the first."""
    return other if other.demerit < best.demerit else best


def take_turns(nodes: Iterable[HotNode], places: Places, allowance: Allowance) -> Choice:
    """The choice that comes of this order of turns."""
    nodes = tuple(nodes)
    covers: dict[str, Cover] = {}
    for node in nodes:
        covers[node.name], places, allowance = take_turn(node, places, allowance)
    return Choice(nodes, covers, places)


def take_turn(
    node: HotNode, places: Places, allowance: Allowance
) -> tuple[Cover, Places, Allowance]:
    """The node's cover, without moves where the best ones would hardly help or none is allowed.

    The places and the allowance are what it leaves to the nodes that follow.
    """
    if allowance.exhausted:
        stay = dict.fromkeys(_uids(node), (allowance.exhausted, ""))
        return Cover((), 1.0, relieved=False, stay=stay, exhausted=True), places, allowance
    cover, trial = choose_cover(node, places, allowance)
    if cover.left > MOVABLE_SHARE:
        best = cover
        if lacks_evictions(cover):
            best = choose_cover(node, places.without_limits(), None)[0]
        if best.left > MOVABLE_SHARE:
            return _stuck(node, best), places, allowance
    return cover, trial.places, trial.allowance or allowance


def lacks_evictions(cover: Cover) -> bool:
    """Whether limits or budgets kept pods of the node."""
    return any(reason in OF_ALLOWANCE for reason, _ in cover.stay.values())


def dissuaded(node: HotNode, pods: Iterable[str]) -> HotNode:
    """The node with so high a price on these pods that it takes others if it can."""
    return msgspec.structs.replace(node, prices={**node.prices, **dict.fromkeys(pods, DISSUASION)})


def _stuck(node: HotNode, best: Cover) -> Cover:
    """No moves, for the best ones would hardly help."""
    stuck = f"the best moves clear {1 - best.left:.0%} of its excess"
    moved = dict.fromkeys(_uids(node), (RefusalReason.EXCESS_NOT_MOVABLE, stuck))
    stay = {**moved, **best.stay}
    return Cover((), 1.0, relieved=False, stay=stay, exhausted=False, stuck=stuck)


def _uids(node: HotNode) -> list[str]:
    return [candidate.pod.uid for candidate in node.candidates]
