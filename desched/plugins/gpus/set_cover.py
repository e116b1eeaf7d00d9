"""The cheapest set of pods that frees what is missing on a node, in numbers only."""

from functools import cache

import numpy as np

from desched.planning.arrays import Floats, Mask

MOST_EXACT = 12
"""Of so many pods every set is compared; few nodes have more that hold what is missing."""

LOAD_WEIGHT = 1e-4
"""Among sets of equal cost the one that frees less wins."""

_EPSILON = 1e-9


def cheapest_cover(shares: Floats, costs: Floats) -> tuple[int, ...] | None:
    """The positions of the pods that cover every need at the lowest cost, ascending.

    None if all of them together do not. Of many pods, it is one that is found fast.

    Args:
        shares: the share of each need that a pod covers, shape (pods, needs); 1.0 is all of it.
        costs: the cost of each eviction, shape (pods,).
    """
    if not len(costs) or not (shares.sum(axis=0) >= 1.0 - _EPSILON).all():
        return None
    weighted = costs + LOAD_WEIGHT * shares.mean(axis=1)
    if len(costs) > MOST_EXACT:
        return _greedy(shares, weighted)
    sets = _all_sets(len(costs))
    covers = (sets @ shares >= 1.0 - _EPSILON).all(axis=1)
    best = int(np.argmin(np.where(covers, np.round(sets @ weighted, 9), np.inf)))
    return tuple(np.flatnonzero(sets[best]).tolist())


@cache
def _all_sets(count: int) -> Mask:
    """Every set of so many pods, shape (sets, pods); of two, the one with earlier pods is first."""
    numbers = np.arange(2**count)[::-1, None]
    found: Mask = (numbers >> np.arange(count)[::-1]) & 1 == 1
    return found


def _greedy(shares: Floats, costs: Floats) -> tuple[int, ...]:
    """The pods with most of what is missing for their cost, without those that are not needed."""
    chosen: list[int] = []
    left = np.ones(shares.shape[1])
    while left.max() > _EPSILON:
        gain = left.sum() - np.maximum(0.0, left - shares).sum(axis=1)
        gain[chosen] = 0.0
        best = int(np.argmax(gain / costs))
        chosen.append(best)
        left = np.maximum(0.0, left - shares[best])
    for one in sorted(chosen, key=lambda i: (-costs[i], i)):
        others = [i for i in chosen if i != one]
        if (shares[others].sum(axis=0) >= 1.0 - _EPSILON).all():
            chosen = others
    return tuple(sorted(chosen))
