"""Which price of an eviction to propose, by what several prices would have led to in the past."""

from collections.abc import Sequence
from typing import NamedTuple

from desched.policy.durations import duration_text

PRICES_MINUTES = (3.0, 5.0, 10.0, 20.0)
"""The prices that are compared."""

KEPT_SHARE = 0.9
"""A price is good enough if it avoids this share of the overload that the best price avoids."""

LEAST_OVERLOAD_MINUTES = 60.0
"""With less overload in the past no price can be judged."""

LEAST_COVERED_SHARE = 0.8
"""Of the nodes' time; with less the past is too short."""


class ProposedPrice(NamedTuple):
    """A price, None for the default, and why, in sentences."""

    minutes: float | None
    why: Sequence[str]


class PricedReplay(NamedTuple):
    """What a price would have led to: the overload that it leaves, and how many evictions."""

    minutes: float
    left_node_minutes: float
    evictions: int

    def __str__(self) -> str:
        left = f"{self.left_node_minutes:,.0f}"
        return f"{price_text(self.minutes)} leaves {left} ({self.evictions} evictions)"


def price_text(minutes: float) -> str:
    """The price as in a policy."""
    return duration_text(round(60 * minutes))


def default_price(reason: str) -> ProposedPrice:
    """The default, because nothing better is known."""
    return ProposedPrice(
        None,
        (
            f"The default: {reason}.",
            "Compare prices later: desched backtest --since 1d --policy FILE --price 3m,5m,10m",
        ),
    )


def proposed_price(
    replays: Sequence[PricedReplay], before_node_minutes: float, covered_share: float, past: str
) -> ProposedPrice:
    """The highest price that avoids nearly as much overload as the best one.

    `before_node_minutes` is the overload without desched. `covered_share` is the share of the
    nodes' time for which the load is known, `past` names the time, as in `the last day`.
    """
    before = before_node_minutes
    if covered_share < LEAST_COVERED_SHARE:
        share = f"{covered_share * 100:.0f} %"
        return default_price(f"load is known for only {share} of the nodes' time in {past}")
    if before < LEAST_OVERLOAD_MINUTES:
        return default_price(f"{past} had only {before:.0f} overloaded node-minutes")
    best = max(before - replay.left_node_minutes for replay in replays)
    if best <= 0:
        return default_price(f"no price would have avoided overload in {past}")
    good = [replay for replay in replays if before - replay.left_node_minutes >= KEPT_SHARE * best]
    chosen = max(figures.minutes for figures in good)
    curve = ", ".join(map(str, replays))
    enough = f"at least {KEPT_SHARE * 100:.0f} % of what the best one avoids"
    reason = (
        f"Replayed with {past}, which had {before:,.0f} overloaded node-minutes: {curve}.",
        f"{price_text(chosen)} is the highest that avoids {enough}.",
    )
    return ProposedPrice(chosen, reason)
