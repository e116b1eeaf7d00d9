"""The cheapest cover, in numbers."""

import numpy as np
import pytest

from desched.planning.selection import set_cover
from desched.planning.selection.limits import Cap
from desched.planning.selection.set_cover import Covering

ONE_NEED = ((0,),)


def cheapest(
    shares: list[float], costs: list[float] | None = None, *caps: Cap
) -> tuple[int, ...] | None:
    table = np.array(shares, dtype=float)[:, None]
    prices = np.array(costs or [1.0] * len(shares))
    return Covering(table, prices, ONE_NEED, caps).cheapest()


def test_the_smallest_pod_that_is_enough_goes() -> None:
    assert cheapest([2.0, 1.1, 1.2, 0.9]) == (1,)


def test_of_equal_pods_the_first_goes() -> None:
    assert cheapest([1.5, 1.5, 1.5]) == (0,)


def test_a_dear_pod_goes_only_if_the_cheap_ones_together_cost_more() -> None:
    assert cheapest([1.0, 0.5, 0.5], [2.5, 1.0, 1.0]) == (1, 2)
    assert cheapest([1.0, 0.4, 0.4, 0.4], [2.5, 1.0, 1.0, 1.0]) == (0,)


def test_greedy_choice_is_not_the_last_word() -> None:
    # The best relief for its cost is 0.6, but then a second pod is needed anyway.
    assert cheapest([0.6, 0.5, 0.5], [1.0, 0.95, 0.95]) == (1, 2)


def test_what_cannot_be_covered_has_no_cover() -> None:
    assert cheapest([0.3, 0.3]) is None


def test_a_cap_is_kept_even_if_that_costs_more() -> None:
    assert cheapest([0.5, 0.5, 1.0], [1.0, 1.0, 3.0]) == (0, 1)
    assert cheapest([0.5, 0.5, 1.0], [1.0, 1.0, 3.0], Cap(1, (0, 1))) == (2,)
    assert cheapest([0.5, 0.5, 1.0], [1.0, 1.0, 3.0], Cap(1, (0, 1)), Cap(0, (2,))) is None


def test_all_resources_must_be_covered_each_in_any_of_its_windows() -> None:
    shares = np.array(
        [
            # memory 5 min, 15 min; CPU 5 min, 15 min
            [1.0, 0.2, 0.0, 0.0],
            [0.0, 0.0, 0.2, 1.0],
            [0.9, 0.9, 0.9, 0.9],
        ]
    )
    choices = ((0, 1), (2, 3))
    assert Covering(shares, np.array([1.0, 1.0, 1.0]), choices).cheapest() == (0, 1)
    shares[2] = [0.1, 1.0, 1.0, 0.1]
    assert Covering(shares, np.array([1.0, 1.0, 1.5]), choices).cheapest() == (2,)


def test_where_branches_are_too_many_pairs_are_still_exchanged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shares, costs = [0.6, 0.5, 0.5], [1.0, 0.95, 0.95]
    monkeypatch.setattr(set_cover, "MOST_BRANCHES", 0)
    assert cheapest(shares, costs) == (1, 2)
    monkeypatch.setattr(set_cover, "MOST_BRANCHES_OF_A_PAIR", 0)
    assert cheapest(shares, costs) != (1, 2)
