"""HyperNodes with the nodes that they select, and the levels of Topologies.

Sources: volcano.sh/apis topology/v1alpha1, kueue.x-k8s.io/v1beta1 and v1beta2,
kai.scheduler/v1alpha1.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any

import msgspec
from pydantic_core import SchemaError, SchemaValidator, core_schema

from desched.api_objects import metadata
from desched.api_objects.access import Access, list_and_watch
from desched.api_objects.decoding import UNDECODABLE, RawDecoder
from desched.api_objects.kinds import Kind, Lists
from desched.api_objects.plugin_kinds import PluginKinds, SystemRights
from desched.api_objects.selectors import label_selector
from desched.model.cluster import Node
from desched.model.groups import grouped
from desched.model.selectors import LabelSelector
from desched.model.text import shortened
from desched.network.objects import UNKNOWN_TIER, HyperNode, NetworkObjects, Topology
from desched.plugins.networks import wire


def _rights(kind: str, version: str, without: str) -> tuple[Access, Access]:
    """The rights to read what describes the network."""
    return list_and_watch(kind, "the levels of the network between nodes", without, version)


_LABELS_COUNT = "only labels of nodes name the levels of the network"
_HYPER_NODE_RIGHTS = _rights(
    "topology.volcano.sh hypernodes",
    "v1alpha1",
    f"pods with a network topology stay, and {_LABELS_COUNT}",
)
_KUEUE_RIGHTS = _rights("kueue.x-k8s.io topologies", "v1beta1", _LABELS_COUNT)
_KAI_RIGHTS = _rights("kai.scheduler topologies", "v1alpha1", _LABELS_COUNT)
_KUEUE_LISTS = tuple(
    _KUEUE_RIGHTS[0]._replace(version=version) for version in ("v1beta1", "v1beta2")
)
"""Kueue served both versions for a while, with the same objects, and then the newer one only."""

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
    _HYPER_NODE_RIGHTS[0], wire.Described, _selecting, is_optional=True, is_discovered=True
)

TOPOLOGIES: tuple[Kind[Any, Topology], ...] = tuple(
    Kind(access, wire.Described, partial(_topology, system), is_optional=True, is_discovered=True)
    for system, access in (
        *(("Kueue", access) for access in _KUEUE_LISTS),
        ("KAI", _KAI_RIGHTS[0]),
    )
)


def _all(lists: Lists, nodes: Sequence[Node]) -> NetworkObjects:
    """The HyperNodes with their members, and the Topologies, each once."""
    topologies = (topology for kind in TOPOLOGIES for topology in lists.all(kind))
    return NetworkObjects(
        hyper_nodes(lists.all(HYPER_NODES), nodes), tuple(dict.fromkeys(topologies))
    )


NETWORK_KINDS = PluginKinds(
    NetworkObjects,
    (HYPER_NODES, *TOPOLOGIES),
    SystemRights(
        name="networks",
        title="network topologies",
        unread="Only labels of nodes name the levels of the network.",
        read={
            "KAI": _KAI_RIGHTS[:1],
            "Kueue": _KUEUE_LISTS,
            "Volcano": _HYPER_NODE_RIGHTS[:1],
        },
        granted={"kai": _KAI_RIGHTS, "kueue": _KUEUE_RIGHTS, "volcano": _HYPER_NODE_RIGHTS},
    ),
    _all,
)
