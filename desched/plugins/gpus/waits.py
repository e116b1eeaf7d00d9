"""The pods that wait for GPUs, and which nodes are closest to having room for them.

A node is closer than another one if fewer pods would have to leave it, and then if fewer of these
may not. Only requests, node selectors, node affinity and taints count, and the topology of a gang.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from desched.gangs.members import gang_members, gangs_of
from desched.gangs.pod_groups import PodGroup
from desched.model.cluster import Pod
from desched.model.groups import grouped
from desched.network.levels import Domain, NetworkLevels
from desched.network.plugin import domains_of
from desched.planning.arrays import Floats, Mask, Positions
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.kube_scheduler.filters.node_constraints import NodeFilter
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.plugins.devices import is_whole_gpu, whole_gpus
from desched.plugins.gpus.facts import ClosestNode, GpuAnswer, GpuWait, PodInTheWay
from desched.plugins.gpus.leaving import Leaving
from desched.plugins.gpus.room import GpuRoom

MOST_WAITS = 50
"""For so many kinds of waiting pods closest nodes are searched, those of high priority first."""

MOST_NODES_COMPARED = 50
"""Of nodes that seem equally close, so many are compared in detail, by name."""

MOST_PLACES = 16
"""Places on one node that are considered for the pods of a gang."""


class Waiting(NamedTuple):
    """Pods of one kind that wait for the same GPUs; `groups` are those of their gangs."""

    pods: Sequence[Pod]
    groups: tuple[PodGroup, ...]
    resource: str
    gpus: int

    def answered(
        self, answer: GpuAnswer, nodes: Iterable[ClosestNode] = (), detail: str = ""
    ) -> GpuWait:
        """The answer for them."""
        gang = str(self.groups[0]) if self.groups else ""
        pods = tuple(pod.ref for pod in self.pods)
        return GpuWait(pods, gang, self.resource, self.gpus, answer, tuple(nodes), detail)


def waiting_for_gpus(context: EligibilityContext) -> Sequence[Waiting]:
    """The pods for which their scheduler finds no node, and which need whole GPUs.

    The highest priority comes first, then the oldest.
    """
    found = [
        (pod, name, count)
        for pod in context.cluster.pods
        if pod.unschedulable and not (pod.node or pod.finished or pod.deleting or pod.gated)
        for name, count in pod.scheduling.requests.extended
        if count and is_whole_gpu(name)
    ]
    found.sort(key=lambda each: (-each[0].priority, each[0].created_at, each[0].ref))
    kinds = grouped(((_kind(each[0], context), *each[1:]), each[0]) for each in found)
    return [
        Waiting(pods, tuple(gangs_of(pods[0], context)), resource, gpus)
        for (_, resource, gpus), pods in kinds.items()
    ]


def _kind(pod: Pod, context: EligibilityContext) -> object:
    """The same for pods that need the same, of a gang, or else of a workload."""
    gangs = tuple(gang.key for gang in gangs_of(pod, context))
    return gangs or pod.controller or pod.ref, pod.scheduling


class ClosestNodes:
    """Finds the nodes that are closest to having room for pods, by the room on all nodes."""

    def __init__(
        self,
        context: EligibilityContext,
        arrays: NodeArrays,
        counted: Mask,
        room: GpuRoom,
        leaving: Leaving,
    ) -> None:
        """`counted` are the nodes whose idle GPUs are known and may be used."""
        self._arrays = arrays
        self._counted = counted
        self._room = room
        self._leaving = leaving
        self._admission = NodeFilter(arrays)
        self._network = NetworkLevels(arrays, context.cluster, domains_of(context.policy).rungs)
        self._context = context

    def answers(self, waiting: Sequence[Waiting]) -> Iterator[GpuWait]:
        """What keeps each of them from getting GPUs."""
        for number, each in enumerate(waiting):
            if number < MOST_WAITS:
                yield self._answer(each)
            else:
                yield each.answered(GpuAnswer.NOT_SEARCHED)

    def _answer(self, waiting: Waiting) -> GpuWait:
        pod, number = waiting.pods[0], len(waiting.pods) if waiting.groups else 1
        admitting = self._admission.verdict(pod.scheduling).passing & self._counted
        if not admitting.any():
            return waiting.answered(GpuAnswer.NOT_ADMITTED)
        costs = self._room.costs(pod, min(number, MOST_PLACES))
        costs[~admitting] = np.inf
        domains = self._domains(waiting)
        if isinstance(domains, str):
            return waiting.answered(GpuAnswer.NO_DOMAIN, detail=domains)
        found = [each for each in (_cheapest(costs, number, d) for d in domains) if each]
        if not found:
            limited = len(domains) != 1 or domains[0].level
            large = GpuAnswer.NO_DOMAIN if limited else GpuAnswer.TOO_LARGE
            return waiting.answered(large)
        best = min(found, key=lambda each: each.cost)
        places = best.places
        if number == 1:
            places = [(self._compared(pod, costs[:, 0], best.domain.positions), 1)]
        nodes = [self._closest(pod, position, count) for position, count in places]
        kept = any(node.leaving for node in nodes)
        answer = GpuAnswer.PODS_IN_THE_WAY if kept else GpuAnswer.HAS_ROOM
        return waiting.answered(answer, nodes, str(best.domain))

    def _compared(self, pod: Pod, costs: Floats, positions: Positions) -> int:
        """The closest of these nodes, of equal ones the first; one of them can have room.

        `costs`, shape (nodes,), is what it costs at least on each of all nodes.
        """
        able = positions[np.isfinite(costs[positions])]
        ranked = able[np.argsort(costs[able], kind="stable")]
        least = (len(self._context.cluster.pods), 0), int(ranked[0])
        for position in map(int, ranked[:MOST_NODES_COMPARED]):
            if (int(costs[position]), int(costs[position] % 1 > 0)) > least[0]:
                break
            leaving = self._closest(pod, position, 1).leaving
            staying = sum(each.reason is not None for each in leaving)
            least = min(least, ((len(leaving), staying), position))
        return least[1]

    def _closest(self, pod: Pod, position: int, places: int) -> ClosestNode:
        pods = self._room.cover(pod, position, places)
        return ClosestNode(self._arrays.names[position], places, tuple(map(self._in_the_way, pods)))

    def _in_the_way(self, pod: Pod) -> PodInTheWay:
        gpus, finding = whole_gpus(pod.scheduling.requests), self._leaving.refuse(pod)
        if finding is None:
            return PodInTheWay(pod.ref, gpus)
        return PodInTheWay(pod.ref, gpus, finding.reason, finding.detail)

    def _domains(self, waiting: Waiting) -> Sequence[Domain] | str:
        """The domains one of which must have all pods of a gang, or why they are not known."""
        for group in waiting.groups:
            if group.topology is None or not group.topology.is_hard:
                continue
            peers = self._context.derived(gang_members).get(group.key, ())
            on = {self._arrays.index[p.node] for p in peers if p.node in self._arrays.index}
            if not on:
                return self._network.allowed(group.topology)
            bound = self._network.in_domain(group.topology, on)
            if isinstance(bound, str):
                return bound
            return [Domain(bound.text, "", np.flatnonzero(~self._network.outside(bound)))]
        return [Domain("", "", np.arange(len(self._arrays)))]


class _Filled(NamedTuple):
    """Places in a domain as (position of the node, number), and what they cost."""

    cost: float
    domain: Domain
    places: Sequence[tuple[int, int]]


def _cheapest(costs: Floats, number: int, domain: Domain) -> _Filled | None:
    """So many places on the nodes of a domain, those first that cost least for each.

    `costs`, shape (nodes, most), is that of 1, 2, … places on a node. None if there are too few.
    """
    left, total, rows = number, 0.0, costs[domain.positions].copy()
    chosen = np.zeros(len(rows), dtype=np.int64)
    most = rows.shape[1]
    while left and len(rows):
        each = rows[:, :left] / np.arange(1, min(left, most) + 1)
        row, last = np.unravel_index(int(np.argmin(each)), each.shape)
        cost, more = rows[row, last], int(last) + 1
        if np.isinf(cost):
            return None
        total, left = total + float(cost), left - more
        chosen[row] += more
        rows[row] = np.concatenate((rows[row, more:] - cost, np.full(more, np.inf)))
    if left:
        return None
    used = np.flatnonzero(chosen)
    places = [(int(domain.positions[row]), int(chosen[row])) for row in used]
    return _Filled(total, domain, places)
