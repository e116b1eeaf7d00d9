"""Which pods leave all the overloaded nodes: as few nodes left hot as possible, at the least cost.

Hottest node first; every cover starts from the places and the allowance that the covers before it
leave. Where nodes compete, the whole choice is made again with prices on what is short and with
other turns; few nodes that compete for evictions are also chosen for jointly. The best choice is
kept. docs/selection.md explains it.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from desched.model.plan import RefusalReason
from desched.planning.assignment import propose
from desched.planning.budgets import OF_ALLOWANCE, Allowance
from desched.planning.excess import Candidate
from desched.planning.market import Market
from desched.planning.places import Places
from desched.planning.selection import Cover, HotNode, Move, choose_cover

MOVABLE_SHARE = 0.5
"""If the best moves clear less of a node's excess, the load is not the pods' to take away."""

MOST_ORDERS = 24
MOST_CANDIDATES_AGAIN = 4_000
"""So many candidates are looked at again in other orders, so that the time stays bounded."""

MOST_CANDIDATES_JOINTLY = 400
"""More are not chosen among jointly, which takes time by the square of the nodes."""

MOST_LEFT_HOT = 4
"""A proposal that leaves more nodes hot is not looked for."""

DISSUASION = 10.0
"""The price of a pod that is not of the proposal: it goes only where the proposal fails."""


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
    def demerit(self) -> tuple[int, float, float]:
        """How bad it is: nodes left hot, the shares of excess left, the cost of all evictions."""
        covers = self.covers.values()
        return (
            sum(not cover.relieved for cover in covers),
            round(sum(cover.left for cover in covers if not cover.relieved), 6),
            round(sum(cover.cost for cover in covers), 6),
        )


def choose_moves(nodes: Sequence[HotNode], places: Places, allowance: Allowance) -> Choice:
    """The moves of a plan; the same for the same nodes in the same order.

    Args:
        nodes: hottest first.
        places: where pods may go; not changed.
        allowance: what limits and budgets leave; not changed.
    """
    market = Market(nodes, allowance)
    best = _choose_by_turns(nodes, places, allowance, market)
    if _may_gain_jointly(best, market):
        best = _better(best, _choose_jointly(best, nodes, places, allowance))
    return best


def _choose_by_turns(
    nodes: Sequence[HotNode], places: Places, allowance: Allowance, market: Market
) -> Choice:
    tries = _orders_to_try(nodes)
    current = best = _choose_in_order(nodes, places, allowance)
    for _ in range(tries // 2):
        order = market.next_order(current.covers)
        if not order:
            return best
        current = _choose_in_order(order, places, allowance)
        best = _better(best, current)
    # Then change the best order itself, one turn at a time.
    tried: set[tuple[str, ...]] = set()
    for _ in range(tries - tries // 2):
        orders = (_with_first_turn(best.order, n) for n in _short_of(best, market))
        order = next((o for o in orders if _names(o) not in tried), [])
        if not order:
            break
        tried.add(_names(order))
        best = _better(best, _choose_in_order(order, places, allowance))
    return best


def _may_gain_jointly(choice: Choice, market: Market) -> bool:
    """Whether nodes fell short for want of evictions; the cycle's last ones go hottest first."""
    if any(cover.exhausted for cover in choice.covers.values()):
        return False
    return any(_lacks_evictions(choice.covers[node.name]) for node in _short_of(choice, market))


def _choose_jointly(
    best: Choice, nodes: Sequence[HotNode], places: Places, allowance: Allowance
) -> Choice:
    """The choice that follows a proposal for all nodes as far as places allow, if there is one."""
    if sum(len(node.candidates) for node in nodes) > MOST_CANDIDATES_JOINTLY:
        return best
    covers = propose(nodes, allowance, min(best.demerit[0], MOST_LEFT_HOT))
    if covers is None:
        return best
    order = sorted(nodes, key=lambda node: not covers[node.name])
    return _choose_in_order((_led_to(node, covers[node.name]) for node in order), places, allowance)


def _led_to(node: HotNode, cover: Sequence[Candidate]) -> HotNode:
    """The node with prices by which this cover is the cheapest one."""
    wanted = {candidate.pod.uid for candidate in cover}
    prices = dict.fromkeys((uid for uid in _uids(node) if uid not in wanted), DISSUASION)
    return msgspec.structs.replace(node, prices=prices)


def _lacks_evictions(cover: Cover) -> bool:
    return any(reason in OF_ALLOWANCE for reason, _ in cover.stay.values())


def _better(best: Choice, other: Choice) -> Choice:
    return other if other.demerit < best.demerit else best


def _short_of(choice: Choice, market: Market) -> list[HotNode]:
    return [node for node in choice.order if market.fell_short(node, choice.covers[node.name])]


def _with_first_turn(order: Iterable[HotNode], first: HotNode) -> list[HotNode]:
    return [first, *(node for node in order if node is not first)]


def _names(order: Iterable[HotNode]) -> tuple[str, ...]:
    return tuple(node.name for node in order)


def _orders_to_try(nodes: Sequence[HotNode]) -> int:
    candidates = sum(len(node.candidates) for node in nodes)
    return min(MOST_ORDERS, MOST_CANDIDATES_AGAIN // max(1, candidates))


def _choose_in_order(nodes: Iterable[HotNode], places: Places, allowance: Allowance) -> Choice:
    nodes = tuple(nodes)
    covers: dict[str, Cover] = {}
    for node in nodes:
        covers[node.name], places, allowance = _relieve(node, places, allowance)
    return Choice(nodes, covers, places)


def _relieve(
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
        if _lacks_evictions(cover):
            best = choose_cover(node, places.without_limits(), None)[0]
        if best.left > MOVABLE_SHARE:
            return _stuck(node, best), places, allowance
    return cover, trial.places, trial.allowance or allowance


def _stuck(node: HotNode, best: Cover) -> Cover:
    """No moves, for the best ones would hardly help."""
    stuck = f"the best moves clear {1 - best.left:.0%} of its excess"
    moved = dict.fromkeys(_uids(node), (RefusalReason.EXCESS_NOT_MOVABLE, stuck))
    stay = {**moved, **best.stay}
    return Cover((), 1.0, relieved=False, stay=stay, exhausted=False, stuck=stuck)


def _uids(node: HotNode) -> list[str]:
    return [candidate.pod.uid for candidate in node.candidates]
