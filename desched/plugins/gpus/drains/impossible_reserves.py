"""Which reserves of GPUs the nodes of the cluster cannot give, whatever is drained."""

from collections import Counter
from collections.abc import Iterator, Sequence

from desched.model.cluster import ClusterState, Node
from desched.network.objects import NetworkObjects
from desched.network.placement_domains import tier_of
from desched.plugins.devices import whole_gpus
from desched.plugins.gpus.drains.rules import Reserve
from desched.policy.policy import Policy


def impossible_reserves(
    reserves: Sequence[Reserve], policy: Policy, cluster: ClusterState
) -> tuple[str, ...]:
    """A sentence with file and line for each reserve that needs other nodes."""
    if not reserves:
        return ()
    nodes = [node for node in cluster.nodes if policy.looks_at(node.labels)]
    return tuple(
        f"{reserve.place}: {obstacle}; write a smaller reserve, or add nodes."
        for reserve in reserves
        for obstacle in _obstacles(reserve, nodes, cluster)
    )


def _obstacles(reserve: Reserve, nodes: Sequence[Node], cluster: ClusterState) -> Iterator[str]:
    """Why the nodes cannot give it, the first reason only."""
    large = [node for node in nodes if whole_gpus(node.allocatable) >= reserve.gpus]
    shape = f"{reserve.gpus} GPU{'s' * (reserve.gpus > 1)}"
    tier, key = tier_of(reserve.domain), reserve.domain
    if not large:
        most = max((whole_gpus(node.allocatable) for node in nodes), default=0)
        yield f"no node has {shape}, the most is {most}"
    elif len(large) < reserve.nodes:
        yield f"it needs {reserve.nodes} nodes with {shape}, the cluster has {len(large)}"
    elif tier is not None:
        hyper_nodes = NetworkObjects.of(cluster.extras).hyper_nodes
        if all(hyper_node.tier != tier for hyper_node in hyper_nodes):
            yield f"there is no HyperNode of tier {tier}"
    elif key:
        sizes = Counter(node.labels[key] for node in large if key in node.labels)
        if not sizes:
            yield f"no node with {shape} has the label {key}"
        elif max(sizes.values()) < reserve.nodes:
            ((name, most),) = sizes.most_common(1)
            needed = f"{reserve.nodes} nodes with {shape}"
            yield f"no {key} has {needed}, the largest ({name}) has {most}"
