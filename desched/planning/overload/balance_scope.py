"""The domains within which load is balanced, if the policy names a level for that."""

from collections.abc import Callable, Mapping
from functools import cached_property

from desched.model.cluster import ClusterState, Node
from desched.policy.policy import Policy


class BalanceScope:
    """The domain of each node on the level that `balanceScope` names.

    A domain is the path of values from the widest level on. If the label is of no level, its value
    alone is the domain.
    """

    def __init__(self, cluster: ClusterState, policy: Policy) -> None:
        self._cluster = cluster
        self._policy = policy

    @property
    def is_on(self) -> bool:
        """Return whether there is more than one domain."""
        return bool(self._policy.balance_scope)

    def domain(self, node: Node) -> str | None:
        """Return the domain of a node, or None if the node is in none or its domain is unknown."""
        if not self.is_on:
            return ""
        if node.name not in self._known:
            self._known[node.name] = self._find(node)
        return self._known[node.name]

    def pool(self, pool: str, node: Node) -> str:
        """The name of the part of a pool in the domain of a node."""
        domain = self.domain(node)
        return f"{pool} in {domain}".strip() if domain else pool

    @cached_property
    def _known(self) -> dict[str, str | None]:
        return {}

    @cached_property
    def _find(self) -> Callable[[Node], str | None]:
        scope = self._policy.balance_scope
        found = (plugin.node_domains(scope, self._cluster) for plugin in self._policy.plugins)
        return next((domain for domain in found if domain is not None), self._by_labels)

    def _by_labels(self, node: Node) -> str | None:
        values = [_first(keys, node.labels) for keys in self._levels]
        return None if None in values else "/".join(v for v in values if v is not None)

    @cached_property
    def _levels(self) -> tuple[tuple[str, ...], ...]:
        """Return the levels down to that of the scope, without levels that no node has."""
        key, levels = self._policy.balance_scope, self._policy.domains.rungs
        at = next((i for i, keys in enumerate(levels) if key in keys), None)
        if at is None:
            return ((key,),)
        wider = (
            keys
            for keys in levels[:at]
            if any(_first(keys, node.labels) is not None for node in self._cluster.nodes)
        )
        return (*wider, levels[at])


def _first(keys: tuple[str, ...], labels: Mapping[str, str]) -> str | None:
    return next((labels[key] for key in keys if key in labels), None)
