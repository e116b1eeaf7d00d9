"""Nodes as columns: one array position for each, in the order of their names."""

from collections.abc import Callable, Iterable

import msgspec
import numpy as np

from desched.model.cluster import Node
from desched.planning.arrays import Ints, Mask, Positions


class Domains(msgspec.Struct, frozen=True):
    """The topology domains of one label key.

    `of` has the domain of each node, -1 without the label. Arrays over domains have one more
    element than `count`: the last stands for "no label" and stays 0, so that `array[of]` works.
    """

    of: Positions
    count: int

    def tally(self, positions: Positions) -> Ints:
        """How many of these nodes (with repetition) each domain has."""
        found = self.of[positions]
        return np.bincount(found[found >= 0], minlength=self.count + 1)

    @property
    def labelled(self) -> Mask:
        """Nodes that have the label."""
        mask: Mask = self.of >= 0
        return mask


class NodeArrays:
    """The nodes, their positions, and their topology domains, computed when first asked for."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = tuple(sorted(nodes, key=lambda node: node.name))
        self.names = tuple(node.name for node in self.nodes)
        self.index = {name: i for i, name in enumerate(self.names)}
        self._domains: dict[str, Domains] = {}

    def __len__(self) -> int:
        return len(self.nodes)

    def all(self) -> Mask:
        """Every node; a fresh array."""
        return np.ones(len(self.nodes), dtype=bool)

    def none(self) -> Mask:
        """No node; a fresh array."""
        return np.zeros(len(self.nodes), dtype=bool)

    def where(self, predicate: Callable[[Node], bool]) -> Mask:
        """Nodes of which something is true."""
        return np.array([predicate(node) for node in self.nodes], dtype=bool)

    def domains(self, topology_key: str) -> Domains:
        """The domains of a label key."""
        found = self._domains.get(topology_key)
        if found is None:
            numbers: dict[str, int] = {}
            values = (node.labels.get(topology_key) for node in self.nodes)
            of = [-1 if v is None else numbers.setdefault(v, len(numbers)) for v in values]
            found = Domains(np.array(of, dtype=np.intp), len(numbers))
            self._domains[topology_key] = found
        return found
