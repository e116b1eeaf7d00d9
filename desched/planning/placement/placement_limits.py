"""Where a pod must not land, though the scheduler would place it there."""

import copy
from collections.abc import Sequence
from functools import reduce
from operator import or_

from desched.model.cluster import Pod
from desched.planning.arrays import Mask
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.placement.domains import DomainLimits
from desched.planning.plugins import PlacementLimit


class PlacementLimits:
    """The limits by placement domains, and those of plugins.

    All pods are on a node. No mask may be modified.
    """

    def __init__(self, domains: DomainLimits, of_plugins: Sequence[PlacementLimit]) -> None:
        self.domains, self.of_plugins = domains, of_plugins
        self._loosened = 0

    @classmethod
    def of(cls, context: EligibilityContext, arrays: NodeArrays) -> "PlacementLimits":
        """The limits of one plan."""
        limits = (plugin.limit(context, arrays) for plugin in context.policy.plugins)
        return cls(DomainLimits(context, arrays), [limit for limit in limits if limit is not None])

    def loosened(self, steps: int) -> "PlacementLimits":
        """The same, but pods may leave domains that they only prefer, see `preferred_steps`."""
        relaxed: PlacementLimits = copy.copy(self)
        relaxed._loosened = steps
        return relaxed

    def relaxed(self, pod: Pod) -> "PlacementLimits | None":
        """The same with what plugins let the pod do if it finds no place; None if nothing."""
        others = [limit.relaxed(pod) for limit in self.of_plugins]
        if not any(others):
            return None
        relaxed: PlacementLimits = copy.copy(self)
        both = zip(others, self.of_plugins, strict=True)
        relaxed.of_plugins = [other or limit for other, limit in both]
        return relaxed

    def outside(self, pod: Pod) -> Mask:
        """The nodes where the pod must not land."""
        masks = (limit.outside(pod) for limit in self.of_plugins)
        return reduce(or_, masks, self.outside_domains(pod))

    def outside_domains(self, pod: Pod) -> Mask:
        """The nodes outside the placement domains of the pod."""
        return self.domains.outside(pod, loosened=self._loosened)

    def preferred_steps(self, pod: Pod) -> int:
        """In how many steps the pod may leave domains, see `DomainLimits.preferred_steps`."""
        return self.domains.preferred_steps(pod)

    def never_chosen(self, pod: Pod) -> Mask:
        """The nodes where the pod's own scheduler never puts its replacement."""
        return self.domains.never_chosen(pod)

    def domains_of(self, pod: Pod) -> str:
        """The placement domains of the pod; empty without any."""
        return self.domains.describe(pod)

    def named(self, nodes: Mask, pod: Pod) -> list[str]:
        """What limits of plugins with a reason say, if they exclude some of these nodes."""
        limits = (limit for limit in self.of_plugins if limit.reason is not None)
        return [limit.describe(pod) for limit in limits if (nodes & limit.outside(pod)).any()]
