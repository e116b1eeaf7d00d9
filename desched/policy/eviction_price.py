"""Another price of an eviction than that of the policy, to compare what it leads to."""

from collections.abc import Sequence

from msgspec.structs import replace

from desched.errors import ConfigurationError
from desched.policy.durations import duration_seconds, duration_text
from desched.policy.policy import Policy

MOST_PRICE_MINUTES = 120
"""A whole hour that is 33 points above the target counts for so much; hardly any has more."""


def prices_minutes(text: str) -> Sequence[float]:
    """The prices in minutes, from durations such as `3m,5m,10m`.

    Raises:
        ConfigurationError: one is no duration or too high, or is there twice.
    """
    minutes_of = [price_minutes(part) for part in text.split(",")]
    if len(set(minutes_of)) < len(minutes_of):
        raise ConfigurationError(f'--price: "{text}" has a price twice; name each once.')
    return minutes_of


def price_minutes(text: str) -> float:
    """The price in minutes, from a duration such as `3m`.

    Raises:
        ConfigurationError: it is no duration, or too high.
    """
    try:
        seconds = duration_seconds(text.strip())
    except ValueError as error:
        raise ConfigurationError(f'--price: "{text}" {error}.') from error
    if seconds > 60 * MOST_PRICE_MINUTES:
        raise ConfigurationError(
            f'--price: found "{text}", allowed is at most "{MOST_PRICE_MINUTES}m".'
        )
    return seconds / 60


def with_price(policy: Policy, minutes: float) -> Policy:
    """The policy with this price; its source says so."""
    text = duration_text(round(60 * minutes))
    source = f"{policy.source} (evictionPrice: {text})"
    return replace(policy, source=source, eviction_price_minutes=minutes)
