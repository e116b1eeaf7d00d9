import numpy as np
import pytest

from desched.plugins.gpus.fragmentation import MOST_CLASSES, fragmentation, popular


def test_parts_of_gpus_that_are_too_small_are_fragmented() -> None:
    """One GPU is half idle, one is idle; a pod needs 0.6 of one."""
    found = fragmentation(
        np.array([[0.5, 1.0]]), np.array([[True]]), np.array([0.6]), np.array([1.0])
    )
    assert found.tolist() == [0.5]


def test_each_class_counts_by_its_share() -> None:
    residuals, needs = np.array([[0.5, 1.0]]), np.array([0.6, 0.4, 0.0, 1.0])
    hosts, shares = np.array([[True], [True], [True], [False]]), np.array([0.1, 0.2, 0.3, 0.4])
    found = fragmentation(residuals, hosts, needs, shares)
    assert found.tolist() == pytest.approx([0.1 * 0.5 + 0.2 * 0.0 + 0.7 * 1.5])


def test_without_classes_nothing_is_known_to_be_fragmented() -> None:
    nothing = np.zeros(0)
    found = fragmentation(np.array([[2.0]]), np.zeros((0, 1), dtype=bool), nothing, nothing)
    assert found.tolist() == [0.0]


def test_the_most_frequent_classes_cover_95_percent_and_sum_to_1() -> None:
    assert popular({"a": 90, "b": 4, "c": 1, "d": 5}) == {"a": 90 / 95, "d": 5 / 95}


def test_the_number_of_classes_is_limited() -> None:
    found = popular(dict.fromkeys(range(10 * MOST_CLASSES), 1))
    assert len(found) == MOST_CLASSES
    assert sum(found.values()) == pytest.approx(1.0)
