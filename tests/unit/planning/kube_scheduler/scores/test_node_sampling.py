import math

import numpy as np
import pytest

from desched.planning.kube_scheduler.scores.node_sampling import best_of_sample, nodes_to_find


@pytest.mark.parametrize(
    ("nodes", "found"),
    [(3, 3), (99, 99), (100, 100), (200, 100), (1_000, 420), (5_000, 500), (20_000, 1_000)],
)
def test_the_scheduler_looks_at_so_many_feasible_nodes(nodes, found):
    assert nodes_to_find(nodes) == found


def test_the_best_wins_as_often_as_it_is_sampled():
    totals = np.array([10, 40, 30, 20])
    chances = best_of_sample(totals, np.ones(4, dtype=bool), 2)
    assert chances == pytest.approx([0, 1 / 2, 1 / 3, 1 / 6])


def test_equals_share_what_one_of_them_gets():
    totals = np.array([7, 7, 7, 5])
    chances = best_of_sample(totals, np.ones(4, dtype=bool), 1)
    assert chances == pytest.approx([1 / 4] * 4)


def test_nodes_that_are_not_feasible_are_never_sampled():
    feasible = np.array([False, True, True, False])
    assert best_of_sample(np.array([9, 1, 2, 9]), feasible, 2) == pytest.approx([0, 0, 1, 0])
    assert best_of_sample(np.array([9, 1]), np.zeros(2, dtype=bool), 2) == pytest.approx([0, 0])


def test_probabilities_are_those_of_all_samples_counted_one_by_one():
    generator = np.random.default_rng(7)
    totals = generator.integers(0, 5, size=7)
    feasible = np.array([True, True, False, True, True, True, True])
    chances = best_of_sample(totals, feasible, 3)
    destinations = np.flatnonzero(feasible).tolist()
    wins = np.zeros(7)
    for code in range(2 ** len(destinations)):
        sample = [destination for bit, destination in enumerate(destinations) if code >> bit & 1]
        if len(sample) == 3:
            best = [i for i in sample if totals[i] == totals[sample].max()]
            wins[best] += 1 / len(best)
    assert chances == pytest.approx(wins / math.comb(len(destinations), 3))
