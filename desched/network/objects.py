"""The network between nodes, as objects describe it: HyperNodes, and Topologies.

Sources: volcano.sh/apis topology/v1alpha1, kueue.x-k8s.io/v1beta1, kai.scheduler/v1alpha1.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Annotated, ClassVar, NamedTuple

import msgspec

from desched.gangs.topology import GroupTopology
from desched.model.extras import Objects
from desched.model.names import Instead, LabelValue, NodeName, ObjectName, Plain

UNKNOWN_TIER = 2**31 - 1


class HyperNode(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A part of the network by Volcano: nodes, and smaller parts. A larger tier is wider.

    `unreadable` is why its members or its tier are not known, else empty.
    """

    name: ObjectName
    tier: int
    tier_name: LabelValue = ""
    nodes: tuple[NodeName, ...] = ()
    hyper_nodes: tuple[ObjectName, ...] = ()
    unreadable: Annotated[str, Instead("its members")] = ""


class Topology(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The labels of nodes that name the levels of a network, from the widest to the narrowest."""

    system: Plain
    name: ObjectName
    levels: tuple[Plain, ...] = ()


class Place(NamedTuple):
    """The HyperNodes of a node from the widest to the narrowest, or why they are not known."""

    path: tuple[HyperNode, ...] = ()
    doubt: str = ""


class HyperNodeTree:
    """Where each node is, by all HyperNodes.

    What contradicts itself (a part of itself, a part of two others, a part of what is not wider) is
    in doubt with all nodes below it. A HyperNode whose members are not known may have any node that
    is in no other, and any smaller HyperNode. Members that do not exist count for nothing.
    """

    def __init__(self, hyper_nodes: Iterable[HyperNode]) -> None:
        self._by_name = {hyper_node.name: hyper_node for hyper_node in hyper_nodes}
        self._parents: dict[str, set[str]] = {}
        self._parents_of_nodes: dict[str, set[str]] = {}
        for each in self._by_name.values():
            for name in each.hyper_nodes:
                self._parents.setdefault(name, set()).add(each.name)
            for name in each.nodes:
                self._parents_of_nodes.setdefault(name, set()).add(each.name)
        self._unreadable = sorted(
            (each for each in self._by_name.values() if each.unreadable), key=lambda it: it.name
        )
        self._places: dict[str, Place] = {}

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def place(self, node: str) -> Place:
        """Where the node of this name is; an empty path if no HyperNode has it."""
        parents = sorted(self._parents_of_nodes.get(node, ()))
        if len(parents) > 1:
            return Place((), f"node {node} is in HyperNodes {parents[0]} and {parents[1]}")
        if not parents:
            return Place((), _why_unreadable(self._unreadable[0]) if self._unreadable else "")
        if parents[0] not in self._places:
            self._places[parents[0]] = self._place_of(self._by_name[parents[0]])
        return self._places[parents[0]]

    def lacks(self, topology: GroupTopology) -> str:
        """Why it is not known where a group with this topology may be; empty if it is."""
        if not self:
            return "its network topology is not evaluated, because no HyperNodes are known"
        name = topology.highest_tier_name
        if topology.is_hard and topology.highest_tier is None and name not in self._tiers:
            return f"no HyperNode has the tier {name}"
        return ""

    def highest_tier(self, topology: GroupTopology) -> int:
        """The number of the highest tier that a hard topology allows, if it is known."""
        if topology.highest_tier is not None:
            return topology.highest_tier
        return self._tiers[topology.highest_tier_name]

    @cached_property
    def _tiers(self) -> Mapping[str, int]:
        """The tiers by name; of one with several numbers the lowest, which allows least."""
        named = sorted(((e.tier_name, e.tier) for e in self._by_name.values()), reverse=True)
        return {name: tier for name, tier in named if name}

    def _place_of(self, lowest: HyperNode) -> Place:
        path = [lowest]
        while True:
            doubt, above = self._above(path)
            if doubt or above is None:
                return Place(() if doubt else tuple(reversed(path)), doubt)
            path.append(above)

    def _above(self, path: Sequence[HyperNode]) -> tuple[str, HyperNode | None]:
        """What the last of a path is in, None if it is the widest, or why that is in doubt."""
        at = path[-1]
        parents = sorted(self._parents.get(at.name, ()))
        if at.unreadable:
            return _why_unreadable(at), None
        if len(parents) > 1:
            return f"HyperNode {at.name} is in {parents[0]} and {parents[1]}", None
        if not parents:
            wider = (hyper_node for hyper_node in self._unreadable if hyper_node.tier > at.tier)
            return next(map(_why_unreadable, wider), ""), None
        above = self._by_name[parents[0]]
        if above in path:
            return f"HyperNode {at.name} is a part of itself", None
        if not above.unreadable and above.tier <= at.tier:
            tiers = f"of tier {at.tier} is in {above.name} of tier {above.tier}"
            return f"HyperNode {at.name} {tiers}", None
        return "", above


def _why_unreadable(hyper_node: HyperNode) -> str:
    return f"HyperNode {hyper_node.name} cannot be read: {hyper_node.unreadable}"


class NetworkObjects(Objects, frozen=True):
    """What describes the network between the nodes."""

    plugin: ClassVar[str] = "networks"

    hyper_nodes: tuple[HyperNode, ...] = ()
    topologies: tuple[Topology, ...] = ()

    @cached_property
    def tree(self) -> HyperNodeTree:
        """Where each node is, by HyperNodes."""
        return HyperNodeTree(self.hyper_nodes)

    def why_unclear(self, topology: GroupTopology) -> str:
        """Why it is not known where a group with this topology may be; empty if it is."""
        if not topology.by_labels:
            return self.tree.lacks(topology)
        if not topology.topology:
            return ""
        levels = self._levels_by_name.get(topology.topology)
        if levels is None:
            return f"Topology {topology.topology} is not known"
        wanted = (topology.level, topology.preferred_level)
        missing = next((level for level in wanted if level and level not in levels), "")
        return missing and f"Topology {topology.topology} has no level {missing}"

    def levels_to(self, topology: GroupTopology) -> tuple[str, ...]:
        """The labels from the widest to that of the domain, if these are known."""
        levels = self._levels_by_name.get(topology.topology, (topology.level,))
        return levels[: levels.index(topology.level) + 1]

    @cached_property
    def _levels_by_name(self) -> Mapping[str, tuple[str, ...]]:
        """The levels of the Topologies of KAI, which alone are named."""
        return {
            topology.name: topology.levels
            for topology in self.topologies
            if topology.system == "KAI"
        }
