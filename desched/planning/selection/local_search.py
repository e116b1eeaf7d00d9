"""Improves a choice by small changes, and keeps those that make it no worse (a local search).

Which moves the scheduler makes useful depends on the moves before them, so a better order of turns
cannot be computed, only tried. A change is another turn for a node that fell short of what it
would get alone, no prices for it, or a price on a pod that some node gave. Turns before the change
stay as they are, and only those after it are taken again. No node loses its relief to another one,
or nodes that take much to relieve would stay hot cycle after cycle.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from desched.planning.placement.destinations import Destinations
from desched.planning.selection.greedy import Choice, Demerit, demerit, dissuaded, relieve_node
from desched.planning.selection.limits import EvictionQuota
from desched.planning.selection.one_node import NodeSelection, OverloadedNode
from desched.planning.selection.prices import Market

DISSUADED, FREED = 0.2, 0.1
"""How many of the changes are of these kinds; the rest are other turns."""

MOST_CHANGES = 1_000
"""So many are thought of; those that were tried before are not tried again."""

MOST_IN_VAIN = 30
"""After so many changes in a row that made nothing better, no more are tried."""

SPREAD = 1.1673039782614187
"""The root of x⁵ = x + 1: multiples of its inverse powers fill a space of four numbers evenly.

Source: Roberts, "The unreasonable effectiveness of quasirandom sequences", 2018.
"""

_ROUNDING = 1e-6

_Turn = tuple[NodeSelection, Destinations, EvictionQuota]
_Change = tuple[int, list[OverloadedNode]]
"""The first turn that it changes, and the order with it."""


class _Line(msgspec.Struct, frozen=True):
    """Nodes in their order with the turns that they took."""

    order: tuple[OverloadedNode, ...] = ()
    turns: tuple[_Turn, ...] = ()

    def choice(self) -> Choice:
        """The same as a choice."""
        covers = {n.name: turn[0] for n, turn in zip(self.order, self.turns, strict=True)}
        return Choice(self.order, covers, self.turns[-1][1])


class _Search:
    """What the line of turns begins with, and how much work is left to do."""

    def __init__(
        self, destinations: Destinations, quota: EvictionQuota, market: Market, effort: int
    ) -> None:
        self._start = (destinations, quota)
        self._market = market
        self._end = destinations.steps + effort

    @property
    def is_over(self) -> bool:
        """Whether the work is done."""
        return self._start[0].steps >= self._end

    def followed(
        self, line: _Line, nodes: Sequence[OverloadedNode], limit: Demerit | None = None
    ) -> _Line | None:
        """The line with these nodes behind it; None once it is sure to be worse than the limit."""
        turns = list(line.turns)
        for i, node in enumerate(nodes):
            destinations, quota = turns[-1][1:] if turns else self._start
            turns.append(relieve_node(node, destinations, quota))
            if limit is not None and self._least(turns, nodes[i + 1 :], limit) > limit:
                return None
        return _Line((*line.order, *nodes), tuple(turns))

    def _least(
        self, turns: Sequence[_Turn], nodes: Iterable[OverloadedNode], limit: Demerit
    ) -> Demerit:
        """The least demerit that a line can have once these nodes have taken their turns, too."""
        overloaded, left, cost = demerit([cover for cover, *_ in turns])
        if overloaded >= limit[0]:  # all of them have to be relieved
            cost += sum(self._market.alone(node) or 0.0 for node in nodes)
        return overloaded, left, round(cost - _ROUNDING, 6)

    def short(self, line: _Line) -> list[int]:
        """The turns of nodes that fell short."""
        found = enumerate(zip(line.order, line.turns, strict=True))
        return [i for i, (node, turn) in found if self._market.fell_short(node, turn[0])]


def improved(
    start: Choice, destinations: Destinations, quota: EvictionQuota, market: Market, effort: int
) -> Choice:
    """A choice that is at least as good.

    Args:
        start: the choice to begin with.
        destinations: where pods may go; not changed.
        quota: what limits and budgets leave; not changed.
        market: knows which nodes fell short.
        effort: how many steps (`Destinations.steps`) may be made, give or take one round of turns.
    """
    search = _Search(destinations, quota, market, effort)
    is_short = any(market.fell_short(node, start.covers[node.name]) for node in start.order)
    line = search.followed(_Line(), start.order) if is_short and effort > 0 else None
    if line is None:
        return start
    best, originals = start, {node.name: node for node in start.order}
    tried: set[object] = set()
    in_vain = 0
    for number in range(1, MOST_CHANGES):
        short = search.short(line)
        if not short or search.is_over or in_vain > MOST_IN_VAIN:
            break
        first, order = _change(number, line, short, originals)
        if _key(order) in tried:
            continue
        tried.add(_key(order))
        kept = _Line(line.order[:first], line.turns[:first])
        other = search.followed(kept, order[first:], best.demerit)
        in_vain += 1
        if other is not None and _relieved(line) <= _relieved(other):
            line = other
            if other.choice().demerit < best.demerit:
                best, in_vain = other.choice(), 0
    return best


def _relieved(line: _Line) -> set[str]:
    return {n.name for n, turn in zip(line.order, line.turns, strict=True) if turn[0].relieved}


def _change(
    number: int, line: _Line, short: Sequence[int], originals: Mapping[str, OverloadedNode]
) -> _Change:
    """A change for a node that fell short, or for one that may be in its way.

    All kinds, nodes and turns have theirs in time, in an order that is the same in each plan.
    """
    kind, of_short, of_all, of_moves = (number * SPREAD**-power % 1 for power in (1, 2, 3, 4))
    order = list(line.order)
    position, other = short[int(of_short * len(short))], int(of_all * len(order))
    if kind < DISSUADED and (moves := line.turns[other][0].moves):
        unwanted = moves[int(of_moves * len(moves))].candidate.pod.uid
        order[other] = dissuaded(originals[order[other].name], [unwanted])
        return other, order
    if kind < DISSUADED + FREED and order[position].prices:
        order[position] = msgspec.structs.replace(order[position], prices={})
        return position, order
    order.insert(other, order.pop(position))
    return min(position, other), order


def _key(order: Sequence[OverloadedNode]) -> tuple[object, ...]:
    return tuple((node.name, tuple(sorted(node.prices.items()))) for node in order)
