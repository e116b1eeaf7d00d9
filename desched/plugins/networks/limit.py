"""Pods do not land outside their placement domains, though the scheduler would place them there."""

from collections.abc import Sequence

from desched.model.cluster import Pod
from desched.model.plan import Finding, RefusalReason
from desched.network.levels import Domain
from desched.planning.arrays import Mask
from desched.planning.placement.free_capacity import FreeCapacity
from desched.planning.plugins import PlacementLimit
from desched.plugins.networks.domains import Domains

OUTSIDE_PREFERRED = 1.0
"""A move out of all domains that are only preferred costs as much as another eviction. One out of
some of their levels costs less: the share that it leaves."""


class DomainLimit(PlacementLimit):
    """The nodes outside the domains of a pod, of which so many preferred steps are `loosened`."""

    words = "node(s) are outside its placement domain"
    reason = RefusalReason.PLACEMENT_DOMAIN

    def __init__(self, domains: Domains, loosened: int = 0) -> None:
        self._domains = domains
        self._loosened = loosened

    def outside(self, pod: Pod) -> Mask:
        """The nodes outside the domains of the pod. Do not modify."""
        return self._domains.outside(pod, loosened=self._loosened)

    def never_chosen(self, pod: Pod) -> Mask:
        """The nodes where the pod's own scheduler, which keeps its gang together, never puts it."""
        return self._domains.never_chosen(pod)

    def describe(self, pod: Pod) -> str:
        """The domains of the pod, as in `nvidia.com/gpu.clique=7`."""
        return self._domains.describe(pod)

    def relaxed(self, pod: Pod) -> "DomainLimit | None":
        """The limit with the next preferred level given up, the narrowest first."""
        if self._loosened == self._domains.preferred_steps(pod):
            return None
        return DomainLimit(self._domains, self._loosened + 1)

    def extra_cost(self, pod: Pod) -> float:
        """What it costs to leave preferred levels."""
        if not self._loosened:
            return 0.0
        return OUTSIDE_PREFERRED * self._loosened / self._domains.preferred_steps(pod)

    def of_pods_together(
        self, gang: Sequence[Pod], free: FreeCapacity
    ) -> "GangLimit | Finding[RefusalReason]":
        """The limit of a gang that leaves whole, or why its HyperNode is not known."""
        inside = self._domains.chosen_by_volcano(gang, free)
        if isinstance(inside, str):
            return Finding(RefusalReason.PLACEMENT_DOMAIN, inside)
        return GangLimit(self._domains, inside)


class GangLimit(PlacementLimit):
    """The limit of a gang's pods: they stay together, but no peer keeps them near any more.

    `inside` is the HyperNode that their scheduler chooses, None if it keeps to none.
    """

    words = DomainLimit.words
    reason = DomainLimit.reason

    def __init__(self, domains: Domains, inside: Domain | None) -> None:
        self._domains = domains
        self._inside = inside

    def outside(self, pod: Pod) -> Mask:
        """The nodes outside the domains of the gang. Do not modify."""
        return self._domains.outside_of_gang(pod, self._inside)

    def never_chosen(self, pod: Pod) -> Mask:
        """The nodes outside the HyperNode that their scheduler chooses."""
        if self._inside is None:
            return super().never_chosen(pod)
        return self._domains.outside_domain(self._inside)

    def describe(self, pod: Pod) -> str:
        """The domains of the gang."""
        return self._domains.describe(pod, whole=True, inside=self._inside)
