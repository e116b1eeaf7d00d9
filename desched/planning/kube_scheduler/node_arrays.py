"""The nodes as array positions, in the order of their names."""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from types import MappingProxyType

import msgspec
import numpy as np

from desched.model.cache import cached
from desched.model.cluster import Node
from desched.model.groups import grouped
from desched.model.selectors import NodeSelectorTerm, Operator, Requirement
from desched.planning.arrays import Ints, Mask, Positions
from desched.planning.deadline import ComparisonCounts

NAME = "metadata.name"
"""The only field of a node that a term may be about."""


class Domains(msgspec.Struct, frozen=True):
    """The topology domains of one label key.

    `of`, shape (nodes,), has the domain of each node, -1 for a node without the label. Arrays over
    domains have `count + 1` elements. The last one stands for nodes without the label and is always
    0. Because index -1 is the last element, `array[of]` gives the value of each node's domain.
    """

    of: Positions
    count: int

    def tally(self, positions: Positions) -> Ints:
        """Count how many of these positions, which may repeat, are in each domain."""
        numbers = self.of[positions]
        return np.bincount(numbers[numbers >= 0], minlength=self.count + 1)

    @property
    def labelled(self) -> Mask:
        """The nodes with the label."""
        mask: Mask = self.of >= 0
        return mask


class NodeArrays:
    """The nodes, their positions, and their topology domains, computed on first use.

    `owners` is that of ComparisonCounts.
    """

    def __init__(
        self, nodes: Iterable[Node], owners: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.nodes = tuple(sorted(nodes, key=lambda node: node.name))
        self.names = tuple(node.name for node in self.nodes)
        self.index = {name: i for i, name in enumerate(self.names)}
        self.comparisons = ComparisonCounts(owners)

    def __len__(self) -> int:
        return len(self.nodes)

    def all(self) -> Mask:
        """A new mask with every node."""
        return np.ones(len(self.nodes), dtype=bool)

    def none(self) -> Mask:
        """A new mask with no node."""
        return np.zeros(len(self.nodes), dtype=bool)

    def where(self, predicate: Callable[[Node], bool]) -> Mask:
        """The nodes that satisfy the predicate, as a mask."""
        return np.array([predicate(node) for node in self.nodes], dtype=bool)

    @cached
    def domains(self, topology_key: str) -> Domains:
        """The domains of a label key."""
        numbers: dict[str, int] = {}
        values = (node.labels.get(topology_key) for node in self.nodes)
        of = [-1 if v is None else numbers.setdefault(v, len(numbers)) for v in values]
        return Domains(np.array(of, dtype=np.intp), len(numbers))

    # Tenants write node affinities of any length. Each requirement is evaluated once, for the
    # distinct values of its label; one about a label that no node has costs next to nothing.

    @cached
    def matching(self, term: NodeSelectorTerm) -> Mask:
        """The nodes that the term matches. Cached: do not modify."""
        mask = self.all() if term.labels or term.fields else self.none()
        for requirement in term.labels:
            mask &= self.satisfying(requirement)
        for requirement in term.fields:
            mask &= self._evaluated(requirement, self._by_name if requirement.key == NAME else {})
        return mask

    @cached
    def satisfying(self, requirement: Requirement) -> Mask:
        """The nodes whose labels satisfy the requirement. Cached: do not modify."""
        is_label = requirement.key in self._label_keys
        return self._evaluated(requirement, self._by_value(requirement.key) if is_label else {})

    def _evaluated(self, requirement: Requirement, nodes: Mapping[str, list[int]]) -> Mask:
        """The nodes that satisfy the requirement; `nodes` has those with each value."""
        mask = self.all() if requirement.matches({}) else self.none()
        named = requirement.operator in {Operator.IN, Operator.NOT_IN}
        values = nodes.keys() & requirement.values if named else nodes.keys()
        self.comparisons.add(1 + len(values) + len(requirement.values))
        for value in values:
            mask[nodes[value]] = requirement.matches({requirement.key: value})
        return mask

    @cached_property
    def _by_name(self) -> Mapping[str, list[int]]:
        return {name: [i] for name, i in self.index.items()}

    @cached_property
    def _label_keys(self) -> frozenset[str]:
        return frozenset().union(*(node.labels for node in self.nodes))

    @cached
    def _by_value(self, key: str) -> Mapping[str, list[int]]:
        """The nodes with each value of a label."""
        labels = ((node.labels.get(key), i) for i, node in enumerate(self.nodes))
        return grouped((value, i) for value, i in labels if value is not None)
