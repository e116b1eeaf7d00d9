"""A load of which the usage of chosen pods is known, as the real reader reads it."""

import math

from msgspec.structs import replace

from desched.model.cluster import ClusterState
from desched.model.load import ClusterLoad, PodChoice
from desched.model.resources import Resource
from desched.policy.policy import Policy
from desched.ports import ChoosePods, LoadReader, all_pods


def known_of(full: ClusterLoad, cluster: ClusterState, chosen: PodChoice) -> ClusterLoad:
    """The load with the usage of these pods, and the sums for these nodes."""
    keys = {(pod.namespace, pod.name) for pod in cluster.pods if chosen.has(pod)}
    return replace(
        full,
        pods={key: usage for key, usage in full.pods.items() if key in keys},
        throttled=full.throttled & keys,
        history=full.history if chosen.has_pods else {},
        pods_of=chosen,
        pod_sums={
            node.name: {
                resource: sums
                for resource in (Resource.CPU, Resource.MEMORY)
                if (sums := _sums(full, cluster, node.name, resource))
            }
            for node in cluster.nodes
            if node.name in chosen.sums
        },
    )


def known_on(full: ClusterLoad, cluster: ClusterState, *nodes: str) -> ClusterLoad:
    """The load with the usage of the pods on these nodes, and sums for all nodes."""
    sums = frozenset(node.name for node in cluster.nodes)
    return known_of(full, cluster, PodChoice(frozenset(nodes), sums=sums))


def _sums(
    full: ClusterLoad, cluster: ClusterState, node: str, resource: Resource
) -> tuple[float, ...]:
    usages = (full.pods.get((p.namespace, p.name)) for p in cluster.pods_by_node.get(node, ()))
    columns = (
        usage.cpu_millicores if resource is Resource.CPU else usage.memory_bytes
        for usage in usages
        if usage is not None
    )
    return tuple(math.fsum(values) for values in zip(*filter(None, columns), strict=True))


class ChosenLoad:
    """The LoadReader port: another one, of which only what is chosen is read.

    `read` counts the readings, by the share of the pods that were read, 1.0 for all.
    """

    def __init__(self, load: LoadReader) -> None:
        self._load = load
        self.read: list[float] = []

    def read_load(
        self, cluster: ClusterState, policy: Policy, choose: ChoosePods = all_pods
    ) -> ClusterLoad:
        full = self._load.read_load(cluster, policy)
        chosen = PodChoice()
        while True:
            found = known_of(full, cluster, chosen)
            wanted = choose(found)
            if wanted is None:
                self.read.append(1.0)
                return full
            if not wanted - chosen:
                self.read.append(sum(map(chosen.has, cluster.pods)) / len(cluster.pods))
                return found
            chosen |= wanted
