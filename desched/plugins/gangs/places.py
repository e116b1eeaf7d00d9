"""Places a gang that leaves whole: all its pods leave first, then each of them is placed again.

docs/decisions/0019-gangs-that-move-whole.md has the reasons. Everything that differs while the gang
is away is in this module; the forecast sees it by a `LeavingPod` that is `away`.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from desched.model.cluster import Pod
from desched.model.plan import Finding, RefusalReason
from desched.model.resources import Resource
from desched.planning.kube_scheduler.filters.chain import FilterChain
from desched.planning.kube_scheduler.scores.cluster_view import LeavingPod
from desched.planning.placement.destination import UncertainLanding
from desched.planning.placement.destinations import Destinations
from desched.planning.placement.free_capacity import FreeCapacity
from desched.planning.placement.landing_forecast import Landing
from desched.planning.placement.projected_load import LoadLines, ProjectedLoad


class GangMember(NamedTuple):
    """A pod of a gang that leaves whole.

    `least` is the lowest usage that its node is known to lose, `charge` the usage that a
    destination is charged.
    """

    pod: Pod
    least: Mapping[Resource, float]
    charge: Mapping[Resource, float]


class GangDestinations(Destinations):
    """The destinations of a gang's pods, once all of them have left.

    Each pod that is placed is on the node where it is expected: they change places with each other
    only, so that chances for each of them would count a full node as free, and a free one as full.
    """

    only_expected: ClassVar[bool] = True

    def __init__(self, gang: Sequence[GangMember], before: Destinations) -> None:
        """All pods of the gang leave after the moves `before`, which is not modified."""
        vars(self).update(vars(before))
        self._before = before
        self._together: list[UncertainLanding] = []
        self.free: _VacatedCapacity = _VacatedCapacity(gang, before.free)
        index = self.free.arrays.index
        self._leaving = tuple(LeavingPod(m.pod, index[m.pod.node], gone=True) for m in gang)
        self.view = self.view.without(self._leaving)

    def keep_together(self) -> Finding[RefusalReason] | None:
        """Keep the gang where limits keep it as a whole; why that is not known."""
        limits = self.free.limits.of_pods_together(
            [leaving.pod for leaving in self._leaving], self.free
        )
        if isinstance(limits, Finding):
            return limits
        self.free.limits = limits
        return None

    def refilled(self) -> Destinations:
        """The destinations for other pods, once all pods of the gang have been placed.

        For later moves, each of them may be wherever its scheduler could place it.
        """
        destinations = copy.copy(self._before)
        vars(destinations).update({name: vars(self)[name] for name in vars(destinations)})
        destinations.free = self.free.refilled(self._before.free)
        for spread in self._together:
            destinations.expect(spread)
        return destinations

    def expect(self, spread: UncertainLanding) -> None:
        """Count a replacement also on the nodes where it is not expected, but only at the end."""
        self._together.append(spread)

    def _reserve(self, node: str, pod: Pod, charge: Mapping[Resource, float]) -> None:
        self.free.reserve(node, pod, charge)  # it has left its node already

    def _most_risk_of(self, _: Landing) -> float:
        """The same for all schedulers: a gang's move costs too much to be left to chance."""
        return self.most_risk


class _VacatedCapacity(FreeCapacity):
    """The free capacity without a gang, for its pods alone. They may go where they were."""

    may_return: ClassVar[bool] = True

    def __init__(self, gang: Sequence[GangMember], before: FreeCapacity) -> None:
        vars(self).update(vars(before.copy()))
        for member in gang:
            self._filters.remove(member.pod, self.arrays.index[member.pod.node])
        _vacate(self.load, gang)

    def refilled(self, before: FreeCapacity) -> FreeCapacity:
        """The free capacity for all pods, with the limits and lines of `before`."""
        self.load.lines = before.load.lines
        free = FreeCapacity(self._filters, self.load, before.limits, self.deadline, self._waiting)
        free.unreserved = self.unreserved
        return free

    def _before_leaving(self, pod: Pod) -> FilterChain:
        filters = self._filters.copy()
        filters.add(pod, self.arrays.index[pod.node])
        return filters


def _vacate(load: ProjectedLoad, gang: Sequence[GangMember]) -> None:
    """Take the gang off its nodes; each may receive as much of it again, even above its lines."""
    back = {resource: np.zeros_like(ratios) for resource, ratios in load.ratios.items()}
    for pod, least, charge in gang:
        for resource, ratios in load.ratios.items():
            position = load.index[pod.node]
            denominator = load.denominators[resource][position]
            ratios[position] -= least[resource] / denominator
            back[resource][position] += charge[resource] / denominator
    most = {r: np.where(share > 0, load.ratios[r] + share, 0.0) for r, share in back.items()}
    load.lines = LoadLines(
        {r: np.maximum(ceilings, most[r]) for r, ceilings in load.lines.ceilings.items()},
        {r: np.maximum(targets, most[r]) for r, targets in load.lines.targets.items()},
    )
