"""Compares landing forecasts with landings."""

from collections.abc import Iterable
from datetime import datetime

from desched.model.state import SUCCESSES, EvictionRecord, ForecastCheck, MoveResult
from desched.model.stored_state import LONGEST_KEPT, MOST_FORECASTS
from desched.planning.placement.forecast_trust import foreseen, foreseen_probability

_BAD = frozenset({MoveResult.LANDED_OVERLOADED, MoveResult.BACK_ON_SOURCE})
_CONCLUSIVE = SUCCESSES | _BAD


def with_forecast_checks(
    checks: Iterable[ForecastCheck], settled: Iterable[EvictionRecord], now: datetime
) -> tuple[ForecastCheck, ...]:
    """Add the checks of these evictions to those of the last 24 hours; the newest 200 remain.

    Landings on nodes with unknown load, and landings without a forecast, are not checked.
    """
    recent = [check for check in checks if now - check.at < LONGEST_KEPT]
    landed = (record for record in settled if record.result in _CONCLUSIVE and record.landing)
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
