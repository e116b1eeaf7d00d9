"""How many evictions a cycle may make after the results of earlier ones."""

from datetime import timedelta

import pytest

from desched.model.state import MoveResult, Pause, PauseScope, State
from desched.planning.selection.slow_start import after_results, most_evictions
from desched.policy.policy import EvictionLimits
from tests.builders import NOW
from tests.unit.eviction.moves import record

GOOD, BAD, NEUTRAL = (
    MoveResult.LANDED_ELSEWHERE,
    MoveResult.LANDED_OVERLOADED,
    MoveResult.NOT_WANTED,
)
LIMITS = EvictionLimits()


def after(
    *results: MoveResult, most: int = 0, nodes: int = 100, pauses: tuple[Pause, ...] = ()
) -> int:
    settled = [record(f"web-{i}", result=result) for i, result in enumerate(results)]
    return after_results(State(most_evictions=most, pauses=pauses), settled, LIMITS, nodes)


@pytest.mark.parametrize(("nodes", "most"), [(3, 5), (100, 5), (700, 7), (5000, 50)])
def test_the_first_cycles_make_five_evictions_or_one_for_every_hundred_nodes(nodes, most):
    assert most_evictions(LIMITS, State(), nodes) == most


def test_a_lower_limit_of_the_policy_holds_from_the_first_cycle():
    assert most_evictions(EvictionLimits(total=2), State(), 5000) == 2
    assert most_evictions(EvictionLimits(total=0), State(), 5000) == 0


def test_a_stored_number_that_makes_no_sense_is_that_of_the_first_cycles():
    assert most_evictions(LIMITS, State(most_evictions=-3), 100) == 5


def test_without_slow_start_the_limit_of_the_policy_holds_at_once():
    assert most_evictions(EvictionLimits(slow_start=False), State(most_evictions=1), 1000) == 50


def test_good_landings_double_it_up_to_the_limit():
    assert after(GOOD) == 10
    assert after(GOOD, GOOD, most=10) == 20
    assert after(GOOD, most=20) == 20
    assert after(GOOD, most=200, nodes=5000) == 250


def test_one_failure_halves_it_whatever_else_went_well():
    assert after(GOOD, BAD, most=20) == 10
    assert after(BAD) == 2
    assert after(BAD, most=1) == 1


def test_without_results_and_after_neutral_ones_it_stays():
    assert after(most=10) == 10
    assert after(GOOD, NEUTRAL, most=10) == 10
    assert after() == 0


def test_a_pause_of_everything_begins_anew_and_others_do_not():
    everything, pool = (
        Pause(scope, NOW, NOW + timedelta(hours=1), "batch" * (scope is PauseScope.POOL))
        for scope in (PauseScope.EVERYTHING, PauseScope.POOL)
    )
    assert after(GOOD, most=20, pauses=(everything,)) == 0
    assert after(GOOD, most=10, pauses=(pool,)) == 20


def test_a_limit_that_was_lowered_holds_at_once():
    assert most_evictions(EvictionLimits(total=3), State(most_evictions=20), 100) == 3
