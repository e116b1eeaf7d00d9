"""The cheapest set of pods that a drain must move."""

import random
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from desched.planning.arrays import Floats
from desched.plugins.gpus.set_cover import LOAD_WEIGHT, MOST_EXACT, cheapest_cover


def found(shares: list[list[float]], costs: list[float]) -> tuple[int, ...] | None:
    return cheapest_cover(np.array(shares, dtype=float), np.array(costs, dtype=float))


@pytest.mark.parametrize(
    ("shares", "costs", "expected"),
    [
        ([[1.0], [0.5], [0.5]], [1, 1, 1], (0,)),
        ([[1.0], [0.5], [0.5]], [3, 1, 1], (1, 2)),
        ([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1, 1, 1.5], (2,)),  # every need counts
        ([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1, 1, 2.5], (0, 1)),
        ([[2.0], [1.0], [1.5]], [1, 1, 1], (1,)),  # of the same price, the one that frees less
        ([[0.5], [0.5], [0.5]], [1, 1, 1], (0, 1)),  # else the first
        ([[0.4], [0.5]], [1, 1], None),
        ([[1.0, 0.9]], [1], None),
    ],
)
def test_the_cheapest_pods_that_cover_every_need(
    shares: list[list[float]], costs: list[float], expected: tuple[int, ...] | None
) -> None:
    assert found(shares, costs) == expected


def test_without_pods_there_is_none() -> None:
    assert cheapest_cover(np.zeros((0, 2)), np.zeros(0)) is None


def covers(shares: Floats, pods: tuple[int, ...]) -> bool:
    return bool((shares[list(pods)].sum(axis=0) >= 1.0 - 1e-9).all())


@st.composite
def problems(draw: st.DrawFn, most: int = 6) -> tuple[Floats, Floats]:
    pods, needs = draw(st.integers(1, most)), draw(st.integers(1, 3))
    share = st.integers(0, 24).map(lambda n: n / 20)
    row = st.lists(share, min_size=needs, max_size=needs)
    price = st.sampled_from([1.0, 1.25, 1.5, 2.0, 4.0])
    shares = draw(st.lists(row, min_size=pods, max_size=pods))
    costs = draw(st.lists(price, min_size=pods, max_size=pods))
    return np.array(shares), np.array(costs)


@given(problems())
def test_no_set_of_few_pods_covers_for_less(problem: tuple[Floats, Floats]) -> None:
    shares, costs = problem
    every = (s for n in range(1, len(costs) + 1) for s in combinations(range(len(costs)), n))
    prices = [float(costs[list(pods)].sum()) for pods in every if covers(shares, pods)]
    chosen = cheapest_cover(shares, costs)
    if chosen is None:
        assert not prices
    else:
        assert covers(shares, chosen)
        assert costs[list(chosen)].sum() <= min(prices) + LOAD_WEIGHT * 2 * len(costs)


@given(st.integers(MOST_EXACT + 1, 60), st.integers(0, 2**32))
def test_many_pods_are_covered_without_one_to_spare(count: int, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  (no secret)
    shares = np.array([[chance.choice([0.0, 0.1, 0.4]) for _ in range(3)] for _ in range(count)])
    costs = np.array([chance.choice([1.0, 1.5, 4.0]) for _ in range(count)])
    chosen = cheapest_cover(shares, costs)
    assert (chosen is not None) == covers(shares, tuple(range(count)))
    for one in chosen or ():
        assert not covers(shares, tuple(pod for pod in chosen or () if pod != one))
    assert chosen is None or list(chosen) == sorted(set(chosen))
