"""Where a demand could run: on free nodes, and on nodes that lose the fewest and cheapest pods."""

import math
from collections.abc import Collection, Mapping, Sequence

import msgspec
import numpy as np

from desched.gangs.members import gang_members
from desched.model.cache import cached
from desched.model.cluster import Pod
from desched.model.resources import Resource
from desched.network.levels import NetworkLevels, numbered
from desched.network.plugin import domains_of
from desched.planning.arrays import Mask
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.placement.free_capacity import FreeCapacity
from desched.plugins.devices import whole_gpus
from desched.plugins.gpus.drains.demands import Demand
from desched.plugins.gpus.drains.reserves import domain_of
from desched.plugins.gpus.drains.vacancies import Vacancies, Vacancy

MOST_DOMAINS = 50
"""The most domains of the network in which places are sought."""


class Places(msgspec.Struct, frozen=True):
    """A node for each pod of a demand, and what leaves those nodes for it."""

    nodes: tuple[str, ...]
    vacancies: tuple[Vacancy, ...]

    @property
    def cost(self) -> float:
        """The cost of all moves."""
        return math.fsum(vacancy.cost for vacancy in self.vacancies)

    @property
    def moves(self) -> int:
        """The number of moves."""
        return sum(len(vacancy.leaving) for vacancy in self.vacancies)


class Search:
    """Finds places for demands after the moves of a plan so far."""

    def __init__(self, context: EligibilityContext, vacancies: Vacancies) -> None:
        self._context = context
        self._vacancies = vacancies

    def best(self, demand: Demand, free: FreeCapacity, banned: Collection[str]) -> Places | str:
        """The places for the cheapest moves in any domain, or why there are none.

        `banned` nodes lose no pod.
        """
        domains = self._domains(demand, free)
        if isinstance(domains, str):
            return domains
        answers = [self.cheapest(demand, free, within, banned) for within in domains]
        places = [answer for answer in answers if isinstance(answer, Places)]
        if places:
            return min(places, key=lambda each: (each.cost, each.nodes))
        whys = (answer for answer in answers if isinstance(answer, str))
        return next(whys, "no domain that it may run in is known")

    def _domains(self, demand: Demand, free: FreeCapacity) -> list[Mask] | str:
        """The sets of nodes of which one must have all pods, or why they are not known."""
        if demand.reserve is not None:
            scope = domain_of(demand.reserve, self._context.cluster, self._context.policy)
            return _masks(numbered(map(scope.domain, free.arrays.nodes)))
        topology = demand.gang.topology if demand.gang is not None else None
        if topology is None or not topology.is_hard or demand.gang is None:
            return [free.arrays.all()]
        network = self._network(free.arrays)
        peers = {
            free.arrays.index[pod.node]
            for pod in self._context.derived(gang_members)[demand.gang.key]
            if pod.node in free.arrays.index
        }
        masks: list[Mask] = []
        covered = free.arrays.none()
        for position in [min(peers)] if peers else range(len(free.arrays)):
            if covered[position]:
                continue
            bound = network.in_domain(topology, peers or {position})
            if isinstance(bound, str):
                if peers:
                    return bound
                continue
            masks.append(~network.outside(bound))
            covered |= masks[-1]
        return masks[:MOST_DOMAINS]

    def cheapest(
        self, demand: Demand, free: FreeCapacity, within: Mask, banned: Collection[str]
    ) -> Places | str:
        """The places within these nodes for the cheapest moves, or why there are none.

        Pods are placed one after the other, the largest first; a node that is free already comes
        first. `banned` nodes lose no pod.
        """
        free = free.copy()
        nodes: list[str] = []
        vacancies: dict[str, Vacancy] = {}
        for pod in demand.pods:
            reserved = free.place_of(pod)
            if reserved is not None:
                nodes.append(reserved)
                continue
            open_nodes = within.copy()
            if demand.reserve is not None:
                open_nodes[[free.arrays.index[node] for node in nodes]] = False
            found = self._free_node(pod, free, open_nodes, nodes)
            if found is None:
                vacancy = self._vacancy(pod, demand, free, open_nodes, banned)
                if isinstance(vacancy, str):
                    return vacancy
                found = vacancy.node
                free = free.vacated(candidate.pod for candidate in vacancy.leaving)
                vacancies[found] = _joined(vacancies.get(found), vacancy)
            free.reserve(found, pod, _NO_USAGE)
            if whole_gpus(pod.scheduling.requests):
                nodes.append(found)
        return Places(tuple(dict.fromkeys(nodes)), tuple(vacancies.values()))

    @cached
    def _network(self, arrays: NodeArrays) -> NetworkLevels:
        return NetworkLevels(arrays, self._context.cluster, domains_of(self._context.policy).rungs)

    def _free_node(
        self, pod: Pod, free: FreeCapacity, within: Mask, used: Sequence[str]
    ) -> str | None:
        """A node where the pod fits now: one that the demand uses already, else the first."""
        usable = self._usable(free) if whole_gpus(pod.scheduling.requests) else True
        fitting = np.flatnonzero(free.schedulable(pod) & within & usable)
        if not len(fitting):
            return None
        names = [free.names[int(position)] for position in fitting]
        return next((name for name in names if name in used), names[0])

    def _usable(self, free: FreeCapacity) -> Mask:
        """The nodes that may be drained. Do not modify."""
        return self._of_nodes(free.arrays)

    @cached
    def _of_nodes(self, arrays: NodeArrays) -> Mask:
        return arrays.where(lambda node: node.name in self._vacancies.nodes)

    def _vacancy(
        self,
        pod: Pod,
        demand: Demand,
        free: FreeCapacity,
        within: Mask,
        banned: Collection[str],
    ) -> Vacancy | str:
        """The cheapest vacancy for the pod, or why there is none."""
        admitting = free.admitting(pod) & within & self._usable(free)
        names = (free.names[int(position)] for position in np.flatnonzero(admitting))
        answers = [
            self._vacancies.on(name, pod, demand.priority, free)
            for name in names
            if name not in banned
        ]
        whys: list[str] = []
        vacancies = (answer for answer in answers if isinstance(answer, Vacancy))
        for vacancy in sorted(vacancies, key=lambda each: (each.cost, each.node)):
            reason = _unfit(vacancy, pod, free)
            if not reason:
                return vacancy
            whys.append(f"{vacancy.node}: {reason}")
        whys += [answer for answer in answers if isinstance(answer, str)]
        if not whys:
            return "no node with whole GPUs and known load admits it"
        return whys[0] if len(whys) == 1 else f"on none of {len(whys)} nodes; {whys[0]}"


_NO_USAGE: Mapping[Resource, float] = dict.fromkeys(Resource, 0.0)


def _unfit(vacancy: Vacancy, pod: Pod, free: FreeCapacity) -> str:
    """Why the pod cannot have the node although it has enough once others leave; else empty."""
    homeless = next((c.pod for c in vacancy.leaving if not _fits(c.pod, free)), None)
    if homeless is not None:
        return f"{homeless.ref} fits on no other node"
    vacated = free.vacated(candidate.pod for candidate in vacancy.leaving)
    if vacated.schedulable(pod)[free.arrays.index[vacancy.node]]:
        return ""
    return f"{pod.ref.name} does not fit beside the pods that stay"


def _fits(pod: Pod, free: FreeCapacity) -> bool:
    """Whether the pod would fit on another node now."""
    fitting = free.schedulable(pod)
    fitting[free.arrays.index[pod.node]] = False
    return bool(fitting.any())


def _joined(before: Vacancy | None, vacancy: Vacancy) -> Vacancy:
    if before is None:
        return vacancy
    return Vacancy(vacancy.node, (*before.leaving, *vacancy.leaving), before.later | vacancy.later)


def _masks(domains: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> list[Mask]:
    """A mask for each number that is not negative."""
    return [domains == number for number in range(int(domains.max(initial=-1)) + 1)]
