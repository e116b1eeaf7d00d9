"""A load of which the usage of chosen pods is known, as the real reader reads it."""

import math

from msgspec.structs import replace

from desched.model.cluster import ClusterState
from desched.model.load import ClusterLoad, PodChoice
from desched.model.resources import Resource


def known_of(full: ClusterLoad, cluster: ClusterState, chosen: PodChoice) -> ClusterLoad:
    """The load with the usage of these pods, and the sums for these nodes."""
    keys = {(pod.namespace, pod.name) for pod in cluster.pods if chosen.has(pod)}
    return replace(
        full,
        pods={key: usage for key, usage in full.pods.items() if key in keys},
        throttled=full.throttled & keys,
        pod_pasts={key: past for key, past in full.pod_pasts.items() if past.node in chosen.pasts},
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
