"""The domain of each node on one level of the network: its HyperNode, or a path of labels."""

from collections.abc import Callable, Mapping

from desched.model.cluster import ClusterState, Node
from desched.network.levels import Rungs
from desched.network.objects import NetworkObjects

DomainOfNode = Callable[[Node], str | None]


def by_tier(tier: int, cluster: ClusterState) -> DomainOfNode:
    """The HyperNode of this tier that has the node; None also if that is in doubt."""
    tree = NetworkObjects.of(cluster.extras).tree

    def hyper_node(node: Node) -> str | None:
        path = tree.place(node.name).path
        return next((part.name for part in path if part.tier == tier), None)

    return hyper_node


def by_labels(key: str, rungs: Rungs, cluster: ClusterState) -> DomainOfNode | None:
    """The values from the widest level to that of the label, without levels that no node has.

    None if the label is of no level.
    """
    at = next((i for i, keys in enumerate(rungs) if key in keys), None)
    if at is None:
        return None
    wider = (
        keys
        for keys in rungs[:at]
        if any(_first(keys, node.labels) is not None for node in cluster.nodes)
    )
    levels = (*wider, rungs[at])

    def path(node: Node) -> str | None:
        values = [_first(keys, node.labels) for keys in levels]
        return None if None in values else "/".join(v for v in values if v is not None)

    return path


def _first(keys: tuple[str, ...], labels: Mapping[str, str]) -> str | None:
    return next((labels[key] for key in keys if key in labels), None)
