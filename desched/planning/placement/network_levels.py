"""How near nodes are to each other in the network: by HyperNodes, Topologies, or labels.

A domain is the tuple of values from the widest level on, so that racks of the same name in
different blocks differ. A node without a level is in nobody's domain from there on. Levels that no
node of the cluster has do not count. Two nodes are compared by HyperNodes if these have both, else
by the Topologies whose labels both have, else by the labels of the policy.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from desched.model.cache import cached
from desched.model.cluster import ClusterState
from desched.model.network_topology import GroupTopology, Place
from desched.planning.arrays import Ints, Mask
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.kube_scheduler.scores.total import HOSTNAME_LABEL
from desched.policy.placement_domains import DomainMode, PlacementDomains, key_of_tier

Rungs = Sequence[tuple[str, ...]]
"""From the widest to the narrowest, each with alternative keys of labels."""


class NodeDomains:
    """The domain of each node on each level; `known` has the nodes that may be compared by it.

    A level has a number for each node, -1 without any, so that equal numbers are equal values.
    `names` has the keys of the levels of the node at a position, as a policy writes them.
    """

    def __init__(
        self, levels: Sequence[Ints], known: Mask, names: Callable[[int], Sequence[str]]
    ) -> None:
        self._levels = levels
        self.known = known
        self.names = names

    @classmethod
    def by_labels(cls, arrays: NodeArrays, rungs: Rungs, *, whole: bool = False) -> "NodeDomains":
        """Domains by labels; with `whole`, nodes that lack a level are not compared."""

        def value(position: int, keys: tuple[str, ...]) -> tuple[str, str] | None:
            labels = arrays.nodes[position].labels
            return next(((key, labels[key]) for key in keys if key in labels), None)

        levels = [numbered(value(i, keys) for i in range(len(arrays))) for keys in rungs]
        known = arrays.all()
        for level in levels if whole else ():
            known &= level >= 0
        present = [(level >= 0).any() for level in levels]
        names = [keys[0] for keys, there in zip(rungs, present, strict=True) if there]
        kept = [level for level, there in zip(levels, present, strict=True) if there]
        return cls(kept, known, lambda _: names)

    @classmethod
    def by_hyper_nodes(cls, places: Sequence[Place]) -> "NodeDomains":
        """Domains by HyperNodes; nodes in none, or in doubt, are not compared."""
        depth = max((len(place.path) for place in places), default=0)
        levels = [
            numbered(place.path[i].name if i < len(place.path) else None for place in places)
            for i in range(depth)
        ]
        known = np.array([bool(place.path) for place in places], dtype=bool)
        return cls(levels, known, lambda i: [key_of_tier(each.tier) for each in places[i].path])

    def closeness(self, one: int) -> Ints:
        """For each node, how many leading levels it has in common with this node."""
        equal = np.ones(len(self.known), dtype=bool)
        found = np.zeros(len(self.known), dtype=np.int64)
        for values in self._levels:
            equal &= (values == values[one]) & (values >= 0)
            found += equal
        return found


def numbered(values: Iterable[object]) -> Ints:
    """Equal numbers for equal values, -1 for None."""
    numbers: dict[object, int] = {}
    found = [-1 if v is None else numbers.setdefault(v, len(numbers)) for v in values]
    return np.array(found, dtype=np.int64)


def _to_last(modes: Sequence[DomainMode], counting: Collection[DomainMode]) -> int:
    """The number of levels down to the last of such a mode; it implies those above it."""
    return max((i for i, mode in enumerate(modes, 1) if mode in counting), default=0)


class Bound(NamedTuple):
    """Where a pod stays: on nodes with at least so many levels in common with a node.

    The levels are those of the domains of this number. `text` is what the nodes have in common. A
    pod leaves what is only `preferred` if it cannot move inside.
    """

    domains: int
    node: int
    least: int
    text: str
    preferred: bool = False


class NetworkLevels:
    """All that is known about the network between the nodes."""

    def __init__(self, arrays: NodeArrays, cluster: ClusterState, rungs: Rungs) -> None:
        self._arrays = arrays
        self._cluster = cluster
        self._rungs = rungs

    def outside(self, bound: Bound) -> Mask:
        """The nodes that are not as near as the bound demands."""
        domains = self._domains[bound.domains]
        found: Mask = domains.closeness(bound.node) < bound.least
        return found

    def doubt(self, positions: Iterable[int]) -> str:
        """Why it is not known where one of these nodes is; empty if it is."""
        if not self._cluster.hyper_nodes:
            return ""
        return next((d for i in positions if (d := self._places[i].doubt)), "")

    def as_near_as_now(
        self, source: int, peers: Iterable[int], policy: PlacementDomains
    ) -> Iterator[Bound]:
        """The bounds that keep a pod on this node as near to its nearest peer."""
        least: dict[int, int] = {}
        for peer in peers:
            for number in self._comparing((source, peer)):
                shared = int(self._closeness(number, source)[peer])
                least[number] = max(least.get(number, 0), shared)
        yield from self._bounds(source, least, policy)

    def around(self, positions: Sequence[int], policy: PlacementDomains) -> Iterator[Bound]:
        """The bounds of the narrowest domain that has all these nodes."""
        source, numbers = positions[0], self._comparing(positions)
        least = {n: int(self._closeness(n, source)[list(positions)].min()) for n in numbers}
        yield from self._bounds(source, least, policy)

    def _bounds(
        self, source: int, least: Mapping[int, int], policy: PlacementDomains
    ) -> Iterator[Bound]:
        """The bounds of a node by the number of levels that count in each of these domains."""
        for number, shared in least.items():
            modes = [policy.mode_of(key) for key in self._domains[number].names(source)[:shared]]
            required = _to_last(modes, {DomainMode.REQUIRE})
            wanted = _to_last(modes, {DomainMode.REQUIRE, DomainMode.PREFER})
            for count, preferred in ((required, False), (wanted, True)):
                if count > (required if preferred else 0):
                    text = f"the {count} widest levels of the network that it shares with its gang"
                    yield Bound(number, source, count, text, preferred)

    def in_highest_tier(self, topology: GroupTopology, positions: Iterable[int]) -> Bound | str:
        """The bound of a hard topology, given the nodes of the peers, or why it is not known."""
        tree = self._cluster.hyper_node_tree
        if unclear := tree.lacks(topology):
            return unclear
        tier = tree.highest_tier(topology)
        places = {i: self._places[i] for i in sorted(positions)}
        outside = next((i for i, place in places.items() if not place.path), None)
        if outside is not None:
            return self._places[outside].doubt or f"{self._arrays.names[outside]} has no HyperNode"
        common = zip(*(place.path for place in places.values()), strict=False)
        shared = [each[0] for each in common if len({one.name for one in each}) == 1]
        allowed = next((i for i, each in enumerate(shared) if each.tier <= tier), None)
        if allowed is None:
            return f"its pods are in no HyperNode of tier {tier} or below"
        return Bound(0, next(iter(places)), allowed + 1, f"HyperNode {shared[allowed].name}")

    def _comparing(self, positions: Sequence[int]) -> Sequence[int]:
        """The numbers of the domains by which these nodes are compared."""
        for rank in self._ranks:
            numbers = [n for n in rank if self._domains[n].known[list(positions)].all()]
            if numbers:
                return numbers
        return ()

    @cached
    def _closeness(self, number: int, source: int) -> Ints:
        return self._domains[number].closeness(source)

    @cached_property
    def _places(self) -> Sequence[Place]:
        """Where each node is, by HyperNodes."""
        tree = self._cluster.hyper_node_tree
        return [tree.place(name) for name in self._arrays.names]

    @cached_property
    def _topologies(self) -> Sequence[NodeDomains]:
        """A level of single nodes keeps nothing together, so a Topology of such does not count."""
        levels = (
            [(key,) for key in topology.levels if key != HOSTNAME_LABEL]
            for topology in self._cluster.topologies
        )
        return [NodeDomains.by_labels(self._arrays, each, whole=True) for each in levels if each]

    @cached_property
    def _domains(self) -> Sequence[NodeDomains]:
        return (
            NodeDomains.by_hyper_nodes(self._places),
            *self._topologies,
            NodeDomains.by_labels(self._arrays, self._rungs),
        )

    @cached_property
    def _ranks(self) -> Sequence[Sequence[int]]:
        last = len(self._domains) - 1
        return (0,), range(1, last), (last,)
