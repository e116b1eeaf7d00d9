"""How good landing forecasts are."""

from datetime import timedelta

from desched.model.state import ForecastCheck, State
from desched.planning.placement.forecast_trust import (
    ForecastQuality,
    forecast_quality,
)
from tests.builders import NOW


def check(*, risk=0.1, bad=False, pool="", hours_ago=0.0, hit=True, namespace="apps"):
    return ForecastCheck(NOW - timedelta(hours=hours_ago), pool, risk, bad, 0.7, hit, namespace)


def test_forecast_and_landings_of_the_last_day_are_set_side_by_side():
    checks = (
        check(risk=0.2, bad=True, hit=False),
        check(risk=0.0, hours_ago=23.9),
        check(risk=1.0, hours_ago=24),
    )
    state = State(forecasts=checks)
    assert forecast_quality(state, NOW) == ForecastQuality(2, 0.5, 0.7, 0.5, 0.1)
    assert forecast_quality(State(), NOW) is None
