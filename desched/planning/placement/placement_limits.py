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
from desched.planning.placement.model_caches import ModelLimits
from desched.planning.plugins import PlacementLimit


class PlacementLimits:
    """The limits by placement domains, by caches of models, and by plugins.

    All pods are on a node. No mask may be modified.
    """

    def __init__(
        self, domains: DomainLimits, models: ModelLimits, of_plugins: Sequence[PlacementLimit]
    ) -> None:
        self.domains, self.models, self.of_plugins = domains, models, of_plugins
        self._may_download, self._loosened = False, 0

    @classmethod
    def of(cls, context: EligibilityContext, arrays: NodeArrays) -> "PlacementLimits":
        """The limits of one plan."""
        limits = (plugin.limit(context, arrays) for plugin in context.policy.plugins)
        of_plugins = [limit for limit in limits if limit is not None]
        return cls(DomainLimits(context, arrays), ModelLimits(context, arrays), of_plugins)

    def loosened(self, steps: int) -> "PlacementLimits":
        """The same, but pods may leave domains that they only prefer, see `preferred_steps`."""
        relaxed: PlacementLimits = copy.copy(self)
        relaxed._loosened = steps
        return relaxed

    def with_downloads(self) -> "PlacementLimits":
        """The same, but pods may download their models again where that is possible."""
        relaxed: PlacementLimits = copy.copy(self)
        relaxed._may_download = True
        return relaxed

    def outside(self, pod: Pod) -> Mask:
        """The nodes where the pod must not land."""
        masks = (limit.outside(pod) for limit in self.of_plugins)
        return reduce(or_, masks, self.outside_domains(pod) | self.without_model(pod))

    def outside_domains(self, pod: Pod) -> Mask:
        """The nodes outside the placement domains of the pod."""
        return self.domains.outside(pod, loosened=self._loosened)

    def without_model(self, pod: Pod) -> Mask:
        """The nodes that lack a model of the pod."""
        return self.models.lacking(pod, may_download=self._may_download)

    def preferred_steps(self, pod: Pod) -> int:
        """In how many steps the pod may leave domains, see `DomainLimits.preferred_steps`."""
        return self.domains.preferred_steps(pod)

    def never_chosen(self, pod: Pod) -> Mask:
        """The nodes where the pod's own scheduler never puts its replacement."""
        return self.domains.never_chosen(pod)

    def domains_of(self, pod: Pod) -> str:
        """The placement domains of the pod; empty without any."""
        return self.domains.describe(pod)
