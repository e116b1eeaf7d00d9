"""Which pods leave all the overloaded nodes: as few nodes left hot as possible, at the least cost.

Hottest node first; every cover starts from the places and the allowance that the covers before it
leave. Where nodes compete, the whole choice is made again with prices on what is short, and then
improved step by step; few nodes that compete for evictions are also chosen for jointly. The best
choice is kept. docs/selection.md explains it.
"""

from collections.abc import Sequence

from desched.model.plan import RefusalReason
from desched.planning.placement.destinations import Destinations
from desched.planning.selection.beam_search import propose
from desched.planning.selection.greedy import (
    Choice,
    better,
    dissuaded,
    lacks_evictions,
    relieve_nodes,
)
from desched.planning.selection.limits import EvictionQuota
from desched.planning.selection.local_search import improved
from desched.planning.selection.one_node import OverloadedNode
from desched.planning.selection.prices import Market

MOST_STEPS = 8_000
"""So many are made (`Destinations.steps`) to bound the time; one round is always made."""

FEWEST_ROUNDS = 4
"""If there is not time for so many, further ones would not find anything better."""

MOST_PRICED = 4
"""So many choices are made with prices."""

MOST_CANDIDATES_JOINTLY = 400
"""More are not chosen among jointly, which takes time by the square of the nodes."""

MOST_LEFT_HOT = 4
"""A proposal that leaves more nodes hot is not looked for."""


def choose_moves(
    nodes: Sequence[OverloadedNode], destinations: Destinations, quota: EvictionQuota
) -> Choice:
    """The moves of a plan; the same for the same nodes in the same order.

    Args:
        nodes: hottest first.
        destinations: where pods may go; not changed.
        quota: what limits and budgets leave; not changed.
    """
    market = Market(nodes, quota)
    best = _choose_by_turns(nodes, destinations, quota, market)
    if _may_gain_jointly(best, market):
        best = better(best, _choose_jointly(best, nodes, destinations, quota))
    return best


def _choose_by_turns(
    nodes: Sequence[OverloadedNode],
    destinations: Destinations,
    quota: EvictionQuota,
    market: Market,
) -> Choice:
    begin = destinations.steps
    end = begin + MOST_STEPS
    current = best = relieve_nodes(nodes, destinations, quota)
    if (destinations.steps - begin) * FEWEST_ROUNDS > MOST_STEPS or _nothing_moves(best):
        return best
    for _ in range(MOST_PRICED):
        order = market.next_order(current.covers) if destinations.steps < end else []
        if not order:
            break
        current = relieve_nodes(order, destinations, quota)
        best = better(best, current)
    return improved(best, destinations, quota, market, end - destinations.steps)


def _nothing_moves(choice: Choice) -> bool:
    """Whether no pod can move even while all places are free: then no other order moves any."""
    return not any(
        cover.moves
        or any(reason is RefusalReason.EXCESS_NOT_MOVABLE for reason, _ in cover.stay.values())
        for cover in choice.covers.values()
    )


def _may_gain_jointly(choice: Choice, market: Market) -> bool:
    """Whether nodes fell short for want of evictions; the cycle's last ones go hottest first."""
    if sum(len(node.candidates) for node in choice.order) > MOST_CANDIDATES_JOINTLY:
        return False
    covers = choice.covers
    if any(cover.exhausted for cover in covers.values()):
        return False
    return any(
        lacks_evictions(covers[node.name]) and market.fell_short(node, covers[node.name])
        for node in choice.order
    )


def _choose_jointly(
    best: Choice, nodes: Sequence[OverloadedNode], destinations: Destinations, quota: EvictionQuota
) -> Choice:
    """The choice that follows a proposal for all nodes as far as places allow, if there is one."""
    covers = propose(nodes, quota, min(best.demerit[0], MOST_LEFT_HOT))
    if covers is None:
        return best
    led = []
    for node in sorted(nodes, key=lambda node: not covers[node.name]):
        wanted = {candidate.pod.uid for candidate in covers[node.name]}
        uids = [candidate.pod.uid for candidate in node.candidates]
        led.append(dissuaded(node, [uid for uid in uids if uid not in wanted]))
    return relieve_nodes(led, destinations, quota)
