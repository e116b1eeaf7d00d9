"""Covers for all nodes at once: together the cheapest that limits and budgets allow.

Where many nodes compete for few evictions, it is an assignment problem: one cover for each node,
out of its cheapest ones. Nodes are gone through one after the other, and of the ways to choose so
far the most promising are kept (a beam search), by their cost and the least that the nodes to come
will cost with what a way leaves. Places are not looked at: what comes out is a proposal.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from desched.planning.selection.excess import Candidate
from desched.planning.selection.limits import EvictionQuota
from desched.planning.selection.one_node import OverloadedNode, cheap_covers
from desched.planning.selection.set_cover import Floats, Indexes

MOST_COVERS = 64
"""Covers of one node that are weighed against each other."""

MOST_WAYS = 256
"""Ways to choose that are followed, for each number of nodes left hot."""

PAIRS_FOR_A_WAY = 4
"""So many are looked at closely for each that is followed."""

OUT_OF_REACH = 1_000.0
"""More than any cover costs: what a node counts that none of its covers is left to."""


class _Options(msgspec.Struct, frozen=True):
    """What may leave one node.

    `uses` has a row for each cover, and a column for each count of a limit or budget.
    """

    node: str
    covers: tuple[tuple[Candidate, ...], ...]
    costs: Floats
    uses: Floats


class _Ways(msgspec.Struct, frozen=True):
    """Ways to choose, one in each row, most promising first.

    `costs` is so far, `promises` is with the least that the nodes to come will cost, `left` has
    what is left of each count. `chosen` has the number of each node's cover, -1 for none.
    """

    costs: Floats
    promises: Floats
    left: Floats
    chosen: Indexes


def propose(
    nodes: Sequence[OverloadedNode], quota: EvictionQuota, most_hot: int
) -> Mapping[str, tuple[Candidate, ...]] | None:
    """What should leave each node, by its name; nothing for a node that has to stay hot.

    Args:
        nodes: the nodes that compete.
        quota: what limits and budgets leave; not changed.
        most_hot: how many nodes may stay hot; None is returned if more would have to.
    """
    found = {node.name: cheap_covers(node, quota, MOST_COVERS) for node in nodes}
    left: dict[tuple[str, str], int] = {}
    for candidate in (c for covers in found.values() for _, cover in covers for c in cover):
        left |= quota.left(candidate.pod)
    options = [_options(name, covers, left, quota) for name, covers in found.items()]
    # Nodes with little choice first, for theirs is not taken away then.
    options.sort(key=lambda option: len(option.covers))
    whole = np.array(list(left.values()), dtype=float)[None]
    start = _Ways(np.zeros(1), np.zeros(1), whole, np.empty((1, 0), dtype=np.intp))
    levels: list[_Ways | None] = [start, *[None] * most_hot]
    for position, option in enumerate(options):
        to_come = options[position + 1 :]
        levels = [
            _one_more(level, below, option, to_come)
            for level, below in zip(levels, [None, *levels], strict=False)
        ]
    best = next((level.chosen[0] for level in levels if level is not None), None)
    if best is None:
        return None
    chosen = zip(options, best.tolist(), strict=True)
    return {o.node: o.covers[number] if number >= 0 else () for o, number in chosen}


def _options(
    name: str,
    found: Sequence[tuple[float, tuple[Candidate, ...]]],
    counts: Iterable[tuple[str, str]],
    quota: EvictionQuota,
) -> _Options:
    arrays = {key: column for column, key in enumerate(counts)}
    uses = np.zeros((len(found), len(arrays)))
    for row, (_, cover) in enumerate(found):
        for candidate in cover:
            for key in quota.left(candidate.pod):
                uses[row, arrays[key]] += 1
    return _Options(name, tuple(c for _, c in found), np.array([cost for cost, _ in found]), uses)


def _one_more(
    level: _Ways | None, below: _Ways | None, option: _Options, to_come: Sequence[_Options]
) -> _Ways | None:
    """The ways with one more node: relieved, or hot if it is none of the `below` yet."""
    longer = []
    if level is not None and option.covers:
        way, number = _most_promising_pairs(level, option)
        costs, left = level.costs[way], level.left[way] - option.uses[number]
        longer.append((costs + option.costs[number], left, level.chosen[way], number))
    if below is not None:
        longer.append((below.costs, below.left, below.chosen, np.full(len(below.costs), -1)))
    if not any(len(costs) for costs, *_ in longer):
        return None
    costs, left, chosen, number = (np.concatenate(part) for part in zip(*longer, strict=True))
    chosen = np.concatenate([chosen, number[:, None]], axis=1)
    promises = costs + sum((_least(left, o) for o in to_come), np.zeros(len(costs)))
    return _most_promising(_Ways(costs, promises, left, chosen), to_come)


def _most_promising_pairs(ways: _Ways, option: _Options) -> tuple[Indexes, Indexes]:
    """Ways and the covers that they can be continued with, before looking at what follows."""
    guesses = (ways.promises - _least(ways.left, option))[:, None] + option.costs
    guesses[(ways.left[:, None, :] < option.uses).any(axis=-1)] = np.inf
    order = np.argsort(guesses, axis=None, kind="stable")[: PAIRS_FOR_A_WAY * MOST_WAYS]
    way, number = np.unravel_index(order[np.isfinite(guesses.flat[order])], guesses.shape)
    return way, number


def _most_promising(ways: _Ways, to_come: Sequence[_Options]) -> _Ways:
    """The best ways; those that leave the same to the nodes to come are one."""
    wanted = np.zeros(ways.left.shape[1], dtype=bool)
    for option in to_come:
        wanted |= option.uses.any(axis=0)
    kept: dict[bytes, int] = {}
    for row in np.lexsort((ways.costs, ways.promises)).tolist():
        kept.setdefault(ways.left[row, wanted].tobytes(), row)
    rows = np.array(list(kept.values())[:MOST_WAYS], dtype=np.intp)
    return _Ways(ways.costs[rows], ways.promises[rows], ways.left[rows], ways.chosen[rows])


def _least(left: Floats, option: _Options) -> Floats:
    """The least cost of the node for each way, as far as counts that are used up tell."""
    blocked = (left <= 0).astype(float) @ option.uses.T > 0
    costs = np.where(blocked, OUT_OF_REACH, option.costs)
    least: Floats = costs.min(axis=1, initial=OUT_OF_REACH)
    return least
