"""What all pods are judged by: the policy, the time and earlier moves; and the types of answers."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cached_property

import msgspec

from desched.model.plan import Finding, RefusalReason
from desched.model.state import HOUR, CoolDown, State
from desched.policy.policy import Policy, Protections

Refused = Finding[RefusalReason] | None
"""Why a pod must not move; None if the rule allows it."""

Why = str | bool | None
"""Why a rule with a single reason refuses: the details, or True without any; None or False if not.

Details may be empty.
"""


class Terms(msgspec.Struct, frozen=True, dict=True):
    """What all pods are judged by; only `priority_threshold` depends on the cluster.

    The rules of the reasons in `waived` do not count.
    """

    policy: Policy
    state: State
    now: datetime
    priority_threshold: int | None
    waived: frozenset[RefusalReason] = frozenset()

    @property
    def protections(self) -> Protections:
        """The policy's protections."""
        return self.policy.protections

    @cached_property
    def resting(self) -> Mapping[str, datetime]:
        """The time until which each replacement of a moved pod stays, by its uid."""
        rest = timedelta(seconds=self.policy.follow_up.cool_down_first_seconds)
        return {move.replacement_uid: move.at + rest for move in self.state.moves}

    @cached_property
    def moved_within_hour(self) -> Counter[str]:
        """The evictions in flight and those of the last hour, by the workload's uid."""
        recent = (m.workload_uid for m in self.state.moves if self.now - m.at < HOUR)
        return self.in_flight + Counter(recent)

    @cached_property
    def in_flight(self) -> Counter[str]:
        """The number of evictions in flight, by the workload's uid."""
        return Counter(record.workload_uid for record in self.state.in_flight)

    @cached_property
    def cool_downs(self) -> Mapping[str, CoolDown]:
        """Cool-downs by the workload's uid, including those that are over."""
        return {cool_down.workload_uid: cool_down for cool_down in self.state.cool_downs}
