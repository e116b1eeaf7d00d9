"""The nodes as array positions, in the order of their names."""

from collections.abc import Callable, Iterable

import msgspec
import numpy as np

from desched.model.cache import cached
from desched.model.cluster import Node
from desched.planning.arrays import Ints, Mask, Positions


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
        found = self.of[positions]
        return np.bincount(found[found >= 0], minlength=self.count + 1)

    @property
    def labelled(self) -> Mask:
        """The nodes with the label."""
        mask: Mask = self.of >= 0
        return mask


class NodeArrays:
    """The nodes, their positions, and their topology domains, computed on first use."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = tuple(sorted(nodes, key=lambda node: node.name))
        self.names = tuple(node.name for node in self.nodes)
        self.index = {name: i for i, name in enumerate(self.names)}

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
