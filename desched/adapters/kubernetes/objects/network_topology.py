"""HyperNodes with the nodes that they select, and the levels of Topologies.

Sources: volcano.sh/apis topology/v1alpha1, kueue.x-k8s.io/v1beta1 and v1beta2,
kai.scheduler/v1alpha1.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any

import msgspec
from pydantic_core import SchemaError, SchemaValidator, core_schema

from desched.adapters.kubernetes.client.access import (
    LIST_HYPER_NODES,
    LIST_KAI_TOPOLOGIES,
    LIST_KUEUE_TOPOLOGIES,
)
from desched.adapters.kubernetes.client.api_types import network_topology as wire
from desched.adapters.kubernetes.objects.selectors import label_selector
from desched.api_objects import metadata
from desched.api_objects.decoding import UNDECODABLE, RawDecoder
from desched.api_objects.kinds import Kind
from desched.model.cluster import Node
from desched.model.groups import grouped
from desched.model.network_topology import UNKNOWN_TIER, HyperNode, Topology
from desched.model.selectors import LabelSelector
from desched.model.text import shortened

_HYPER_NODE = RawDecoder(wire.HyperNodeSpec)
_TOPOLOGY = RawDecoder(wire.TopologySpec)


class SelectingHyperNode(msgspec.Struct, frozen=True, gc=False):
    """A HyperNode with selectors in place of its members; `unreadable` as in HyperNode."""

    name: str
    spec: wire.HyperNodeSpec
    unreadable: str = ""


def _selecting(item: wire.Described) -> SelectingHyperNode:
    try:
        spec = _HYPER_NODE(item.spec)
    except UNDECODABLE as error:
        return _unreadable(item.metadata.name, str(error))
    if spec is None:
        return _unreadable(item.metadata.name, "it has no spec")
    return SelectingHyperNode(item.metadata.name, spec)


def _unreadable(name: str, problem: str) -> SelectingHyperNode:
    return SelectingHyperNode(name, wire.HyperNodeSpec(UNKNOWN_TIER), shortened(problem))


def _topology(system: str, item: wire.Described) -> Topology:
    """The labels of its levels; none if it cannot be read, so that it counts for nothing."""
    try:
        spec = _TOPOLOGY(item.spec) or wire.TopologySpec()
    except UNDECODABLE:
        spec = wire.TopologySpec()
    levels = tuple(level.node_label for level in spec.levels or ())
    return Topology(system, item.metadata.name, levels)


def hyper_nodes(
    selecting: Sequence[SelectingHyperNode], nodes: Sequence[Node]
) -> tuple[HyperNode, ...]:
    """The HyperNodes with the members that they select now."""
    if not selecting:
        return ()
    members = _Members(nodes, [hyper_node.name for hyper_node in selecting])
    return tuple(map(members.resolved, selecting))


class _Members:
    """All that a HyperNode may select."""

    def __init__(self, nodes: Sequence[Node], names: Collection[str]) -> None:
        self._nodes = nodes
        self._hyper_nodes = names

    def resolved(self, hyper_node: SelectingHyperNode) -> HyperNode:
        """The HyperNode with its members."""
        spec, problem = hyper_node.spec, hyper_node.unreadable
        nodes: dict[str, None] = {}
        parts: dict[str, None] = {}
        for member in spec.members or ():
            try:
                if member.type == "Node":
                    nodes |= dict.fromkeys(self._selected_nodes(member.selector))
                elif member.type == "HyperNode":
                    parts |= dict.fromkeys(self._selected_parts(member.selector))
                else:
                    problem = problem or f"members of type {member.type} are not known"
            except (SchemaError, ValueError) as error:
                problem = problem or shortened(str(error))
        return HyperNode(
            hyper_node.name, spec.tier, spec.tier_name, tuple(nodes), tuple(parts), problem
        )

    def _selected_nodes(self, selector: wire.MemberSelector) -> Iterable[str]:
        if selector.label_match is None:
            return _by_name(selector, self._node_names)
        labels = _labels(selector.label_match)
        exact = labels.one_of_labels()
        some = (
            self._nodes if exact is None else [n for k in exact for n in self._by_label.get(k, ())]
        )
        return [node.name for node in some if labels.matches(node.labels)]

    def _selected_parts(self, selector: wire.MemberSelector) -> Iterable[str]:
        if selector.label_match is not None:
            raise ValueError("labelMatch selects nodes only")
        return _by_name(selector, self._hyper_nodes)

    @cached_property
    def _node_names(self) -> Sequence[str]:
        return [node.name for node in self._nodes]

    @cached_property
    def _by_label(self) -> dict[tuple[str, str], list[Node]]:
        return grouped((label, node) for node in self._nodes for label in node.labels.items())


def _labels(selector: metadata.LabelSelector) -> LabelSelector:
    """The selector.

    Raises:
        ValueError: it has an unknown operator, or selects everything, which Volcano reads as none.
    """
    labels = label_selector(selector)
    if not labels.requirements:
        raise ValueError("labelMatch is empty")
    return labels


def _by_name(selector: wire.MemberSelector, names: Iterable[str]) -> Iterable[str]:
    if selector.regex_match is not None:
        matches = _pattern(selector.regex_match.pattern).isinstance_python
        return [name for name in names if matches(name)]
    if selector.exact_match is None:
        raise ValueError("a member has no selector")
    return [selector.exact_match.name]


@lru_cache(maxsize=4096)
def _pattern(text: str) -> SchemaValidator:
    """Whether a name has a match of the pattern.

    Volcano uses the expressions of Go. Those of Rust read alike, and take linear time as well;
    Python's may take forever.
    """
    return SchemaValidator(core_schema.str_schema(pattern=text, regex_engine="rust-regex"))


HYPER_NODES: Kind[Any, SelectingHyperNode] = Kind(
    LIST_HYPER_NODES, wire.Described, _selecting, is_optional=True, is_discovered=True
)

TOPOLOGIES: tuple[Kind[Any, Topology], ...] = tuple(
    Kind(access, wire.Described, partial(_topology, system), is_optional=True, is_discovered=True)
    for system, access in (
        ("Kueue", LIST_KUEUE_TOPOLOGIES),
        ("Kueue", LIST_KUEUE_TOPOLOGIES._replace(version="v1beta2")),
        ("KAI", LIST_KAI_TOPOLOGIES),
    )
)
"""Kueue served both versions for a while, with the same objects, and then the newer one only."""
