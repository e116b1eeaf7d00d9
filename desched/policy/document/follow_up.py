"""What happens after evictions: how long to wait for them, and what to leave alone for a while."""

from typing import Annotated

from pydantic import Field

from desched.policy.document.values import WEEK_SECONDS, Section, lasting, optional
from desched.policy.durations import duration_text
from desched.policy.follow_up import FollowUpRules

_DEFAULTS = FollowUpRules()

Span = Annotated[int, lasting(10, WEEK_SECONDS)]
"""A duration from ten seconds to a week."""


class CoolDownSection(Section):
    """For how long a workload is left alone after one of its pods is evicted."""

    first: Span | None = optional(duration_text(_DEFAULTS.cool_down_first_seconds), example="30m")
    """After an eviction that went well; each failure doubles the time."""
    longest: Span | None = optional(
        duration_text(_DEFAULTS.cool_down_longest_seconds), example="12h"
    )
    """The most; at least `first`."""


class NodeCoolDownSection(Section):
    """When a node that evictions do not relieve is left alone, and for how long."""

    rounds: Annotated[int, Field(ge=1, le=100)] | None = optional(
        _DEFAULTS.node_cool_down_rounds, example=3
    )
    """After this number of rounds of evictions in a row that left it overloaded."""
    first: Span | None = optional(
        duration_text(_DEFAULTS.node_cool_down_first_seconds), example="1h"
    )
    """The first time; each further time in a row takes twice as long."""
    longest: Span | None = optional(
        duration_text(_DEFAULTS.node_cool_down_longest_seconds), example="12h"
    )
    """The most; at least `first`."""


class PauseSection(Section):
    """When everything is left alone, and for how long."""

    workloads: Annotated[int, Field(ge=1, le=1000)] | None = optional(
        _DEFAULTS.pause_workloads, example=5
    )
    """After evictions of this number of workloads failed …"""
    within: Span | None = optional(duration_text(_DEFAULTS.pause_within_seconds), example="2h")
    """… within this time."""
    first: Span | None = optional(duration_text(_DEFAULTS.pause_first_seconds), example="1h")
    """The first time; each further time in a row takes twice as long."""
    longest: Span | None = optional(duration_text(_DEFAULTS.pause_longest_seconds), example="12h")
    """The most; at least `first`."""


class FollowUpSection(Section):
    """What happens after an eviction. Durations are from 10s to 168h."""

    patience: Span | None = optional(duration_text(_DEFAULTS.patience_seconds), example="20m")
    """How long after the evicted pod's grace period its replacement may take to be Ready; after
    that the eviction has failed."""
    cool_down: CoolDownSection | None = optional(example={"first": "30m"})
    """Workloads that an eviction has disturbed."""
    node_cool_down: NodeCoolDownSection | None = optional(example={"rounds": 3})
    """Nodes that evictions do not relieve."""
    pause: PauseSection | None = optional(example={"workloads": 5, "within": "2h"})
    """Everything, after evictions of several workloads failed."""
