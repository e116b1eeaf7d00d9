"""Which nodes kube-scheduler looks at in a large cluster, and which of them wins.

From 100 nodes on it filters in a fixed order, beginning where the search for the pod before ended,
until it has found enough feasible nodes, and scores only these. Where a search begins is not
known from outside, so the nodes that it finds are taken to be a random sample.

Source: k8s.io/kubernetes/pkg/scheduler/schedule_one.go (`numFeasibleNodesToFind`) at v1.36.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from desched.planning.scores import Floats, Ints, Mask

FEWEST_TO_FIND = 100


def nodes_to_find(nodes: int) -> int:
    """How many feasible nodes end the search in a cluster of this size."""
    if nodes < FEWEST_TO_FIND:
        return nodes
    percentage = max(50 - nodes // 125, 5)
    return max(nodes * percentage // 100, FEWEST_TO_FIND)


def best_of_sample(totals: Ints, feasible: Mask, sample: int) -> Floats:
    """The probability of each node to have the highest total in a random sample of the feasible.

    Args:
        totals: one total for each node; ties are drawn.
        feasible: the nodes that the sample is drawn from.
        sample: how many of the feasible nodes are compared.
    """
    found: Floats = np.zeros(totals.shape[-1])
    where = np.flatnonzero(feasible)
    if not len(where):
        return found
    compared = totals[where]
    below_best = compared.max() - compared  # small, so that counting replaces sorting
    sizes = np.bincount(below_best)
    better = np.concatenate(([0], np.cumsum(sizes)))
    unseen = _none_sampled(len(where), sample)[better]
    found[where] = ((unseen[:-1] - unseen[1:]) / np.maximum(sizes, 1))[below_best]
    return found


@lru_cache(maxsize=64)
def _none_sampled(population: int, sample: int) -> NDArray[np.float64]:
    """For 0, 1, … nodes the probability that a sample has none of them; not to be changed."""
    left = np.arange(population, 0, -1, dtype=np.float64)
    factors = np.maximum(left - sample, 0.0) / left
    return np.concatenate(([1.0], np.cumprod(factors)))
