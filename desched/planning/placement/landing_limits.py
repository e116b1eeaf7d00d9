"""The limits for one landing: its risk, and how many replacements a node may await."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import numpy as np

from desched.model.cluster import Pod
from desched.model.resources import Resource
from desched.planning.arrays import Floats, Mask
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.placement.fit import Fit
from desched.planning.placement.free_capacity import FreeCapacity
from desched.planning.placement.landing_forecast import Landing
from desched.planning.placement.projected_load import NO_LIMITS


class LandingFeedback(msgspec.Struct, frozen=True):
    """Feedback from earlier moves, by the name of a node.

    `awaited` counts the replacements that are expected on a node; at most `most_awaited` may be at
    a time, None for any number.
    """

    awaited: Mapping[str, int] = {}
    most_awaited: int | None = None

    @classmethod
    def of(cls, context: EligibilityContext) -> "LandingFeedback":
        """The feedback of the moves in the state."""
        awaited = Counter(record.expected_node for record in context.state.in_flight)
        return cls(awaited, context.policy.limits.in_flight_destination)

    def crowded(self, node: str) -> str:
        """Why the node may not await a further replacement, empty if it may."""
        count = self.awaited.get(node, 0)
        if self.most_awaited is None or count < self.most_awaited:
            return ""
        return f"node {node} already awaits {count}, at most {self.most_awaited} at a time"

    def crowded_nodes(self, arrays: NodeArrays) -> Mask:
        """All crowded nodes."""
        crowded = arrays.none()
        for node in self.awaited:
            if node in arrays.index and self.crowded(node):
                crowded[arrays.index[node]] = True
        return crowded

    def awaiting(self, node: str) -> "LandingFeedback":
        """Return a copy with one more replacement expected on the node."""
        if self.most_awaited is None:
            return self
        awaited = {**self.awaited, node: self.awaited.get(node, 0) + 1}
        return msgspec.structs.replace(self, awaited=awaited)


class Bearable(NamedTuple):
    """What a landing may do to the node: how full it may become, and the overload it may gain.

    `at_most` has ratios by resource; `most_minutes` are those of the next hour.
    """

    at_most: Mapping[Resource, float] = NO_LIMITS
    most_minutes: float = math.inf


ANYTHING = Bearable()
"""Only targets and ceilings count."""


class LandingLimits(msgspec.Struct, frozen=True):
    """Decides whether a landing of the pod is acceptable, and where its replacement is expected.

    `charge` is the expected usage of the replacement. `bad` has the bad nodes, see `Landing.risk`;
    `added_minutes` is the expected overload that each node would gain, shape (nodes,).
    `most_risk` is the maximum probability of a landing there; with `only_expected` the expected
    node is none of them, whatever the risk. `crowded` nodes may not await a further replacement.
    """

    pod: Pod
    charge: Mapping[Resource, float]
    free: FreeCapacity
    fit: Fit
    bad: Mask
    added_minutes: Floats
    crowded: Mask
    most_risk: float
    only_expected: bool = False

    def is_harmless(self, landing: Landing) -> bool:
        """Whether the risk of the landing is within its limit."""
        if self.only_expected and landing.harmful(self.bad)[self.expected(landing)]:
            return False
        return landing.risk(self.bad) <= self.most_risk

    def is_acceptable(self, landing: Landing) -> bool:
        """Whether the landing is harmless, and expected on a node that is not crowded."""
        return self.is_harmless(landing) and not self.crowded[self.expected(landing)]

    def expected(self, landing: Landing) -> int:
        """The likeliest node; among equals one under its ceiling, then the least requested one."""
        likeliest = landing.likeliest
        cool = likeliest & self.fit.under_ceiling
        equal = (cool if cool.any() else likeliest).nonzero()[0]
        if len(equal) == 1:
            return int(equal[0])
        share = self.free.requested_share(self.pod.scheduling.requests, equal)
        return int(equal[np.argmin(share)])
