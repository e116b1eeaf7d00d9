"""The price of an eviction that the doctor proposes: replays of the last day, in bounded time."""

from collections.abc import Callable
from datetime import timedelta

from desched.doctor.price import (
    PRICES_MINUTES,
    PricedReplay,
    ProposedPrice,
    default_price,
    proposed_price,
)
from desched.errors import ConfigurationError, ObservationError
from desched.lab.past.backtest import backtest
from desched.lab.past_source import PastSource, read_past, span_of
from desched.policy.eviction_price import with_price
from desched.policy.policy import Policy
from desched.service.process.clock import SystemClock
from desched.settings import Settings

PAST = timedelta(days=1)
PAST_IN_WORDS = "the last day"
INTERVAL_SECONDS = 300.0
MOST_NODES = 1000
LONGEST_SECONDS = 120.0


class _TooLong(Exception):  # noqa: N818  (no error: it only ends what takes too long)
    """Reading and replaying take longer than people wait."""


def replayed_price(
    settings: Settings, policy: Policy, nodes: int, clock: SystemClock, tell: Callable[[str], None]
) -> ProposedPrice:
    """The price for a cluster of this number of nodes; the default if the past does not show one.

    `policy` is the one to propose, which can be read with.
    """
    if policy.metrics.type.is_sampled:
        return default_price(f"{policy.metrics.type.in_words} does not know the past")
    if nodes > MOST_NODES:
        return default_price(f"more than {MOST_NODES:,} nodes take too long to replay")
    until = clock.monotonic() + LONGEST_SECONDS

    def check(_done: float) -> None:
        if clock.monotonic() > until:
            raise _TooLong

    now = clock.now()
    policies = [with_price(policy, minutes) for minutes in PRICES_MINUTES]
    source = PastSource()
    span = span_of(now - PAST, now, INTERVAL_SECONDS, source.step_seconds)
    try:
        tell("Reading the last day")
        past = read_past(settings, policies, span, source, clock, check)
        tell("Replaying the last day at several prices")
        replayed = backtest(past, policies, span, check)
    except _TooLong:
        minutes = f"{LONGEST_SECONDS / 60:.0f} minutes"
        return default_price(f"replaying {PAST_IN_WORDS} takes longer than {minutes}")
    except (ObservationError, ConfigurationError) as error:
        sentence = str(error).partition("\n")[0].removesuffix(".")
        return default_price(f"{PAST_IN_WORDS} cannot be replayed ({sentence})")
    replays = [
        PricedReplay(minutes, figures.with_policy.node_minutes, figures.evictions)
        for minutes, figures in zip(PRICES_MINUTES, replayed.policies, strict=True)
    ]
    before = replayed.policies[0].without.node_minutes
    return proposed_price(replays, before, replayed.covered_share, PAST_IN_WORDS)
