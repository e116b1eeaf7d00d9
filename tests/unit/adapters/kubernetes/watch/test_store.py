"""When the objects of a kind may be used."""

from threading import Lock

import pytest

from desched.adapters.kubernetes.watch.events import Change
from desched.adapters.kubernetes.watch.store import SHORTEST_WATCH_SECONDS, Store
from desched.errors import ObservationError

A_MOMENT = SHORTEST_WATCH_SECONDS / 2


@pytest.fixture
def broken() -> Store[int]:
    """Broken off at 10 s, and watched again from 20 s on."""
    store = Store[int]("pods", Lock())
    store.replace({}, 1, 0.0)
    store.begin(0.0)
    store.require(0.0)
    store.lose("it broke off.", is_worth_a_wait=True)
    with pytest.raises(ObservationError, match="it broke off"):
        store.require(10.0)
    store.begin(20.0)
    return store


def test_a_watch_after_a_problem_counts_once_it_has_lasted(broken: Store[int]) -> None:
    assert broken.problem(20.0 + A_MOMENT) == "it broke off"
    with pytest.raises(ObservationError, match="it broke off"):
        broken.require(20.0 + A_MOMENT)
    assert broken.problem(20.0 + SHORTEST_WATCH_SECONDS) == ""
    broken.require(20.0 + SHORTEST_WATCH_SECONDS)


def test_or_once_it_has_brought_a_line(broken: Store[int]) -> None:
    broken.apply(Change(2, None, None), 20.0 + A_MOMENT)
    broken.require(20.0 + A_MOMENT)


def test_the_next_watch_needs_no_trial(broken: Store[int]) -> None:
    broken.begin(30.0)
    broken.require(30.0)
