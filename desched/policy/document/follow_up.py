"""What happens after evictions: how long to wait for them, and what to leave alone for a while."""

from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from desched.policy.document.values import DURATION_SCHEMA, Section, default_is, seconds_between
from desched.policy.durations import duration_text
from desched.policy.follow_up import FollowUpRules

_DEFAULTS = FollowUpRules()
_LEAST_SECONDS = 10
_MOST_SECONDS = 7 * 24 * 3600

Span = Annotated[
    int,
    BeforeValidator(seconds_between(_LEAST_SECONDS, _MOST_SECONDS)),
    WithJsonSchema(DURATION_SCHEMA),
]
"""A duration from ten seconds to a week."""


class CoolDownSection(Section):
    """For how long a workload is left alone after an eviction of it."""

    first: Span | None = Field(
        default=None,
        description="After an eviction that went well; each that goes wrong doubles the time.",
        json_schema_extra=default_is(duration_text(_DEFAULTS.cool_down_first_seconds)),
        examples=["30m"],
    )
    longest: Span | None = Field(
        default=None,
        description="The most; at least `first`.",
        json_schema_extra=default_is(duration_text(_DEFAULTS.cool_down_longest_seconds)),
        examples=["12h"],
    )


class NodeCoolDownSection(Section):
    """When a node that evictions do not cool is left alone, and for how long."""

    rounds: Annotated[int, Field(ge=1, le=100)] | None = Field(
        default=_DEFAULTS.node_cool_down_rounds,
        description="After so many rounds of evictions in a row that left it overloaded.",
        examples=[3],
    )
    first: Span | None = Field(
        default=None,
        description="The first time; each further time in a row takes twice as long.",
        json_schema_extra=default_is(duration_text(_DEFAULTS.node_cool_down_first_seconds)),
        examples=["1h"],
    )
    longest: Span | None = Field(
        default=None,
        description="The most; at least `first`.",
        json_schema_extra=default_is(duration_text(_DEFAULTS.node_cool_down_longest_seconds)),
        examples=["12h"],
    )


class PauseSection(Section):
    """When everything is left alone, and for how long."""

    workloads: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        default=_DEFAULTS.pause_workloads,
        description="After evictions of so many workloads went wrong …",
        examples=[5],
    )
    within: Span | None = Field(
        default=None,
        description="… within this time.",
        json_schema_extra=default_is(duration_text(_DEFAULTS.pause_within_seconds)),
        examples=["2h"],
    )
    first: Span | None = Field(
        default=None,
        description="The first time; each further time in a row takes twice as long.",
        json_schema_extra=default_is(duration_text(_DEFAULTS.pause_first_seconds)),
        examples=["1h"],
    )
    longest: Span | None = Field(
        default=None,
        description="The most; at least `first`.",
        json_schema_extra=default_is(duration_text(_DEFAULTS.pause_longest_seconds)),
        examples=["12h"],
    )


class FollowUpSection(Section):
    """What happens after an eviction. Durations are from 10s to 168h."""

    patience: Span | None = Field(
        default=None,
        description="How long after the evicted pod's grace period its replacement may take to be "
        "Ready; after that the eviction went wrong.",
        json_schema_extra=default_is(duration_text(_DEFAULTS.patience_seconds)),
        examples=["20m"],
    )
    cool_down: CoolDownSection | None = Field(
        default=None,
        description="Workloads that an eviction has disturbed.",
        examples=[{"first": "30m"}],
    )
    node_cool_down: NodeCoolDownSection | None = Field(
        default=None,
        description="Nodes that evictions do not cool.",
        examples=[{"rounds": 3}],
    )
    pause: PauseSection | None = Field(
        default=None,
        description="Everything, when evictions of several workloads went wrong.",
        examples=[{"workloads": 5, "within": "2h"}],
    )
