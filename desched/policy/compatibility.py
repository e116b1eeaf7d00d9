"""The defaults of keys that other deschedulers lack, with `compatibility` Extended or Strict.

Each is written here and nowhere else: the policy that planning reads, the resolution of documents,
and the generated JSON Schema and reference take it from here.
"""

from enum import StrEnum

import msgspec

from desched.policy.durations import LONGEST_SECONDS
from desched.policy.share import Share

UNLIMITED = 2**31 - 1
"""More evictions than any cluster has pods."""


class Compatibility(StrEnum):
    """Whether keys that other deschedulers lack have effective defaults."""

    EXTENDED = "Extended"
    STRICT = "Strict"


class SteeringMode(StrEnum):
    """When soft taints keep replacements away from nodes where they would do harm."""

    OFF = "Off"
    WHEN_NEEDED = "WhenNeeded"
    ALWAYS = "Always"


class Defaults(msgspec.Struct, frozen=True):
    """Values of keys that are not written; margins, floor and dead band in percentage points."""

    eviction_price_minutes: float = 5.0
    stop_margin: float = 5.0
    ceiling_margin: float = 10.0
    deviation_floor: float = 50.0
    dead_band: float = 5.0
    max_landing_risk: float = 0.15
    steering: SteeringMode = SteeringMode.WHEN_NEEDED
    total_limit: int | Share = Share(0.05, at_least=20)
    slow_start: bool = True
    node_limit: int | None = 2
    workload_limit: int | Share | None = Share(0.05)
    workload_hourly_limit: int | Share | None = Share(0.5, rounded_up=True)
    single_replicas: bool = True
    relieve_staying_excess: bool = False
    max_grace_period_seconds: int = 600


EXTENDED = Defaults()
STRICT = Defaults(
    eviction_price_minutes=0.0,
    stop_margin=0.0,
    ceiling_margin=0.0,
    deviation_floor=0.0,
    dead_band=0.0,
    max_landing_risk=1.0,
    steering=SteeringMode.OFF,
    total_limit=UNLIMITED,
    slow_start=False,
    node_limit=None,
    workload_limit=None,
    workload_hourly_limit=None,
    single_replicas=False,
    relieve_staying_excess=True,
    max_grace_period_seconds=LONGEST_SECONDS,
)


def defaults_of(compatibility: str | None) -> Defaults:
    """The defaults of a policy with this value of `compatibility`."""
    return STRICT if compatibility == Compatibility.STRICT else EXTENDED
