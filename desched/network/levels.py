"""How near nodes are to each other in the network: by HyperNodes, Topologies, or labels.

A domain is the tuple of values from the widest level on, so that racks of the same name in
different blocks differ. A node without a level is in nobody's domain from there on. Levels that no
node of the cluster has do not count. Each of the three counts, because each may lack levels that
another one has: HyperNodes for racks only, say, on nodes whose labels name their blocks.

A host of one node keeps no two nodes together. It does not count, except where a system demands it:
else a pod beside a peer could go nowhere. A rack of one node is a rack.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from desched.gangs.topology import GroupTopology
from desched.model.cache import cached
from desched.model.cluster import ClusterState
from desched.network.objects import NetworkObjects, Place
from desched.network.placement_domains import (
    HOSTS,
    DomainMode,
    PlacementDomains,
    key_of_tier,
    tier_of,
)
from desched.planning.arrays import Ints, Mask, Positions
from desched.planning.kube_scheduler.node_arrays import NodeArrays

Rungs = Sequence[tuple[str, ...]]
"""From the widest to the narrowest, each with alternative keys of labels."""


class Domain(NamedTuple):
    """The nodes at these positions are in one domain.

    `level` is the key of the label, or what stands for the HyperNodes of a tier. `name` has the
    values of the labels from the widest level to this one, or is the name of the HyperNode.
    """

    level: str
    name: str
    positions: Positions

    def __str__(self) -> str:
        return f"{self.level}={self.name}" if self.name else self.level


class NodeDomains:
    """The domain of each node on each level, by one source.

    `levels` has a row for each level with a number for each node, -1 without any, so that equal
    numbers are equal values. `names` has the keys of the levels of the node at a position, as a
    policy writes them. `label` is the key and the value that the node at a position has on a level;
    the key of a HyperNode stands for its tier.
    """

    def __init__(
        self,
        levels: Ints,
        names: Callable[[int], Sequence[str]],
        label: Callable[[int, int], "_Label"],
    ) -> None:
        self.names = names
        self._label = label
        self._levels = levels

    @classmethod
    def by_labels(
        cls, arrays: NodeArrays, rungs: Rungs, *, demanded: bool = False
    ) -> "NodeDomains":
        """Domains by labels; hosts of one node are some only where they are `demanded`."""

        def value(position: int, keys: tuple[str, ...]) -> _Label | None:
            labels = arrays.nodes[position].labels
            return next(((key, labels[key]) for key in keys if key in labels), None)

        values = [[value(i, keys) for i in range(len(arrays))] for keys in rungs]
        rows = [numbered(each if demanded else _without_hosts(each)) for each in values]
        levels = np.array(rows, dtype=np.int64).reshape(len(rungs), len(arrays))
        present = np.flatnonzero((levels >= 0).any(axis=1))
        names = [rungs[int(i)][0] for i in present]

        def label(position: int, level: int) -> _Label:
            return value(position, rungs[int(present[level])]) or ("", "")

        return cls(levels[present], lambda _: names, label)

    @classmethod
    def by_hyper_nodes(cls, places: Sequence[Place]) -> "NodeDomains":
        """Domains by HyperNodes; nodes in doubt are in none."""
        depth = max((len(place.path) for place in places), default=0)
        rows = [
            numbered(place.path[i].name if i < len(place.path) else None for place in places)
            for i in range(depth)
        ]
        levels = np.array(rows, dtype=np.int64).reshape(depth, len(places))

        def label(position: int, level: int) -> _Label:
            found = places[position].path[level]
            return key_of_tier(found.tier), found.name

        return cls(
            levels, lambda i: [key_of_tier(hyper_node.tier) for hyper_node in places[i].path], label
        )

    def text(self, position: int, level: int) -> str:
        """What the node at a position has on a level, as in `rack=r1`."""
        key, value = self._label(position, level)
        return f"{key}={value}" if tier_of(key) is None else f"HyperNode {value}"

    def each(self) -> Iterator[Domain]:
        """Every domain of every level, the widest level first."""
        for level in range(len(self._levels)):
            path = self._levels[: level + 1]
            inside = np.flatnonzero((path >= 0).all(axis=0))
            paths, numbers = np.unique(path[:, inside], axis=1, return_inverse=True)
            for number in range(paths.shape[1]):
                positions = inside[numbers.reshape(-1) == number]
                labels = [self._label(int(positions[0]), step) for step in range(level + 1)]
                key, value = labels[-1]
                names = [value for _, value in labels] if tier_of(key) is None else [value]
                yield Domain(key, "/".join(names), positions)

    def shared(self, positions: Sequence[int]) -> int:
        """How many leading levels all these nodes have in common."""
        return int(self.closeness(positions[0])[list(positions)].min())

    def most_frequent(self, positions: Sequence[int], level: int) -> tuple[str, int] | None:
        """What most of these nodes have on a level, and how many; None if none has anything."""
        values = [int(v) for v in self._levels[level, list(positions)]]
        counts = Counter(v for v in values if v >= 0)
        if not counts:
            return None
        most = max(counts.values())
        frequent = (p for p, v in zip(positions, values, strict=True) if counts[v] == most)
        return min(self.text(position, level) for position in frequent), most

    def __len__(self) -> int:
        return len(self._levels)

    def closeness(self, one: int) -> Ints:
        """For each node, how many leading levels it has in common with this node."""
        own = self._levels[:, [one]]
        equal = (self._levels == own) & (own >= 0)
        shared: Ints = np.logical_and.accumulate(equal, axis=0).sum(axis=0, dtype=np.int64)
        return shared


_Label = tuple[str, str]
"""The key and the value of a label."""


def _without_hosts(values: Sequence[_Label | None]) -> Iterator[_Label | None]:
    """The values of a level on each node, None also for a host that no other node is on."""
    nodes = Counter(values)
    for value in values:
        yield None if value is not None and value[0] in HOSTS and nodes[value] == 1 else value


def numbered(values: Iterable[object]) -> Ints:
    """Equal numbers for equal values, -1 for None."""
    numbers: dict[object, int] = {}
    rows = [-1 if v is None else numbers.setdefault(v, len(numbers)) for v in values]
    return np.array(rows, dtype=np.int64)


class Bound(NamedTuple):
    """Where a pod stays: on nodes with at least a number of levels in common with a node.

    The levels are those of the domains of this number, or of these labels. `text` is what the nodes
    have in common. A pod leaves what is only `preferred` if it cannot move inside, level by level:
    then it stays on nodes with one of the numbers `looser` in common, the largest first.
    """

    domains: int | tuple[str, ...]
    node: int
    least: int
    text: str
    preferred: bool = False
    looser: tuple[int, ...] = ()

    def loosened(self, steps: int) -> "Bound | None":
        """The bound without so many of the narrowest preferred levels; None if none is left."""
        if not self.preferred or not steps:
            return self
        return self._replace(least=self.looser[steps - 1]) if steps <= len(self.looser) else None


class NetworkLevels:
    """All that is known about the network between the nodes."""

    def __init__(self, arrays: NodeArrays, cluster: ClusterState, rungs: Rungs) -> None:
        self._arrays = arrays
        self._objects = NetworkObjects.of(cluster.extras)
        self._rungs = rungs

    @property
    def each(self) -> Iterator[Domain]:
        """Every domain that is known, by any of the sources."""
        for domains in self._domains:
            yield from domains.each()

    def outside(self, bound: Bound) -> Mask:
        """The nodes that are not as near as the bound demands."""
        which = bound.domains
        domains = self._domains[which] if isinstance(which, int) else self._by_labels(which)
        mask: Mask = domains.closeness(bound.node) < bound.least
        return mask

    def doubt(self, positions: Iterable[int]) -> str:
        """Why it is not known where one of these nodes is; empty if it is."""
        if not self._objects.hyper_nodes:
            return ""
        return next((d for i in positions if (d := self._places[i].doubt)), "")

    def as_near_as_now(
        self, source: int, peers: Iterable[int], policy: PlacementDomains
    ) -> Iterator[Bound]:
        """The bounds that keep a pod on this node as near to its nearest peer."""
        others = list(peers)
        least = [
            int(self._closeness(number, source)[others].max(initial=0))
            for number in range(len(self._domains))
        ]
        yield from self._bounds(source, least, policy)

    def around(self, positions: Sequence[int], policy: PlacementDomains) -> Iterator[Bound]:
        """The bounds of the narrowest domain that has all these nodes."""
        source, others = positions[0], list(positions)
        least = [
            int(self._closeness(number, source)[others].min())
            for number in range(len(self._domains))
        ]
        yield from self._bounds(source, least, policy)

    def _bounds(
        self, source: int, least: Iterable[int], policy: PlacementDomains
    ) -> Iterator[Bound]:
        """The bounds of a node by the number of levels that count in each of the domains."""
        for number, (domains, shared) in enumerate(zip(self._domains, least, strict=True)):
            modes = [policy.mode_of(key) for key in domains.names(source)[:shared]]
            required = max(
                (i for i, m in enumerate(modes, 1) if m is DomainMode.REQUIRE), default=0
            )
            if required:
                yield Bound(number, source, required, domains.text(source, required - 1))
            preferred = [
                i for i, m in enumerate(modes, 1) if m is DomainMode.PREFER and i > required
            ]
            if preferred:
                *looser, wanted = preferred
                text = domains.text(source, wanted - 1)
                yield Bound(number, source, wanted, text, preferred=True, looser=(*looser[::-1],))

    def spread(self, positions: Sequence[int]) -> tuple[str, str, int]:
        """The narrowest domain with all these nodes, a narrower one with most, and how many not.

        By HyperNodes if they have all of the nodes, else by a Topology, else by labels.
        """
        if not positions:
            return "", "", 0
        of = max(self._domains, key=lambda each: (each.shared(positions) > 0, len(each) > 0))
        shared = of.shared(positions)
        domain = of.text(positions[0], shared - 1) if shared else ""
        next_ = of.most_frequent(positions, shared) if shared < len(of) else None
        if next_ is None or len(set(positions)) == 1:
            return domain, "", 0
        closer, inside = next_
        return domain, closer, len(positions) - inside

    def allowed(self, topology: GroupTopology) -> Sequence[Domain] | str:
        """The domains one of which has a group with a hard topology, or why they are not known."""
        if unclear := self._objects.why_unclear(topology):
            return unclear
        if topology.by_labels:
            domains = self._by_labels(self._objects.levels_to(topology)).each()
            return [domain for domain in domains if domain.level == topology.level]
        highest = self._objects.tree.highest_tier(topology)
        tiers = ((step, tier_of(step.level)) for step in self._domains[0].each())
        return [step for step, tier in tiers if tier is not None and tier <= highest]

    def in_domain(self, topology: GroupTopology, positions: Iterable[int]) -> Bound | str:
        """The bound of a hard topology, given the nodes of the peers, or why it is not known."""
        if unclear := self._objects.why_unclear(topology):
            return unclear
        if topology.by_labels:
            return self._in_level(self._objects.levels_to(topology), sorted(positions))
        return self._in_highest_tier(topology, positions)

    def _in_level(self, levels: tuple[str, ...], positions: Sequence[int]) -> Bound | str:
        """The bound by labels; the schedulers, too, place no pod if peers are in two domains."""
        domains, first, level = self._by_labels(levels), positions[0], levels[-1]
        for i in positions:
            if domains.closeness(i)[i] < len(levels):
                return f"{self._arrays.names[i]} lacks a label of {' > '.join(levels)}"
        if bool((domains.closeness(first)[list(positions)] < len(levels)).any()):
            return f"its pods are in several domains of {level}"
        text = f"{level}={self._arrays.nodes[first].labels[level]}"
        return Bound(levels, first, len(levels), text)

    def _in_highest_tier(self, topology: GroupTopology, positions: Iterable[int]) -> Bound | str:
        tree = self._objects.tree
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

    @cached
    def _closeness(self, number: int, source: int) -> Ints:
        return self._domains[number].closeness(source)

    @cached
    def _by_labels(self, levels: tuple[str, ...]) -> NodeDomains:
        rungs = [(key,) for key in levels]
        return NodeDomains.by_labels(self._arrays, rungs, demanded=True)

    @cached_property
    def _places(self) -> Sequence[Place]:
        """Where each node is, by HyperNodes."""
        tree = self._objects.tree
        return [tree.place(name) for name in self._arrays.names]

    @cached_property
    def _topologies(self) -> Sequence[NodeDomains]:
        return [
            NodeDomains.by_labels(self._arrays, [(key,) for key in topology.levels])
            for topology in sorted(self._objects.topologies, key=lambda it: (it.name, it.system))
        ]

    @cached_property
    def _domains(self) -> Sequence[NodeDomains]:
        return (
            NodeDomains.by_hyper_nodes(self._places),
            *self._topologies,
            NodeDomains.by_labels(self._arrays, self._rungs),
        )
