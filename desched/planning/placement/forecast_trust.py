"""How far landing forecasts are trusted: checks of earlier forecasts against landings.

Tenants may let replacements of their own pods land badly on purpose, so a namespace's landings
count in full for its own pods alone.
"""

import math
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from desched.model.state import SUCCESSES, EvictionRecord, ForecastCheck, MoveResult, State
from desched.model.stored_state import CHECKS_KEPT, MOST_FORECASTS

PRIOR_LANDINGS = 10
"""The surcharge starts as if this many landings had matched: a single bad one proves little."""

DISTRUST_HALVES_IN = timedelta(hours=2)
"""The half-life of a landing's weight.

Without it, distrust would be permanent: where it forbids every move, no landing can restore trust.
As it fades, the moves with the least risk are tried again; one bad landing is then enough to forbid
them for some time. See docs/decisions/0007-distrust-fades.md.
"""

MOST_OF_ANOTHER_NAMESPACE = 0.5
"""For the pods of others, all landings of a namespace count as at most so many bad ones.

At the usual `maxLandingRisk`, it takes four namespaces to stop everybody's moves.
"""

_BAD = frozenset({MoveResult.LANDED_OVERLOADED, MoveResult.BACK_ON_SOURCE})
_CONCLUSIVE = SUCCESSES | _BAD


def foreseen(record: EvictionRecord) -> frozenset[str]:
    """The nodes on which a landing counts as forecast: those that the plan names."""
    return frozenset({chance.node for chance in record.landing} - {record.node})


def with_forecast_checks(
    checks: Iterable[ForecastCheck], settled: Iterable[EvictionRecord], now: datetime
) -> tuple[ForecastCheck, ...]:
    """Add the checks of these evictions to those of the last 24 hours; the newest 200 remain.

    Landings on nodes with unknown load, and landings without a forecast, are not checked. Nor are
    those of a gang that moved whole: which replacement is whose is arbitrary.
    """
    recent = [check for check in checks if now - check.at < CHECKS_KEPT]
    landed = (
        record
        for record in settled
        if record.result in _CONCLUSIVE and record.landing and not record.gang
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


class Distrust(NamedTuple):
    """By how many landings each namespace's were worse than forecast, and how many there were."""

    excess: Mapping[str, float]
    landings: float

    @classmethod
    def of(cls, state: State, pool: str, now: datetime) -> "Distrust":
        """Of the moves from a pool; the weight of a landing halves in `DISTRUST_HALVES_IN`."""
        checks = [(check, _weight(check, now)) for check in state.forecasts if check.pool == pool]
        excess: dict[str, float] = {}
        for check, weight in checks:
            known = excess.get(check.namespace, 0.0)
            excess[check.namespace] = known + weight * (check.bad - check.risk)
        return cls(excess, math.fsum(weight for _, weight in checks))

    def surcharge(self, namespace: str) -> float:
        """What adds to the risk of moves of a namespace's pods, from 0 to 1."""
        excess = math.fsum(
            found if name == namespace else min(found, MOST_OF_ANOTHER_NAMESPACE)
            for name, found in self.excess.items()
        )
        return max(0.0, excess / (self.landings + PRIOR_LANDINGS))


def _weight(check: ForecastCheck, now: datetime) -> float:
    age = max(timedelta(), now - check.at)  # the clock of another replica may be ahead
    return math.exp2(-(age / DISTRUST_HALVES_IN))


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
    """The quality of the forecasts, None without a landing."""
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
