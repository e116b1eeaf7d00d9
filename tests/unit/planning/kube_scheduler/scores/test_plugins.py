"""Numbers worked out by hand from the formulas of kube-scheduler's plugins."""

import math

import numpy as np
import pytest

from desched.planning.kube_scheduler.scores.plugins import (
    Capacity,
    SpreadTerm,
    balance,
    balanced_allocation,
    between_extremes,
    image_locality,
    least_allocated,
    most_allocated,
    share_of_most,
    topology_spread,
)

ALL = np.array([True, True, True])
MIB = 2**20


def ints(*values):
    return np.array(values, dtype=np.int64)


def test_free_shares_are_cut_to_integers_before_and_after_the_mean():
    requested = np.array([[334, 1001], [0, 0]])
    capacity = Capacity.of_nodes(np.array([[1000, 1000], [10, 10]]))
    # 66.6 -> 66, with 100: 83; more than there is: 0, with 100: 50.
    assert least_allocated(requested, capacity).tolist() == [83, 50]
    # 33.4 -> 33, with 0: 16; more than there is counts as all of it: 50.
    assert most_allocated(requested, capacity).tolist() == [16, 50]


def test_a_resource_that_a_node_does_not_have_does_not_count():
    no_memory = Capacity.of_nodes(np.array([[100], [0]]))
    assert least_allocated(np.array([[50], [7]]), no_memory).tolist() == [50]
    assert balance(np.array([[50], [7]]), no_memory).tolist() == [100]


def test_a_share_is_cut_exactly_however_large_the_node_is():
    percent = np.arange(1.0, 101.0)
    one_percent = 49 * 2**33  # 49 * (1 / 49) is not 1 in floating point
    capacity = Capacity.of_nodes(np.full((2, 100), 100 * one_percent))
    just_enough = np.stack([percent * one_percent] * 2)
    assert most_allocated(just_enough, capacity).tolist() == percent.tolist()
    assert most_allocated(just_enough - 1, capacity).tolist() == (percent - 1).tolist()


def test_balance_is_the_improvement_that_the_pod_brings():
    capacity = Capacity.of_nodes(np.full((2, 2), 100))
    before = balance(np.array([[0, 50], [0, 0]]), capacity)
    after = balance(np.array([[50, 50], [0, 50]]), capacity)
    # From 100 to 75, and from 75 to 100.
    new = balanced_allocation(before, after)
    assert new.tolist() == [50 + (50 - 25) // 2, 50 + (50 + 25) // 2]
    old = balanced_allocation(None, after)
    assert old.tolist() == [75, 100]


@pytest.mark.parametrize(
    ("counts", "fewest", "most"),
    [((0, 1, 3), [100, 67, 0], [0, 33, 100]), ((0, 0, 0), [100, 100, 100], [0, 0, 0])],
)
def test_counts_are_normalised_against_the_highest(counts, fewest, most):
    assert share_of_most(ints(*counts), ALL, reverse=True).tolist() == fewest
    assert share_of_most(ints(*counts), ALL, reverse=False).tolist() == most


def test_nodes_that_are_not_scored_do_not_shift_the_others():
    scored = np.array([True, True, False])
    assert share_of_most(ints(0, 2, 9), scored, reverse=True)[:2].tolist() == [100, 0]
    assert between_extremes(ints(0, 2, 9), scored)[:2].tolist() == [0, 100]


def test_affinity_lies_between_its_extremes_and_says_nothing_without_a_difference():
    assert between_extremes(ints(-50, 0, 25), ALL).tolist() == [0, 66, 100]
    assert between_extremes(ints(7, 7, 7), ALL).tolist() == [0, 0, 0]


def test_spread_weighs_counts_by_the_number_of_domains():
    term = SpreadTerm(ints(0, 1, 2), ALL, domains=3, max_skew=3)
    raw = [round(count * math.log(5) + 2) for count in (0, 1, 2)]
    expected = [100 * (raw[2] + raw[0] - value) // raw[2] for value in raw]
    assert topology_spread([term], ALL, ~ALL).tolist() == expected


def test_a_node_that_spread_ignores_gets_nothing_and_is_not_compared():
    term = SpreadTerm(ints(0, 0, 9), ALL, domains=2, max_skew=1)
    ignored = np.array([False, False, True])
    assert topology_spread([term], ALL, ignored).tolist() == [100, 100, 0]


def test_images_count_between_their_thresholds():
    sizes = ints(0, 23 * MIB, 2_000 * MIB)
    assert image_locality(sizes, 1).tolist() == [0, 0, 100]
    assert image_locality(ints(1_000 * MIB), 2).tolist() == [100 * 977 // 1977]
