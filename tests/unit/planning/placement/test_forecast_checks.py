"""Checks of landing forecasts against landings."""

import msgspec
import pytest

from desched.model.landing import LandingChance
from desched.model.state import ForecastCheck, MoveResult
from desched.planning.placement.forecast_trust import with_forecast_checks
from tests.builders import NOW
from tests.unit.eviction.moves import minutes, record


def landed(result, on="n1", **fields):
    return record(result=result, landed_on=on, **fields)


@pytest.mark.parametrize(
    ("settled", "bad", "hit"),
    [
        (landed(MoveResult.LANDED_AS_FORECAST), False, True),
        (landed(MoveResult.LANDED_ELSEWHERE, on="n3"), False, False),
        (landed(MoveResult.LANDED_OVERLOADED), True, True),
        (landed(MoveResult.BACK_ON_SOURCE, on="n0"), True, False),
    ],
)
def test_a_landing_is_put_beside_its_forecast(settled, bad, hit):
    found = ForecastCheck(NOW, "", 0.1, bad, 1.0, hit, settled.pod.namespace)
    assert with_forecast_checks([], [settled], NOW) == (found,)


def test_all_nodes_that_the_plan_names_are_foreseen_but_never_the_source():
    chances = tuple(LandingChance(name, 0.25) for name in ("n0", "n1", "n2", "n3"))
    settled = landed(MoveResult.LANDED_AS_FORECAST, on="n3", landing=chances)
    (check,) = with_forecast_checks([], [settled], NOW)
    assert (check.probability, check.hit) == (0.75, True)


@pytest.mark.parametrize(
    "settled",
    [
        landed(MoveResult.LOAD_UNKNOWN),
        landed(MoveResult.NOT_READY),
        landed(MoveResult.NEVER_CAME, on=""),
        landed(MoveResult.LANDED_ELSEWHERE, landing=()),
    ],
    ids=["unknown", "not ready", "never came", "no forecast"],
)
def test_what_says_nothing_of_the_forecast_is_left_out(settled):
    assert with_forecast_checks([], [settled], NOW) == ()


def test_checks_are_those_of_a_day_and_the_newest_two_hundred():
    (young,) = with_forecast_checks([], [landed(MoveResult.LANDED_OVERLOADED)], NOW - minutes(1439))
    old = msgspec.structs.replace(young, at=NOW - minutes(1440))
    settled = [landed(MoveResult.LANDED_OVERLOADED, pool=f"p{i}") for i in range(200)]
    assert with_forecast_checks([old, young], [], NOW) == (young,)
    assert with_forecast_checks([young], settled[:199], NOW)[0] == young
    assert [c.pool for c in with_forecast_checks([young], settled, NOW)] == [
        f"p{i}" for i in range(200)
    ]
