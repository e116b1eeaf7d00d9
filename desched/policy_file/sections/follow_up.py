"""What happens after evictions: patience, cool-downs and pauses."""

from typing import Annotated, Any

import msgspec
from pydantic import Field
from pydantic.alias_generators import to_snake

from desched.policy.durations import duration_text
from desched.policy.follow_up import FollowUpRules
from desched.policy_keys.notes import Notes
from desched.policy_keys.section import Section, optional, values_of
from desched.policy_keys.values import LabelKey, Span, UpTo1000

_DEFAULTS = FollowUpRules()


class CoolDownSection(Section):
    """For how long a replica stays after a move, and its workload after a failure."""

    first: Span | None = optional(seconds=_DEFAULTS.cool_down_first_seconds, example="30m")
    """How long a replica that was moved stays. After a failure the whole workload stays, for twice
    as long; each further failure doubles the time."""
    longest: Span | None = optional(seconds=_DEFAULTS.cool_down_longest_seconds, example="12h")
    """The most; at least `first`."""


class NodeCoolDownSection(Section):
    """When a node that evictions do not relieve is left alone, and for how long."""

    rounds: Annotated[int, Field(ge=1, le=100)] | None = optional(
        _DEFAULTS.node_cool_down_rounds, example=3
    )
    """After this number of rounds of evictions in a row that left it overloaded."""
    first: Span | None = optional(seconds=_DEFAULTS.node_cool_down_first_seconds, example="1h")
    """The first time; each further time in a row takes twice as long."""
    longest: Span | None = optional(seconds=_DEFAULTS.node_cool_down_longest_seconds, example="12h")
    """The most; at least `first`."""


class PauseSection(Section):
    """When everything is left alone, and for how long."""

    workloads: UpTo1000 | None = optional(_DEFAULTS.pause_workloads, example=5)
    """After evictions of this number of workloads, in at least 3 namespaces of at least 2 owners,
    failed … Where no owners are known, half of all moves of that time must have failed, in half of
    their namespaces; otherwise only the namespaces of these workloads are paused."""
    within: Span | None = optional(seconds=_DEFAULTS.pause_within_seconds, example="2h")
    """… within this time."""
    owner_label: LabelKey | None = optional(example="example.com/team")
    """The label of a namespace that names its owner. Failures of one owner pause the namespaces of
    that owner only, and the constraints of all pods of an owner have one share of planning."""
    first: Span | None = optional(seconds=_DEFAULTS.pause_first_seconds, example="1h")
    """The first time; each further time in a row takes twice as long."""
    longest: Span | None = optional(seconds=_DEFAULTS.pause_longest_seconds, example="12h")
    """The most; at least `first`."""


class FollowUpSection(Section):
    """What happens after an eviction. Durations are from 10s to 168h."""

    patience: Span | None = optional(seconds=_DEFAULTS.patience_seconds, example="20m")
    """How long after the evicted pod's grace period its replacement may take to be Ready; after
    that the eviction has failed."""
    cool_down: CoolDownSection | None = optional(example={"first": "30m"})
    """Workloads that an eviction has disturbed."""
    node_cool_down: NodeCoolDownSection | None = optional(example={"rounds": 3})
    """Nodes that evictions do not relieve."""
    pause: PauseSection | None = optional(example={"workloads": 5, "within": "2h"})
    """Everything, after evictions of several workloads failed."""


def follow_up_rules(section: FollowUpSection | None, notes: Notes) -> FollowUpRules:
    """The section with defaults for what it leaves open.

    A default for `longest` gives way to a longer `first`, one for `first` to a shorter `longest`;
    where both are given in the wrong order, that is noted.
    """
    values = values_of(section, FollowUpRules)
    for key in ("coolDown", "nodeCoolDown", "pause"):
        _order(values, to_snake(key), notes.below(key))
    return msgspec.structs.replace(_DEFAULTS, **values)


def _order(values: dict[str, Any], above: str, notes: Notes) -> None:
    first, longest = f"{above}_first_seconds", f"{above}_longest_seconds"
    if first in values and longest in values:
        if values[first] > values[longest]:
            longest_text, least = duration_text(values[longest]), duration_text(values[first])
            notes.refuse(
                f'found "{longest_text}", which is shorter than first ("{least}").', "longest"
            )
    elif first in values:
        values[longest] = max(values[first], getattr(_DEFAULTS, longest))
    elif longest in values:
        values[first] = min(values[longest], getattr(_DEFAULTS, first))
