"""How far landing forecasts are to be trusted."""

from datetime import timedelta

import pytest

from desched.model.state import ForecastCheck, State
from desched.planning.placement.forecast_trust import (
    Distrust,
    ForecastQuality,
    forecast_quality,
)
from tests.builders import NOW, policy

MOST_RISK = policy().max_landing_risk


def check(*, risk=0.1, bad=False, pool="", hours_ago=0.0, hit=True, namespace="apps"):
    return ForecastCheck(NOW - timedelta(hours=hours_ago), pool, risk, bad, 0.7, hit, namespace)


def surcharge(*checks, pool="", namespace="apps"):
    return Distrust.of(State(forecasts=checks), pool, NOW).surcharge(namespace)


def test_without_landings_nothing_is_added():
    assert surcharge() == 0


def test_landings_that_were_worse_than_forecast_add_by_how_much_they_were():
    assert surcharge(check(risk=0.1, bad=True)) == pytest.approx(0.9 / 11)
    assert surcharge(*[check(risk=0.1, bad=True)] * 10) == pytest.approx(9 / 20)


def test_landings_that_were_as_forecast_or_better_add_nothing():
    assert surcharge(*[check(risk=0.5, bad=True), check(risk=0.5)] * 20) == 0
    assert surcharge(*[check(risk=0.5)] * 20) == 0


def test_a_landing_counts_half_as_much_after_two_hours():
    assert surcharge(check(bad=True, hours_ago=2)) == pytest.approx(0.45 / 10.5)
    assert surcharge(check(bad=True, hours_ago=4)) == pytest.approx(0.225 / 10.25)


def test_a_landing_counts_once_even_if_its_time_is_ahead_of_the_clock():
    assert surcharge(check(bad=True, hours_ago=-1)) == surcharge(check(bad=True))


def test_new_landings_count_more_than_old_ones():
    good_lately = [check(bad=True, hours_ago=3)] * 5 + [check()] * 5
    bad_lately = [check(hours_ago=3)] * 5 + [check(bad=True)] * 5
    assert surcharge(*good_lately) < surcharge(*bad_lately)


def test_another_pool_is_not_charged():
    assert surcharge(check(bad=True, pool="gpu"), pool="cpu") == 0
    assert surcharge(check(bad=True, pool="gpu"), pool="gpu") > 0


@pytest.mark.parametrize("landings", [2, 4, 40])
def test_bad_landings_of_two_tenants_do_not_stop_the_moves_of_others(landings):
    evil = [check(risk=0, bad=True, namespace=f"evil-{i % 2}") for i in range(landings)]
    assert surcharge(*evil) < MOST_RISK
    assert surcharge(*evil, namespace="evil-0") > surcharge(*evil)
    own = [check(risk=0, bad=True)] * 2
    assert surcharge(*own, *evil) > surcharge(*evil)


def test_forecast_and_landings_of_the_last_day_are_set_side_by_side():
    checks = (
        check(risk=0.2, bad=True, hit=False),
        check(risk=0.0, hours_ago=23.9),
        check(risk=1.0, hours_ago=24),
    )
    state = State(forecasts=checks)
    assert forecast_quality(state, NOW) == ForecastQuality(2, 0.5, 0.7, 0.5, 0.1)
    assert forecast_quality(State(), NOW) is None
