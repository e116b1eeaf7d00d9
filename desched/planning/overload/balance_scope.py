"""The domains within which load is balanced, if the policy names a level for that."""

from collections.abc import Callable
from functools import cached_property

from desched.model.cluster import ClusterState, Node
from desched.policy.policy import Policy


class BalanceScope:
    """The domain of each node on the level that `balanceScope` names.

    Plugins know the domains on levels of the network. For any other label its value is the domain.
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
        key = self._policy.balance_scope
        of_plugins = (plugin.node_domains(key, self._cluster) for plugin in self._policy.plugins)
        return next(filter(None, of_plugins), lambda node: node.labels.get(key))
