"""Which nodes kube-scheduler looks at in a large cluster, and which of them wins.

From 100 nodes on it filters in a fixed order, beginning where the search for the pod before ended,
until it has found enough feasible nodes, and scores only these. Where a search begins is not
known from outside, so the nodes that it finds are taken to be a random sample.

Source: k8s.io/kubernetes/pkg/scheduler/schedule_one.go (`numFeasibleNodesToFind`) at v1.36.
"""

from functools import lru_cache

import numpy as np

from desched.planning.arrays import Floats, Ints, Mask

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
    compared = np.where(feasible, totals, -1)
    below_best = compared.max() - compared  # small, so that counting replaces sorting
    sizes = np.bincount(below_best)
    population = int(np.count_nonzero(feasible))
    # The others come last, and are not drawn.
    better = np.minimum(np.concatenate(([0], np.cumsum(sizes))), population)
    unseen = _none_sampled(better, population, min(sample, population), len(totals))
    found: Floats = ((unseen[:-1] - unseen[1:]) / np.maximum(sizes, 1))[below_best]
    return found


def _none_sampled(counts: Ints, population: int, sample: int, most: int) -> Floats:
    """For each count of nodes the probability that a sample of the population has none of them.

    `most` is the largest population that there can be.
    """
    ways = _log_factorials(most)
    rest = population - counts
    others = rest - sample
    chosen_from_rest = ways[rest] - ways[np.maximum(others, 0)]
    chosen_from_all = ways[population] - ways[population - sample]
    none: Floats = np.where(others >= 0, np.exp(chosen_from_rest - chosen_from_all), 0.0)
    return none


@lru_cache(maxsize=8)
def _log_factorials(most: int) -> Floats:
    """Of 0, 1, … up to the highest number; not to be changed."""
    return np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, most + 1)))))
