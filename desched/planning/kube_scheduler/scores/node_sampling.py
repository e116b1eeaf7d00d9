"""kube-scheduler scores only a sample of the feasible nodes of a large cluster.

From 100 nodes on, it filters nodes in a fixed order until it has found enough feasible ones, and
scores only these. It starts where the search for the previous pod ended. This position is not
visible from outside, so the forecast treats the found nodes as a random sample.

Source: k8s.io/kubernetes/pkg/scheduler/schedule_one.go (`numFeasibleNodesToFind`) at v1.36.
"""

from functools import lru_cache

import numpy as np

from desched.planning.arrays import Floats, Ints, Mask

FEWEST_TO_FIND = 100

_NEGLIGIBLE = 1e-9


def nodes_to_find(nodes: int) -> int:
    """The number of feasible nodes that ends the search in a cluster of this size."""
    if nodes < FEWEST_TO_FIND:
        return nodes
    percentage = max(50 - nodes // 125, 5)
    return max(nodes * percentage // 100, FEWEST_TO_FIND)


def best_of_sample(totals: Ints, feasible: Mask, sample: int) -> Floats:
    """The probability of each node to have the highest total in a random sample.

    A group of nodes with equal totals wins if the sample has one of them and no better node. The
    nodes of a group share this probability. `totals`, `feasible` and the result have shape
    (alternatives, nodes); each row is judged by itself.
    """
    rows, nodes = totals.shape
    # Group g has the nodes that are g points below the best one. Points are small integers, so
    # counting replaces sorting.
    compared = np.where(feasible, totals, -1)
    below_best = compared.max(axis=1, keepdims=True) - compared
    groups = int(below_best.max()) + 1
    of_row = np.arange(rows)[:, None] * groups
    sizes = np.bincount((below_best + of_row).ravel(), minlength=rows * groups)
    sizes = sizes.reshape(rows, groups)
    # better[:, g] counts the nodes before group g. Nodes that are not feasible form the last group;
    # the minimum keeps them out of the population, so their probability is 0.
    better = np.zeros((rows, groups + 1), dtype=np.int64)
    np.cumsum(sizes, axis=1, out=better[:, 1:])
    populations = np.count_nonzero(feasible, axis=1)
    np.minimum(better, populations[:, None], out=better)
    unseen = np.empty(better.shape)
    for population in set(populations.tolist()):
        alike = populations == population
        chances = _chances_of_none(population, min(sample, population), nodes)
        unseen[alike] = chances[better[alike]]
    shares = (unseen[:, :-1] - unseen[:, 1:]) / np.maximum(sizes, 1)
    best: Floats = np.take_along_axis(shares, below_best, axis=1)
    return best


def shares_by_bounds(least: Floats, most: Floats, feasible: Mask, sample: int) -> Floats:
    """The probability of each node if only bounds of its score are known, shape (nodes,).

    The highest of the lowest scores in the sample decides: nodes that cannot reach it lose, and all
    that can are equally likely.
    """
    shares: Floats = np.zeros(len(feasible))
    population = int(np.count_nonzero(feasible))
    if not population:
        return shares
    lines, sizes = np.unique(least[feasible], return_counts=True)
    lines, sizes = lines[::-1], sizes[::-1]
    better = np.concatenate(([0], np.cumsum(sizes)))
    unseen = _none_sampled(better, population, min(sample, population), len(feasible))
    for line, chance in zip(lines, unseen[:-1] - unseen[1:], strict=True):
        if chance > _NEGLIGIBLE:
            able = feasible & (most >= line) & (least <= line)
            shares += chance * able / np.count_nonzero(able)
    chances: Floats = shares / shares.sum()
    return chances


def _none_sampled(counts: Ints, population: int, sample: int, most: int) -> Floats:
    """The probability that a sample has none of the first `count` nodes, for each count.

    This is C(population - count, sample) / C(population, sample), by logarithms of factorials.
    `most` is an upper bound of the population; one table serves all pods of a cluster.
    """
    log_factorials = _log_factorials(most)
    rest = population - counts
    unsampled = rest - sample
    from_rest = log_factorials[rest] - log_factorials[np.maximum(unsampled, 0)]
    from_all = log_factorials[population] - log_factorials[population - sample]
    none: Floats = np.where(unsampled >= 0, np.exp(from_rest - from_all), 0.0)
    return none


@lru_cache(maxsize=8)
def _chances_of_none(population: int, sample: int, most: int) -> Floats:
    """Return `_none_sampled` for each count up to the population. Cached: do not modify."""
    return _none_sampled(np.arange(population + 1), population, sample, most)


@lru_cache(maxsize=8)
def _log_factorials(most: int) -> Floats:
    """The logarithms of 0!, 1!, … up to `most`!. Cached: do not modify."""
    return np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, most + 1)))))
