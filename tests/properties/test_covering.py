"""The search for the cheapest cover, beside trying every set of pods."""

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from desched.planning.selection.limits import Cap
from desched.planning.selection.set_cover import Covering

TOLERANCE = 1e-3


@st.composite
def coverings(draw: st.DrawFn) -> Covering:
    """Up to eight pods, one or two resources in one or two windows, and a cap."""
    pods = draw(st.integers(1, 8))
    windows = draw(st.integers(1, 2))
    resources = draw(st.integers(1, 2))
    share = st.integers(0, 24).map(lambda n: n / 20)
    row = st.lists(share, min_size=windows * resources, max_size=windows * resources)
    shares = draw(st.lists(row, min_size=pods, max_size=pods))
    costs = draw(
        st.lists(st.sampled_from([1.0, 1.25, 1.5, 2.0, 4.0]), min_size=pods, max_size=pods)
    )
    members = draw(st.lists(st.integers(0, pods - 1), unique=True))
    caps = (Cap(draw(st.integers(0, 3)), tuple(sorted(members))),) if members else ()
    choices = tuple(tuple(range(r * windows, (r + 1) * windows)) for r in range(resources))
    return Covering(np.array(shares), np.array(costs), choices, caps)


def covers(problem: Covering, pods: tuple[int, ...]) -> bool:
    total = problem.shares[list(pods)].sum(axis=0)
    within = all(len(set(pods) & set(cap.members)) <= cap.most for cap in problem.caps)
    return within and all(max(total[list(each)]) >= 1 - 1e-9 for each in problem.choices)


@given(coverings())
def test_no_set_of_pods_covers_for_less(problem: Covering) -> None:
    found = problem.cheapest()
    every = (
        pods
        for size in range(len(problem.costs) + 1)
        for pods in combinations(range(len(problem.costs)), size)
    )
    prices = [problem.costs[list(pods)].sum() for pods in every if covers(problem, pods)]
    if found is None:
        assert not prices
    else:
        assert covers(problem, found)
        assert problem.costs[list(found)].sum() <= min(prices) + TOLERANCE


@given(coverings())
def test_no_pod_of_a_cover_is_spare(problem: Covering) -> None:
    found = problem.cheapest() or ()
    for one in found:
        assert not covers(problem, tuple(pod for pod in found if pod != one))
