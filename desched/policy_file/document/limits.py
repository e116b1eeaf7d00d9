"""How many pods are evicted, when, and what follows: limits, windows, cool-downs and pauses."""

import re
from datetime import UTC, tzinfo
from typing import Annotated

from pydantic import Field

from desched.policy.acting_window import ActingWindow
from desched.policy.compatibility import EXTENDED
from desched.policy.cron import CronFields, cron_fields, zone_of
from desched.policy.follow_up import FollowUpRules
from desched.policy.policy import EvictionLimits
from desched.policy.share import Share
from desched.policy.wording import quoted
from desched.policy_file.document.placement_domains import LabelKey
from desched.policy_file.document.values import (
    LARGEST_COUNT,
    PERCENTAGE_PATTERN,
    WEEK_SECONDS,
    Count,
    Form,
    Section,
    lasting,
    optional,
    refusal,
    text_form,
)

_LIMITS = EvictionLimits()
_FOLLOW_UP = FollowUpRules()
_ALL = 100


def _count_or_share(value: object) -> int | Share:
    if isinstance(value, str) and re.fullmatch(PERCENTAGE_PATTERN, value):
        percent = float(value.removesuffix("%"))
        if 0 < percent <= _ALL:
            return Share(percent / _ALL)
    elif type(value) is int and 0 <= value <= LARGEST_COUNT:
        return value
    instead = ""
    if isinstance(value, float) and 0 < value < 1:
        instead = f'"{value * 100:g}%"'
    elif isinstance(value, str) and value.isdecimal():
        instead = value
    hint = f"; write {instead}" if instead else ""
    raise refusal(
        f"found {quoted(value)}, allowed is a whole number, or a percentage above 0 such as "
        f'"10%"{hint}',
        instead,
    )


CountOrShare = Annotated[
    int | Share,
    Form(
        _count_or_share,
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": LARGEST_COUNT},
                {"type": "string", "pattern": PERCENTAGE_PATTERN},
            ]
        },
    ),
]
"""A number, or a share as a percentage in a text."""
_UpTo1000 = Annotated[int, Field(ge=1, le=1000)]


class InFlightSection(Section):
    """The most evictions whose replacement is not settled yet, across cycles."""

    total: Annotated[int, Field(ge=1, le=10_000)] | None = optional(example=10)
    """In the whole cluster. Default: 20, or 5 % of the nodes where that is more."""
    workload: _UpTo1000 | None = optional(example=2)
    """Of one workload. Default: as many as `workload` allows a cycle."""
    destination: _UpTo1000 | None = optional(_LIMITS.in_flight_destination, example=1)
    """With the replacement expected on one node."""


class EvictionLimitsSection(Section):
    """The most evictions of one cycle, at a time, and by the minute.

    A percentage is rounded down, and is never less than one eviction.
    """

    total: CountOrShare | None = optional(example="2%")
    """In the whole cluster, also as a percentage of its nodes. Default: 20, or 5 % of the nodes
    where that is more."""
    slow_start: bool | None = optional(EXTENDED.slow_start, example=False)
    """Whether the first cycles evict less: 5, or 1 % of the nodes where that is more. Each cycle
    whose judged moves all landed well doubles the number, up to `total`; if more than a tenth of
    them failed, it is halved."""
    node: Count | None = optional(EXTENDED.node_limit, example=1)
    """From one node."""
    namespace: CountOrShare | None = optional(example="5%")
    """From one namespace, also as a percentage of its pods. Default: no limit."""
    workload: CountOrShare | None = optional(example="10%")
    """Of one workload (Deployment, StatefulSet, …), also as a percentage of its desired
    replicas. Default: 5 %, at least one."""
    workload_hourly: CountOrShare | None = optional(example="25%")
    """Of one workload within an hour, across cycles, also as a percentage of its desired replicas.
    Default: half of them, rounded up."""
    in_flight: InFlightSection | None = optional(example={"total": 10})
    """The most evictions under way at a time."""
    per_minute: _UpTo1000 | None = optional(_LIMITS.per_minute, example=5)
    """The most evictions in a minute, at most 1000."""
    deadline: Annotated[int, lasting(10, 3600)] | None = optional(
        seconds=_LIMITS.deadline_seconds, example="2m"
    )
    """For how long one cycle acts. It leaves what it has not begun by then to the next cycle. From
    10s to 1h."""


def _start(text: str) -> CronFields:
    if re.match(r"\s*(CRON_)?TZ=", text):
        raise ValueError("names a time zone; write it as timeZone")
    return cron_fields(text)


Start = Annotated[
    CronFields, text_form(_start, 'a cron expression such as "0 22 * * *" is allowed')
]
Zone = Annotated[tzinfo, text_form(zone_of, 'a name such as "Europe/Berlin" is allowed')]


class ActingWindowSection(Section):
    """A recurring time."""

    start: Start = Field(examples=["0 22 * * mon-fri"])
    """Cron expression of the times at which it opens: minute, hour, day of month, month, day of
    week; or a macro such as `@daily`. If a clock change skips a start, the window opens at the end
    of the gap; a start that occurs twice counts once."""
    duration: Annotated[int, lasting(60, WEEK_SECONDS)] = Field(examples=["4h"])
    """For how long it is open, in elapsed time; from 1m to 168h."""
    time_zone: Zone | None = optional("UTC", example="Europe/Berlin")
    """The time zone of `start`."""

    def window(self) -> ActingWindow:
        """The window as the policy has it."""
        return ActingWindow(self.start, self.duration, self.time_zone or UTC)


Span = Annotated[int, lasting(10, WEEK_SECONDS)]
"""A duration from ten seconds to a week."""


class CoolDownSection(Section):
    """For how long a replica stays after a move, and its workload after a failure."""

    first: Span | None = optional(seconds=_FOLLOW_UP.cool_down_first_seconds, example="30m")
    """How long a replica that was moved stays. After a failure the whole workload stays, for twice
    as long; each further failure doubles the time."""
    longest: Span | None = optional(seconds=_FOLLOW_UP.cool_down_longest_seconds, example="12h")
    """The most; at least `first`."""


class NodeCoolDownSection(Section):
    """When a node that evictions do not relieve is left alone, and for how long."""

    rounds: Annotated[int, Field(ge=1, le=100)] | None = optional(
        _FOLLOW_UP.node_cool_down_rounds, example=3
    )
    """After this number of rounds of evictions in a row that left it overloaded."""
    first: Span | None = optional(seconds=_FOLLOW_UP.node_cool_down_first_seconds, example="1h")
    """The first time; each further time in a row takes twice as long."""
    longest: Span | None = optional(
        seconds=_FOLLOW_UP.node_cool_down_longest_seconds, example="12h"
    )
    """The most; at least `first`."""


class PauseSection(Section):
    """When everything is left alone, and for how long."""

    workloads: _UpTo1000 | None = optional(_FOLLOW_UP.pause_workloads, example=5)
    """After evictions of this number of workloads, in at least 3 namespaces of at least 2 owners,
    failed … Where no owners are known, half of all moves of that time must have failed, in half of
    their namespaces; otherwise only the namespaces of these workloads are paused."""
    within: Span | None = optional(seconds=_FOLLOW_UP.pause_within_seconds, example="2h")
    """… within this time."""
    owner_label: LabelKey | None = optional(example="example.com/team")
    """The label of a namespace that names its owner. Failures of one owner pause the namespaces of
    that owner only, and the constraints of all pods of an owner have one share of planning."""
    first: Span | None = optional(seconds=_FOLLOW_UP.pause_first_seconds, example="1h")
    """The first time; each further time in a row takes twice as long."""
    longest: Span | None = optional(seconds=_FOLLOW_UP.pause_longest_seconds, example="12h")
    """The most; at least `first`."""


class FollowUpSection(Section):
    """What happens after an eviction. Durations are from 10s to 168h."""

    patience: Span | None = optional(seconds=_FOLLOW_UP.patience_seconds, example="20m")
    """How long after the evicted pod's grace period its replacement may take to be Ready; after
    that the eviction has failed."""
    cool_down: CoolDownSection | None = optional(example={"first": "30m"})
    """Workloads that an eviction has disturbed."""
    node_cool_down: NodeCoolDownSection | None = optional(example={"rounds": 3})
    """Nodes that evictions do not relieve."""
    pause: PauseSection | None = optional(example={"workloads": 5, "within": "2h"})
    """Everything, after evictions of several workloads failed."""
