"""Where a pod must not land, though the scheduler would place it there."""

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

import numpy as np

from desched.model.cluster import Pod
from desched.model.plan import Finding, RefusalReason
from desched.planning.arrays import Mask
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.plugins import PlacementLimit

if TYPE_CHECKING:  # it has the limits
    from desched.planning.placement.free_capacity import FreeCapacity


class PlacementLimits:
    """The limits of plugins, in the order in which they count.

    All pods are on a node. No mask may be modified.
    """

    def __init__(self, limits: Sequence[PlacementLimit], none: Mask) -> None:
        """`none` is the mask of no node."""
        self.each = tuple(limits)
        self._none = none

    @classmethod
    def of(cls, context: EligibilityContext, arrays: NodeArrays) -> "PlacementLimits":
        """The limits of one plan."""
        limits = (plugin.placement_limit(context, arrays) for plugin in context.policy.plugins)
        return cls([limit for limit in limits if limit is not None], arrays.none())

    def relaxed(self, pod: Pod) -> Iterator["PlacementLimits"]:
        """Return the limits that count if the pod finds no place, each looser than the last."""
        limits = list(self.each)
        for number, limit in enumerate(self.each):
            looser = limit.relaxed(pod)
            while looser is not None:
                if not np.array_equal(limits[number].outside(pod), looser.outside(pod)):
                    limits[number] = looser
                    yield PlacementLimits(limits, self._none)
                looser = looser.relaxed(pod)

    def of_pods_together(
        self, pods: Sequence[Pod], free: "FreeCapacity"
    ) -> "PlacementLimits | Finding[RefusalReason]":
        """Return the limits of pods that leave together, or why a limit is unknown."""
        limits = []
        for limit in self.each:
            shared = limit.of_pods_together(pods, free)
            if isinstance(shared, Finding):
                return shared
            limits.append(shared)
        return PlacementLimits(limits, self._none)

    def outside(self, pod: Pod) -> Mask:
        """The nodes where the pod must not land."""
        return reduce(or_, (limit.outside(pod) for limit in self.each), self._none)

    def never_chosen(self, pod: Pod) -> Mask:
        """The nodes where the pod's own scheduler never puts its replacement."""
        return reduce(or_, (limit.never_chosen(pod) for limit in self.each), self._none)

    def extra_cost(self, pod: Pod) -> float:
        """Return the extra cost of a move of the pod because limits are relaxed."""
        return sum(limit.extra_cost(pod) for limit in self.each)

    def named(self, nodes: Mask, pod: Pod) -> list[str]:
        """Return the reasons of limits that exclude some of these nodes."""
        limits = (limit for limit in self.each if limit.reason_for(pod) is not None)
        return [limit.describe(pod) for limit in limits if (nodes & limit.outside(pod)).any()]
