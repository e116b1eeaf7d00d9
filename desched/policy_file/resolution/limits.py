"""How much may be evicted, and what follows: resolved limits and follow-up."""

from typing import Any

import msgspec
from pydantic.alias_generators import to_camel, to_snake

from desched.policy.durations import duration_text
from desched.policy.follow_up import FollowUpRules
from desched.policy.policy import EvictionLimits
from desched.policy.share import Share
from desched.policy_file.document.limits import EvictionLimitsSection, FollowUpSection
from desched.policy_file.document.root import DeschedulerPolicy
from desched.policy_file.document.values import written
from desched.policy_file.reading.problems import Notes
from desched.policy_file.resolution.plugins import ChosenProfile

_OF_DOCUMENT = (
    "maxNoOfPodsToEvictTotal",
    "maxNoOfPodsToEvictPerNode",
    "maxNoOfPodsToEvictPerNamespace",
)
_DEFAULTS = FollowUpRules()
_NO_TIMES = frozenset({"rounds", "workloads", "owner_label"})
"""Keys of the follow-up that are no durations."""


def eviction_limits(
    document: DeschedulerPolicy, profile: ChosenProfile, notes: Notes
) -> EvictionLimits:
    """The smaller where both forms give a limit; a default gives way to either."""
    own = profile.load_aware.eviction_limits or EvictionLimitsSection()
    defaults = profile.defaults
    of_document = document.max_no_of_pods_to_evict_total
    most = {
        "total": _smaller(own.total, of_document, defaults.total_limit),
        "node": _smaller(own.node, document.max_no_of_pods_to_evict_per_node, defaults.node_limit),
        "namespace": _smaller(own.namespace, document.max_no_of_pods_to_evict_per_namespace, None),
        "workload": _smaller(own.workload, None, defaults.workload_limit),
    }
    of_args = profile.notes.below("evictionLimits")
    zeros = [(of_args, name) for name in most if getattr(own, name) == 0]
    zeros += [(notes, key) for key in _OF_DOCUMENT if getattr(document, to_snake(key)) == 0]
    for at, key in zeros:
        at.warn("is 0, so nothing is ever evicted until this line is removed.", key)
    totals = [at.place(key) for at, key in zeros if key in {"total", _OF_DOCUMENT[0]}]
    flight = {"workload": most["workload"], **written(**dict(own.in_flight or ()))}
    given = {
        "workload_hourly": defaults.workload_hourly_limit,
        "slow_start": defaults.slow_start,
        **written(
            per_minute=own.per_minute,
            deadline_seconds=own.deadline,
            workload_hourly=own.workload_hourly,
            slow_start=own.slow_start,
        ),
    }
    given |= {f"in_flight_{name}": value for name, value in flight.items()}
    if totals:
        given |= {
            "zero_at": totals[0],
            "otherwise": _smaller(own.total or None, of_document or None, defaults.total_limit),
        }
    return EvictionLimits(**most, **given)


def _smaller(own: int | Share | None, other: int | None, default: int | Share | None) -> Any:
    """The smaller of two limits; Any, because the limit of a node is never a share."""
    if own is None:
        return default if other is None else other
    if other is None:
        return own
    if isinstance(own, Share):
        return Share(own.ratio, at_most=other) if other else 0
    return min(own, other)


def follow_up_rules(section: FollowUpSection | None, notes: Notes) -> FollowUpRules:
    """The section with defaults for what it leaves open.

    A default for `longest` gives way to a longer `first`, one for `first` to a shorter `longest`;
    where both are given in the wrong order, that is noted.
    """
    own = section or FollowUpSection()
    given = written(patience_seconds=own.patience)
    for prefix in ("cool_down", "node_cool_down", "pause"):
        times = written(**dict(getattr(own, prefix) or ()))
        given |= {_field(prefix, name): value for name, value in times.items()}
        _order(given, prefix, notes.below(to_camel(prefix)))
    return msgspec.structs.replace(_DEFAULTS, **given)


def _field(prefix: str, name: str) -> str:
    return f"{prefix}_{name}" if name in _NO_TIMES else f"{prefix}_{name}_seconds"


def _order(given: dict[str, Any], prefix: str, notes: Notes) -> None:
    first, longest = _field(prefix, "first"), _field(prefix, "longest")
    if first in given and longest in given:
        if given[first] > given[longest]:
            found, least = duration_text(given[longest]), duration_text(given[first])
            notes.refuse(f'found "{found}", which is shorter than first ("{least}").', "longest")
    elif first in given:
        given[longest] = max(given[first], getattr(_DEFAULTS, longest))
    elif longest in given:
        given[first] = min(given[longest], getattr(_DEFAULTS, first))
