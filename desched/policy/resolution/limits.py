"""How much may be evicted, and what follows: resolved limits and follow-up."""

import msgspec

from desched.policy.compatibility import defaults_of
from desched.policy.document.follow_up import FollowUpSection
from desched.policy.document.limits import EvictionLimitsSection, InFlightSection
from desched.policy.document.load_aware import LoadAwareArgs
from desched.policy.document.root import DeschedulerPolicy
from desched.policy.durations import duration_text
from desched.policy.follow_up import FollowUpRules
from desched.policy.policy import EvictionLimits, Share
from desched.policy.reading.problems import Notes
from desched.policy.reading.yaml_source import KeyPath

_DEFAULTS = FollowUpRules()
_COUNTS = frozenset({"rounds", "workloads"})
"""Keys of the follow-up that are no durations."""


def eviction_limits(
    document: DeschedulerPolicy, args: LoadAwareArgs, path: KeyPath, notes: Notes
) -> EvictionLimits:
    """The smaller where both forms say so; a default gives way to either."""
    own, defaults = args.eviction_limits or EvictionLimitsSection(), defaults_of(args.compatibility)
    given = {name: getattr(own, name) for name in own.model_fields_set}
    limits = EvictionLimits(
        total=_smaller(
            given.get("total"), document.max_no_of_pods_to_evict_total, defaults.total_limit
        ),
        node=_smallest(
            given.get("node"), document.max_no_of_pods_to_evict_per_node, defaults.node_limit
        ),
        namespace=_smaller(given.get("namespace"), document.max_no_of_pods_to_evict_per_namespace),
        workload=_smaller(given.get("workload"), None, defaults.workload_limit),
    )
    if 0 in (limits.total, limits.node, limits.namespace, limits.workload):
        at = (*path, "evictionLimits") if 0 in given.values() else ()
        notes.warn(at, "a limit of 0 evictions means that nothing is ever evicted.")
    return _paced(limits, own)


def _smallest(first: int | None, second: int | None, default: int | None) -> int | None:
    return min((limit for limit in (first, second) if limit is not None), default=default)


def _smaller(
    own: int | Share | None, other: int | None, default: int | None = None
) -> int | Share | None:
    if own is None:
        return default if other is None else other
    if other is None:
        return own
    if isinstance(own, Share):
        return Share(own.ratio, at_most=other) if other else 0
    return min(own, other)


def _paced(limits: EvictionLimits, own: EvictionLimitsSection) -> EvictionLimits:
    flight = own.in_flight or InFlightSection()
    of_workload = limits.workload if flight.workload is None else flight.workload
    limits = msgspec.structs.replace(limits, in_flight_workload=of_workload)
    given = {
        "in_flight_total": flight.total,
        "in_flight_destination": flight.destination,
        "per_minute": own.per_minute,
        "deadline_seconds": own.deadline,
    }
    return msgspec.structs.replace(limits, **{k: v for k, v in given.items() if v is not None})


def follow_up_rules(section: FollowUpSection | None, path: KeyPath, notes: Notes) -> FollowUpRules:
    """The section, which stands at `path`, with defaults for what it leaves open.

    A default for `longest` gives way to a longer `first`, one for `first` to a shorter `longest`;
    where both are given in the wrong order, that is noted.
    """
    own = section or FollowUpSection()
    given: dict[str, int] = {}
    if own.patience is not None:
        given["patience_seconds"] = own.patience
    for key, prefix, part in (
        ("coolDown", "cool_down", own.cool_down),
        ("nodeCoolDown", "node_cool_down", own.node_cool_down),
        ("pause", "pause", own.pause),
    ):
        times = {name: value for name, value in part or () if value is not None}
        given |= {_field(prefix, name): value for name, value in times.items()}
        _order(given, prefix, (*path, key), notes)
    return msgspec.structs.replace(_DEFAULTS, **given)


def _field(prefix: str, name: str) -> str:
    return f"{prefix}_{name}" if name in _COUNTS else f"{prefix}_{name}_seconds"


def _order(given: dict[str, int], prefix: str, path: KeyPath, notes: Notes) -> None:
    first, longest = _field(prefix, "first"), _field(prefix, "longest")
    if first in given and longest in given:
        if given[first] > given[longest]:
            notes.refuse(
                (*path, "longest"),
                f'found "{duration_text(given[longest])}", which is shorter than first '
                f'("{duration_text(given[first])}").',
            )
    elif first in given:
        given[longest] = max(given[first], getattr(_DEFAULTS, longest))
    elif longest in given:
        given[first] = min(given[longest], getattr(_DEFAULTS, first))
