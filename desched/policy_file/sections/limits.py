"""How many pods are evicted, at most: of one cycle, at a time, and by the minute."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from desched.policy.compatibility import EXTENDED, Defaults
from desched.policy.policy import EvictionLimits
from desched.policy.share import Share
from desched.policy_keys.notes import Notes
from desched.policy_keys.section import Section, optional, values_of
from desched.policy_keys.values import Count, CountOrShare, UpTo1000, lasting

_LIMITS = EvictionLimits()


class InFlightSection(Section):
    """The most evictions whose replacement is not settled yet, across cycles."""

    total: Annotated[int, Field(ge=1, le=10_000)] | None = optional(example=10)
    """In the whole cluster. Default: 20, or 5 % of the nodes where that is more."""
    workload: UpTo1000 | None = optional(example=2)
    """Of one workload. Default: as many as `workload` allows a cycle."""
    destination: UpTo1000 | None = optional(_LIMITS.in_flight_destination, example=1)
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
    per_minute: UpTo1000 | None = optional(_LIMITS.per_minute, example=5)
    """The most evictions in a minute, at most 1000."""
    deadline: Annotated[int, lasting(10, 3600)] | None = optional(
        seconds=_LIMITS.deadline_seconds, example="2m"
    )
    """For how long one cycle acts. It leaves what it has not begun by then to the next cycle. From
    10s to 1h."""


LIMITS_OF_POLICY: Mapping[str, str] = {
    "maxNoOfPodsToEvictTotal": "total",
    "maxNoOfPodsToEvictPerNode": "node",
    "maxNoOfPodsToEvictPerNamespace": "namespace",
}
"""Keys of the policy itself, and the limit of `evictionLimits` that each stands for."""


def eviction_limits(
    section: EvictionLimitsSection | None,
    notes: Notes,
    of_policy: Mapping[str, int | None],
    at_policy: Notes,
    defaults: Defaults,
) -> EvictionLimits:
    """The smaller where both forms give a limit; a default gives way to either.

    `of_policy` has the values of the keys in `LIMITS_OF_POLICY`.
    """
    own = section or EvictionLimitsSection()
    usual = {
        "total": defaults.total_limit,
        "node": defaults.node_limit,
        "namespace": None,
        "workload": defaults.workload_limit,
    }
    further = {limit: of_policy[key] for key, limit in LIMITS_OF_POLICY.items()}
    most = {
        name: _smaller(getattr(own, name), further.get(name), default)
        for name, default in usual.items()
    }
    zeros = [(notes, name) for name in most if getattr(own, name) == 0]
    zeros += [(at_policy, key) for key, limit in of_policy.items() if limit == 0]
    for at, key in zeros:
        at.warn("is 0, so nothing is ever evicted until this line is removed.", key)
    totals = [at.place(key) for at, key in zeros if LIMITS_OF_POLICY.get(key, key) == "total"]
    values: dict[str, Any] = {
        "workload_hourly": defaults.workload_hourly_limit,
        "slow_start": defaults.slow_start,
        "in_flight_workload": most["workload"],
        **values_of(section, EvictionLimits),
        **most,
    }
    if totals:
        values |= {
            "zero_at": totals[0],
            "otherwise": _smaller(
                own.total or None, further["total"] or None, defaults.total_limit
            ),
        }
    return EvictionLimits(**values)


def _smaller(own: int | Share | None, other: int | None, default: int | Share | None) -> Any:
    """The smaller of two limits; Any, because the limit of a node is never a share."""
    if own is None:
        return default if other is None else other
    if other is None:
        return own
    if isinstance(own, Share):
        return Share(own.ratio, at_most=other) if other else 0
    return min(own, other)
