"""A load of which the usage of pods is known on chosen nodes only, as the real reader reads it."""

import math

from msgspec.structs import replace

from desched.model.cluster import ClusterState
from desched.model.load import ClusterLoad
from desched.model.resources import Resource
from desched.policy.policy import Policy
from desched.ports import ChooseNodes, LoadReader, all_nodes


def known_on(full: ClusterLoad, cluster: ClusterState, nodes: frozenset[str]) -> ClusterLoad:
    """The load with the usage of pods on these nodes, and sums for all nodes."""
    on_them = {
        (pod.namespace, pod.name) for name in nodes for pod in cluster.pods_by_node.get(name, ())
    }
    on_them |= {(pod.namespace, pod.name) for pod in cluster.pods if pod.node in nodes}
    return replace(
        full,
        pods={key: usage for key, usage in full.pods.items() if key in on_them},
        throttled=full.throttled & on_them,
        history=full.history if nodes else {},
        pods_of=nodes,
        pod_sums={
            node.name: {
                resource: sums
                for resource in (Resource.CPU, Resource.MEMORY)
                if (sums := _sums(full, cluster, node.name, resource))
            }
            for node in cluster.nodes
        },
    )


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

    `read` counts the readings, by the share of the nodes that were read, 1.0 for all.
    """

    def __init__(self, load: LoadReader) -> None:
        self._load = load
        self.read: list[float] = []

    def read_load(
        self, cluster: ClusterState, policy: Policy, choose: ChooseNodes = all_nodes
    ) -> ClusterLoad:
        full = self._load.read_load(cluster, policy)
        nodes: frozenset[str] = frozenset()
        while True:
            found = known_on(full, cluster, nodes)
            chosen = choose(found)
            if chosen is None:
                self.read.append(1.0)
                return full
            if chosen <= nodes:
                self.read.append(len(nodes) / len(cluster.nodes))
                return found
            nodes |= chosen
