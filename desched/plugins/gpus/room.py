"""How many pods would have to leave each node before others find GPUs on it."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from desched.model.cache import cached
from desched.model.cluster import ClusterState, Pod
from desched.model.resources import Amounts, basic
from desched.planning.arrays import Floats, Ints
from desched.planning.kube_scheduler.filters.resources import FreeRequests
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.plugins.gpus.leaving import Leaving, chooses_its_node
from desched.plugins.gpus.set_cover import cheapest_cover

MOST_CHOICES = 12
"""Of the pods of a node, so many that hold most of each resource are among those chosen from."""

STAYING_COST = 1e-3
"""That a pod may not leave counts less than one more pod that has to."""

_BASIC = ("cpu", "memory", "ephemeral-storage", "pods")


class _Wanted(NamedTuple):
    """What each pod wants of a resource, and what is free of it, shape (nodes,)."""

    resource: str
    amount: int
    free: Ints

    def shortage(self, places: Ints) -> Ints:
        """What is missing for these numbers of places, shape (nodes,); 0 where it suffices."""
        missing: Ints = np.maximum(places * self.amount - self.free, 0)
        return missing


class GpuRoom:
    """The room on the nodes of `arrays` once pods have left them; terminating pods have.

    It counts requests. Pods that are on every node never leave.
    """

    def __init__(
        self, cluster: ClusterState, arrays: NodeArrays, requests: FreeRequests, leaving: Leaving
    ) -> None:
        self._arrays = arrays
        self._leaving = leaving
        self._requests = requests.copy()
        self._pods = list[list[Pod]]()
        for position, name in enumerate(arrays.names):
            on_node = cluster.pods_by_node[name]
            for pod in on_node:
                if pod.deleting:
                    self._requests.change(position, pod.scheduling.requests, 1)
            self._pods.append([p for p in on_node if not p.deleting and chooses_its_node(p)])

    def costs(self, pod: Pod, most: int) -> Floats:
        """The pods that must leave each node for 1 to `most` places for such a pod, at least.

        Shape (nodes, most); infinite where that does not suffice. A node of which a pod must leave
        that may not has STAYING_COST more.
        """
        wanted = list(self._wanted(pod.scheduling.requests))
        costs_at = np.zeros((len(self._arrays), most))
        for place in range(most):
            places = np.full(len(self._arrays), place + 1, dtype=np.int64)
            shortages = [(amount.resource, amount.shortage(places)) for amount in wanted]
            least, free = (self._least(shortages, free=free) for free in (False, True))
            costs_at[:, place] = np.where(free > least, least + STAYING_COST, least)
        return costs_at

    def _least(self, shortages: Sequence[tuple[str, Ints]], *, free: bool) -> Floats:
        """The least number of pods that have so much; with `free`, of those that may leave."""
        least = np.zeros(len(self._arrays))
        for resource, shortage in shortages:
            if not shortage.any():
                continue
            by_rules = free and resource not in _BASIC  # to judge all pods with CPU takes long
            held = self._held_free(resource) if by_rules else self._held(resource)
            number = (held < shortage[:, None]).sum(axis=1).astype(np.float64)
            number[held[:, -1] < shortage] = np.inf
            least = np.maximum(least, number)
        return least

    def cover(self, pod: Pod, position: int, places: int) -> Sequence[Pod]:
        """The fewest pods that must leave a node for so many places for such a pod, by name.

        Of equally many, the fewest of them may not leave. `costs` must be finite there. It is exact
        for few pods only.
        """
        of_node = np.full(len(self._arrays), places, dtype=np.int64)
        shortages = [
            (amount.resource, int(missing))
            for amount in self._wanted(pod.scheduling.requests)
            if (missing := amount.shortage(of_node)[position])
        ]
        if not shortages:
            return ()
        pods = self._choices(position, shortages)
        shares = np.array([[_amount(p, name) / short for name, short in shortages] for p in pods])
        staying = np.array([self._leaving.refuse(each) is not None for each in pods])
        costs = 1.0 + staying / (len(pods) + 1)
        return [pods[i] for i in cheapest_cover(shares, costs) or ()] if pods else []

    def _choices(self, position: int, shortages: Sequence[tuple[str, int]]) -> Sequence[Pod]:
        """The pods that hold most of what is missing on a node, by name."""
        chosen = dict[str, Pod]()
        for resource, shortage in shortages:
            holders = [p for p in self._pods[position] if _amount(p, resource)]
            holders.sort(
                key=lambda p: (-_amount(p, resource), self._leaving.refuse(p) is not None, p.ref)
            )
            held = np.cumsum([_amount(holder, resource) for holder in holders])
            least = int(np.searchsorted(held, shortage)) + 1
            chosen |= {each.uid: each for each in holders[: least + MOST_CHOICES]}
        return sorted(chosen.values(), key=lambda each: each.ref)

    def _wanted(self, requests: Amounts) -> Iterator[_Wanted]:
        for row, (name, amount) in enumerate(zip(_BASIC, basic(requests), strict=True)):
            if amount:
                yield _Wanted(name, amount, self._requests.free[row])
        for name, amount in requests.extended:
            if amount:
                yield _Wanted(name, amount, self._requests.free_of(name))

    @cached
    def _held(self, resource: str) -> Ints:
        return _held(self._pods, resource)

    @cached
    def _held_free(self, resource: str) -> Ints:
        """The same of pods that may leave."""
        holders = ([p for p in pods if _amount(p, resource)] for pods in self._pods)
        return _held(
            [[p for p in pods if not self._leaving.refuse(p)] for pods in holders], resource
        )


def _held(pods: Sequence[Sequence[Pod]], resource: str) -> Ints:
    """What 0, 1, … pods of each node have of a resource, largest first, shape (nodes, most + 1)."""
    amounts = [sorted((_amount(pod, resource) for pod in each), reverse=True) for each in pods]
    most = max(map(len, amounts), default=0)
    table = np.zeros((len(pods), most + 1), dtype=np.int64)
    for position, each in enumerate(amounts):
        table[position, 1 : len(each) + 1] = each
    return table.cumsum(axis=1)


def _amount(pod: Pod, resource: str) -> int:
    """What the pod requests of a resource."""
    requests = pod.scheduling.requests
    if resource in _BASIC:
        return basic(requests)[_BASIC.index(resource)]
    return next((count for name, count in requests.extended if name == resource), 0)
