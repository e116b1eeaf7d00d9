"""How far landing forecasts are to be trusted, by what became of earlier ones."""

import math
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import NamedTuple

from desched.model.state import EvictionRecord, ForecastCheck, State
from desched.model.stored_state import LONGEST_KEPT

PRIOR_LANDINGS = 10
"""So many landings are taken to have gone as forecast, so that the first bad one proves little."""

DISTRUST_HALVES_IN = timedelta(hours=2)
"""A landing counts half as much after so long.

Without it distrust would keep itself alive: where it forbids every move, no landing can come that
speaks for the forecasts. As it fades, the moves of least risk are tried again, one bad landing of
which is enough to forbid them for another while. Docs: docs/decisions/0007-distrust-fades.md.
"""

_TIED = 1e-9


def foreseen(record: EvictionRecord) -> frozenset[str]:
    """Where a landing counts as forecast: the expected node, and the likeliest ones."""
    highest = max((chance.probability for chance in record.landing), default=0.0)
    likeliest = {c.node for c in record.landing if c.probability >= highest - _TIED}
    return frozenset({record.expected_node, *likeliest} - {record.node})


def foreseen_probability(record: EvictionRecord) -> float:
    """The probability that the forecast gave all of these nodes together, 0 to 1."""
    nodes = foreseen(record)
    return min(1.0, math.fsum(c.probability for c in record.landing if c.node in nodes))


def risk_surcharge(state: State, pool: str, now: datetime) -> float:
    """How much likelier bad landings from a pool have been than forecast, 0 to 1.

    Landings count less with their age: by half after `DISTRUST_HALVES_IN`.
    """
    checks = [(check, _weight(check, now)) for check in state.forecasts if check.pool == pool]
    excess = math.fsum(weight * (check.bad - check.risk) for check, weight in checks)
    return max(0.0, excess / (math.fsum(weight for _, weight in checks) + PRIOR_LANDINGS))


def _weight(check: ForecastCheck, now: datetime) -> float:
    age = max(timedelta(), now - check.at)  # another process's clock may be a little ahead
    return math.exp2(-(age / DISTRUST_HALVES_IN))


class ForecastQuality(NamedTuple):
    """Landings of the last 24 hours beside their forecasts; rates are shares of `checks`, 0 to 1.

    A hit is a landing on one of the likeliest nodes, a bad landing one that did not help.
    """

    checks: int
    hit_rate: float
    expected_hit_rate: float
    bad_rate: float
    expected_bad_rate: float


def forecast_quality(state: State, now: datetime) -> ForecastQuality | None:
    """How well landings were forecast, None if there was no landing."""
    checks = [check for check in state.forecasts if now - check.at < LONGEST_KEPT]
    return _quality(checks) if checks else None


def _quality(checks: Collection[ForecastCheck]) -> ForecastQuality:
    count = len(checks)
    return ForecastQuality(
        count,
        sum(check.hit for check in checks) / count,
        math.fsum(check.probability for check in checks) / count,
        sum(check.bad for check in checks) / count,
        math.fsum(check.risk for check in checks) / count,
    )
