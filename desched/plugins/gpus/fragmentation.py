"""Fragmentation of GPUs: how much of what is idle the pods of the cluster could not use.

It is the measure of Weng et al. ("Beware of Fragmentation", USENIX ATC 2023). Of a node it is the
expected number of its idle GPUs that a pod cannot use, if the pod is one of the cluster's at
random: all of them if the pod finds no room there or needs no GPU, else those parts that are too
small for it.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from operator import itemgetter
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np

from desched.model.cluster import ClusterState, SchedulingClass
from desched.model.resources import Amounts
from desched.planning.arrays import Floats, Ints, Mask
from desched.planning.kube_scheduler.filters.node_constraints import NodeFilter
from desched.planning.kube_scheduler.filters.resources import FreeRequests
from desched.plugins.devices import whole_gpus
from desched.plugins.gpus.leaving import chooses_its_node

COVERED_SHARE = 0.95
"""The most frequent classes count until this share of the pods is among them."""

MOST_CLASSES = 500

T = TypeVar("T", bound=Hashable)


def popular(counts: Mapping[T, int]) -> Mapping[T, float]:
    """The share of each of the most frequent classes, which cover 95 % of all; their sum is 1.

    Of equally frequent ones the first of the mapping wins.
    """
    ranked = sorted(counts.items(), key=itemgetter(1), reverse=True)[:MOST_CLASSES]
    least, covered = COVERED_SHARE * sum(counts.values()), 0
    chosen = list[tuple[T, int]]()
    for kind, count in ranked:
        if covered >= least:
            break
        chosen.append((kind, count))
        covered += count
    return {kind: count / covered for kind, count in chosen}


def fragmentation(residuals: Floats, hosts: Mask, needs: Floats, shares: Floats) -> Floats:
    """The fragmentation of each node in GPUs, shape (nodes,).

    Args:
        residuals: what is idle of each GPU of each node, 1.0 for all of it, shape (nodes, GPUs).
            Whole GPUs are all alike, so that one column may have the number of idle ones.
        hosts: whether a node has room for a pod of a class, shape (classes, nodes).
        needs: what a pod of a class needs of each of its GPUs, 0 without any, shape (classes,).
        shares: the shares of the classes, whose sum is 1, shape (classes,). Without classes nothing
            is known to be of no use, and the fragmentation is 0.
    """
    waste: Floats = residuals.sum(axis=1) * shares.sum()
    for need in np.unique(needs[needs > 0]):
        usable = (residuals * (residuals >= need)).sum(axis=1)
        of_need = needs == need
        waste -= usable * (shares[of_need] @ hosts[of_need])
    return np.clip(waste, 0.0, residuals.sum(axis=1))  # sums of shares are not exact


class PodClasses(NamedTuple):
    """The most frequent kinds of pods, and the share of each; their sum is 1.

    Pods of a kind request the same CPU, memory and devices, and may go to the same nodes.
    """

    kinds: tuple[SchedulingClass, ...]
    shares: Floats

    @classmethod
    def of(cls, cluster: ClusterState, nodes: Iterable[str]) -> "PodClasses":
        """The kinds of the pods on these nodes, and of pending pods with GPUs.

        Pods of DaemonSets and static pods do not count: every node has them.
        """
        on_nodes = (pod for name in nodes for pod in cluster.pods_by_node.get(name, ()))
        pending = (
            pod
            for pod in cluster.pods
            if not pod.node and not pod.finished and whole_gpus(pod.scheduling.requests)
        )
        counts, classes = Counter[int](), dict[int, SchedulingClass]()
        for pod in (*on_nodes, *pending):
            if chooses_its_node(pod):
                counts[id(pod.scheduling)] += 1
                classes[id(pod.scheduling)] = pod.scheduling
        kinds = Counter[SchedulingClass]()
        for number, count in counts.items():
            kinds[_kind(classes[number])] += count
        shares = popular(dict(sorted(kinds.items(), key=lambda pair: msgspec.json.encode(pair[0]))))
        return cls(tuple(shares), np.array(list(shares.values()), dtype=np.float64))

    def fragmentation(self, idle: Ints, requests: FreeRequests, nodes: NodeFilter) -> Floats:
        """The fragmentation of each node in GPUs, shape (nodes,).

        `idle` has its idle GPUs, shape (nodes,). `requests` is what is free, and `nodes` admits
        pods; both are of the same nodes.
        """
        needs = np.array([whole_gpus(kind.requests) > 0 for kind in self.kinds], dtype=np.float64)
        hosts = np.zeros((len(self.kinds), len(idle)), dtype=bool)
        for number in np.flatnonzero(needs):
            kind = self.kinds[number]
            hosts[number] = requests.enough(kind.requests) & nodes.verdict(kind).passing
        return fragmentation(idle[:, None].astype(np.float64), hosts, needs, self.shares)


def _kind(scheduling: SchedulingClass) -> SchedulingClass:
    """What pods of a class have in common."""
    wanted = scheduling.requests
    return SchedulingClass(
        Amounts(wanted.cpu_millicores, wanted.memory_bytes, extended=wanted.extended),
        scheduling.node_selector,
        scheduling.required_node_affinity,
        scheduling.tolerations,
    )
