"""How good landing forecasts are: checks of earlier forecasts against landings."""

import math
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from desched.model.plan import PlannedEviction
from desched.model.state import SUCCESSES, EvictionRecord, ForecastCheck, MoveResult, State
from desched.model.stored_state import CHECKS_KEPT, MOST_FORECASTS

_BAD = frozenset({MoveResult.LANDED_OVERLOADED, MoveResult.BACK_ON_SOURCE})
_CONCLUSIVE = SUCCESSES | _BAD


def foreseen(move: EvictionRecord | PlannedEviction) -> frozenset[str]:
    """Return the nodes on which a landing is as forecast: the plan's nodes without the source."""
    return frozenset({chance.node for chance in move.landing} - {move.node})


def with_forecast_checks(
    checks: Iterable[ForecastCheck], settled: Iterable[EvictionRecord], now: datetime
) -> tuple[ForecastCheck, ...]:
    """Add the checks of these evictions to those of the last 24 hours; the newest 200 remain.

    Landings on nodes with unknown load, and landings without a forecast, are not checked. Nor are
    landings of pods that moved together: which replacement is whose is arbitrary.
    """
    recent = [check for check in checks if now - check.at < CHECKS_KEPT]
    landed = (
        record
        for record in settled
        if record.result in _CONCLUSIVE and record.landing and not record.batch
    )
    return (*recent, *(_check(record, now) for record in landed))[-MOST_FORECASTS:]


def _check(record: EvictionRecord, now: datetime) -> ForecastCheck:
    nodes = foreseen(record)
    return ForecastCheck(
        at=now,
        pool=record.pool,
        risk=record.landing_risk,
        bad=record.result in _BAD,
        probability=min(1.0, math.fsum(c.probability for c in record.landing if c.node in nodes)),
        hit=record.landed_on in nodes,
        namespace=record.pod.namespace,
    )


class ForecastQuality(NamedTuple):
    """Landings of the last 24 hours and their forecasts; rates are shares of `checks`, 0 to 1.

    A hit is a landing on one of the likeliest nodes, a bad landing is one that did harm.
    """

    checks: int
    hit_rate: float
    expected_hit_rate: float
    bad_rate: float
    expected_bad_rate: float


def forecast_quality(state: State, now: datetime) -> ForecastQuality | None:
    """Return the quality of the forecasts, or None without a landing."""
    checks = [check for check in state.forecasts if now - check.at < CHECKS_KEPT]
    count = len(checks)
    if not count:
        return None
    return ForecastQuality(
        count,
        sum(check.hit for check in checks) / count,
        math.fsum(check.probability for check in checks) / count,
        sum(check.bad for check in checks) / count,
        math.fsum(check.risk for check in checks) / count,
    )
