"""How many pods are evicted: limits for each cycle, at a time, and by the minute."""

import re
from typing import Annotated

from pydantic import BeforeValidator, Field, PlainValidator, WithJsonSchema

from desched.policy.compatibility import EXTENDED
from desched.policy.document.values import (
    DURATION_SCHEMA,
    LARGEST_COUNT,
    Count,
    Section,
    default_is,
    refusal,
    seconds_between,
)
from desched.policy.durations import duration_text
from desched.policy.policy import EvictionLimits, Share
from desched.policy.wording import quoted

_LIMITS = EvictionLimits()
SHARE_PATTERN = r"^[0-9]{1,3}(\.[0-9]{1,2})?%$"
_ALL = 100

_DEADLINE_SECONDS = (10, 3600)


def _count_or_share(value: object) -> int | Share:
    if isinstance(value, str) and re.fullmatch(SHARE_PATTERN, value):
        percent = float(value.removesuffix("%"))
        if 0 < percent <= _ALL:
            return Share(percent / _ALL)
    elif type(value) is int and 0 <= value <= LARGEST_COUNT:
        return value
    raise refusal(
        f'found {quoted(value)}, allowed is a whole number, or a percentage above 0 such as "10%"'
    )


CountOrShare = Annotated[
    int | Share,
    PlainValidator(_count_or_share),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": LARGEST_COUNT},
                {"type": "string", "pattern": SHARE_PATTERN},
            ]
        }
    ),
]
"""A number, or a share as a percentage in a text."""


class InFlightSection(Section):
    """The most evictions whose replacement is not yet known to be settled, across cycles."""

    total: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        default=_LIMITS.in_flight_total, description="In the whole cluster.", examples=[10]
    )
    workload: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        default=None,
        description="Of one workload. Default: as many as `workload` allows a cycle.",
        examples=[2],
    )
    destination: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        default=_LIMITS.in_flight_destination, description="Expected on one node.", examples=[1]
    )


class EvictionLimitsSection(Section):
    """The most evictions of one cycle, at a time, and by the minute.

    A percentage is rounded down, and is never less than one eviction.
    """

    total: CountOrShare | None = Field(
        default=None,
        description="In the whole cluster, also as a percentage of its nodes. "
        "Default: 5, or 1 % of the nodes where that is more.",
        examples=["2%"],
    )
    node: Count | None = Field(
        default=EXTENDED.node_limit, description="From one node.", examples=[1]
    )
    namespace: CountOrShare | None = Field(
        default=None,
        description="From one namespace, also as a percentage of its pods. Default: no limit.",
        examples=["5%"],
    )
    workload: CountOrShare | None = Field(
        default=EXTENDED.workload_limit,
        description="Of one workload (Deployment, StatefulSet, …), also as a percentage of its "
        "desired replicas.",
        examples=["10%"],
    )
    in_flight: InFlightSection | None = Field(
        default=None,
        description="How many evictions may be under way at a time.",
        examples=[{"total": 10}],
    )
    per_minute: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        default=_LIMITS.per_minute,
        description="The most evictions in a minute, at most 1000.",
        examples=[5],
    )
    deadline: (
        Annotated[
            int,
            BeforeValidator(seconds_between(*_DEADLINE_SECONDS)),
            WithJsonSchema(DURATION_SCHEMA),
        ]
        | None
    ) = Field(
        default=None,
        description="For how long one cycle acts; what it has not begun by then it leaves to the "
        "next. From 10s to 1h.",
        json_schema_extra=default_is(duration_text(_LIMITS.deadline_seconds)),
        examples=["2m"],
    )
