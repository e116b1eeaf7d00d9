"""Landing forecasts beside the landings, as far as these are known."""

from collections.abc import Iterable
from datetime import datetime

from desched.model.state import SUCCESSES, EvictionRecord, ForecastCheck, MoveResult
from desched.model.stored_state import LONGEST_KEPT, MOST_FORECASTS
from desched.planning.placement.forecast_trust import foreseen, foreseen_probability

_BAD = frozenset({MoveResult.LANDED_OVERLOADED, MoveResult.BACK_ON_SOURCE})
_TOLD = SUCCESSES | _BAD


def with_forecast_checks(
    checks: Iterable[ForecastCheck], settled: Iterable[EvictionRecord], now: datetime
) -> tuple[ForecastCheck, ...]:
    """The checks of the last 24 hours with those of these evictions, the newest 200, oldest first.

    A landing on a node whose load is not known tells nothing, nor does one without a forecast.
    """
    recent = [check for check in checks if now - check.at < LONGEST_KEPT]
    landed = (record for record in settled if record.result in _TOLD and record.landing)
    return (*recent, *(_check(record, now) for record in landed))[-MOST_FORECASTS:]


def _check(record: EvictionRecord, now: datetime) -> ForecastCheck:
    return ForecastCheck(
        at=now,
        pool=record.pool,
        risk=record.landing_risk,
        bad=record.result in _BAD,
        probability=foreseen_probability(record),
        hit=record.landed_on in foreseen(record),
    )
