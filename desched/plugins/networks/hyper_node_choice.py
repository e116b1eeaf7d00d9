"""Which HyperNode Volcano chooses for a gang that has left whole.

It goes through the tiers that a hard topology allows from the lowest, and stops at the first one
where HyperNodes have room (`hyperNodeGradientFn`). Of these it takes the one that is fullest by
requests with the gang in it (`getSubJobHyperNodeBinPackingScore`). Soft taints count only between
the nodes inside (`allocateForJob`). What is not known here widens the bounds: whether pods that
terminate are gone by then, whether nodes that are not Ready count, and how resources are weighed.

Source: volcano-sh/volcano@ed72c7c8, pkg/scheduler/actions/allocate/allocate.go and
pkg/scheduler/plugins/network-topology-aware/network_topology_aware.go.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from desched.model.cluster import Pod
from desched.network.levels import Domain
from desched.network.placement_domains import tier_of
from desched.planning.arrays import Ints, Positions
from desched.planning.kube_scheduler.filters.resources import named
from desched.planning.placement.free_capacity import FreeCapacity

FULLER_RATIO = 0.05
"""By how much of its CPU and memory a HyperNode must be fuller than another one to be chosen for
certain: other pods come and go until then."""

_WEIGHED = ("cpu", "memory")

Amounts = Mapping[str, int]
"""By the name of the resource."""


class _Fullness(NamedTuple):
    """The lowest and the highest requested share of each resource, with the gang inside."""

    least: Mapping[str, float]
    most: Mapping[str, float]

    def surely_above(self, other: "_Fullness") -> bool:
        """Whether it is the fuller one, whatever the weights of the resources.

        Without CPU and memory nothing has a margin: those that are alike are drawn.
        """
        margins = {name: FULLER_RATIO * (name in _WEIGHED) for name in self.least}
        above = all(self.least[r] >= other.most[r] + margins[r] for r in margins)
        return above and any(margins.values())


class HyperNodeChoice:
    """The choice for one gang, by the free capacity once all its pods have left."""

    def __init__(self, gang: Sequence[Pod], free: FreeCapacity) -> None:
        self._free = free
        self._requests = [named(pod.scheduling.requests) for pod in gang]
        self._kinds = {pod.scheduling: pod for pod in gang}
        self._names = sorted(
            {name for request in self._requests for name, n in request.items() if n}
        )
        self._total = {name: self._sum(name, self._requests) for name in self._names}
        left = [(change.position, change.pod) for change in free.changes if change.sign < 0]
        gone = {pod.uid for _, pod in left}
        residents = ((i, pod) for pod, i in free.index.residents if pod.deleting)
        self._left = _by_position(left)
        self._ending = _by_position((i, pod) for i, pod in residents if pod.uid not in gone)

    def among(self, allowed: Iterable[Domain]) -> Domain | str:
        """The HyperNode that it is if all of the gang fits there, or why it is not known."""
        tiers: dict[int, list[Domain]] = {}
        for each in allowed:
            tiers.setdefault(tier_of(each.level) or 0, []).append(each)
        for tier in sorted(tiers):
            found = [each for each in tiers[tier] if self._may_fit(each.positions)]
            if found:
                return self._fullest(found)
        return "no HyperNode of an allowed tier has room for it"

    def _fullest(self, domains: Sequence[Domain]) -> Domain | str:
        fullness = [self._fullness(domain.positions) for domain in domains]
        best = max(range(len(domains)), key=lambda i: sum(fullness[i].least.values()))
        others = [i for i in range(len(domains)) if i != best]
        rival = next((i for i in others if not fullness[best].surely_above(fullness[i])), None)
        if rival is None:
            return domains[best]
        first, second = sorted((domains[best].name, domains[rival].name))
        return f"Volcano may place it in HyperNode {first} or {second}"

    def _may_fit(self, positions: Positions) -> bool:
        """Whether all pods could have room on these nodes; only by sums, so too often."""
        admitted = [self._free.admitting(pod)[positions] for pod in self._kinds.values()]
        if not all(each.any() for each in admitted):
            return False
        free = {name: self._free_of(name, positions) for name in self._names}
        if any(int(free[name].sum()) < self._total[name] for name in self._names):
            return False
        least = {
            name: min(request.get(name, 0) for request in self._requests) for name in self._names
        }
        slots = [free[name] // n for name, n in least.items() if n]
        most = np.minimum.reduce(slots) * np.logical_or.reduce(admitted)
        return int(most.sum()) >= len(self._requests)

    def _free_of(self, name: str, positions: Positions) -> Ints:
        """What is free on each of these nodes once all pods that terminate are gone."""
        ending = [self._sum(name, self._ending.get(int(i), ())) for i in positions]
        found: Ints = np.maximum(self._row(name)[positions] + np.array(ending, dtype=np.int64), 0)
        return found

    def _row(self, name: str) -> Ints:
        """What is free of a resource on each node. Do not modify."""
        return self._free.requests.row(name)

    def _fullness(self, positions: Positions) -> _Fullness:
        nodes = self._free.arrays.nodes
        ready = np.array([i for i in positions if nodes[i].ready], dtype=np.intp)
        least: dict[str, float] = {}
        most: dict[str, float] = {}
        full = False
        for name in (name for name in self._names if name not in {"pods", "ephemeral-storage"}):
            shares = [s for each in (positions, ready) for s in self._shares(name, each)]
            full |= max(shares) > 1
            least[name], most[name] = min(shares), min(max(shares), 1.0)
        if full:  # a HyperNode that is too full while pods terminate gets no point
            least = dict.fromkeys(least, 0.0)
        return _Fullness(least, most)

    def _shares(self, name: str, positions: Positions) -> Iterator[float]:
        """The share that is requested before and after pods terminate."""
        nodes = self._free.arrays.nodes
        allocatable = sum(named(nodes[i].allocatable).get(name, 0) for i in positions)
        used = allocatable - int(self._row(name)[positions].sum()) + self._total[name]
        ending, leaving = (
            sum(self._sum(name, of.get(int(i), ())) for i in positions)
            for of in (self._ending, self._left)
        )
        for amount in (used - ending, used + leaving):
            yield amount / allocatable if allocatable else 0.0

    @staticmethod
    def _sum(name: str, requests: Iterable[Amounts]) -> int:
        return sum(request.get(name, 0) for request in requests)


def _by_position(pods: Iterable[tuple[int, Pod]]) -> Mapping[int, Sequence[Amounts]]:
    found: dict[int, list[Amounts]] = {}
    for position, pod in pods:
        found.setdefault(position, []).append(named(pod.scheduling.requests))
    return found
