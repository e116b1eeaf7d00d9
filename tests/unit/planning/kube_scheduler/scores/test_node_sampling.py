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
    totals = np.array([[10, 40, 30, 20]])
    [chances] = best_of_sample(totals, np.ones((1, 4), dtype=bool), 2)
    assert chances == pytest.approx([0, 1 / 2, 1 / 3, 1 / 6])


def test_equals_share_what_one_of_them_gets():
    totals = np.array([[7, 7, 7, 5]])
    [chances] = best_of_sample(totals, np.ones((1, 4), dtype=bool), 1)
    assert chances == pytest.approx([1 / 4] * 4)


def test_nodes_that_are_not_feasible_are_never_sampled():
    totals = np.array([[9, 1, 2, 9], [9, 1, 2, 9]])
    feasible = np.array([[False, True, True, False], [False] * 4])
    found = best_of_sample(totals, feasible, 2)
    assert found == pytest.approx(np.array([[0, 0, 1, 0], [0, 0, 0, 0]]))


def test_probabilities_are_those_of_all_samples_counted_one_by_one():
    generator = np.random.default_rng(7)
    alternatives = generator.integers(0, 5, size=(3, 7))
    everywhere = generator.random((3, 7)) < [[0.5], [0.7], [0.9]]
    found = best_of_sample(alternatives, everywhere, 3)
    for totals, feasible, chances in zip(alternatives, everywhere, found, strict=True):
        assert chances == pytest.approx(counted_one_by_one(totals, feasible))


def counted_one_by_one(totals, feasible):
    destinations = np.flatnonzero(feasible).tolist()
    wins = np.zeros(7)
    for code in range(2 ** len(destinations)):
        sample = [destination for bit, destination in enumerate(destinations) if code >> bit & 1]
        if len(sample) == 3:
            best = [i for i in sample if totals[i] == totals[sample].max()]
            wins[best] += 1 / len(best)
    return wins / math.comb(len(destinations), 3)
