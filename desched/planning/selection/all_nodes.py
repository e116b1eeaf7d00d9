"""Which pods leave the overloaded nodes: each node in turn, hottest first, and nothing twice.

docs/decisions/0010-choose-once.md compares it with a search over all nodes together.
"""

from collections.abc import Iterable, Mapping

import msgspec

from desched.model.plan import Finding, RefusalReason
from desched.planning.placement.destinations import Destinations
from desched.planning.selection.limits import OF_QUOTA, EvictionQuota
from desched.planning.selection.one_node import (
    Move,
    NodeSelection,
    OverloadedNode,
    select_for_node,
)

MOVABLE_SHARE = 0.5
"""If the best moves clear less of a node's excess, the load is not the pods' to take away."""


class Selection(msgspec.Struct, frozen=True):
    """The moves of a whole plan.

    `nodes` are in the order of acting, `by_node` is keyed by their names, and `destinations` is
    what all the moves leave.
    """

    nodes: tuple[OverloadedNode, ...]
    by_node: Mapping[str, NodeSelection]
    destinations: Destinations

    @property
    def moves(self) -> list[tuple[OverloadedNode, Move]]:
        """All moves with the nodes that they leave, in the order of acting."""
        return [(node, move) for node in self.nodes for move in self.by_node[node.name].moves]


def select_moves(
    nodes: Iterable[OverloadedNode], destinations: Destinations, quota: EvictionQuota
) -> Selection:
    """The moves of a plan; the same for the same nodes in the same order.

    Args:
        nodes: hottest first.
        destinations: where pods may go; not changed.
        quota: what limits and budgets leave; not changed.
    """
    nodes = tuple(nodes)
    selected: dict[str, NodeSelection] = {}
    for node in nodes:
        found = _relieve(node, destinations, quota)
        selected[node.name] = found
        if found.moves:
            destinations, quota = found.destinations, found.quota or quota
    return Selection(nodes, selected, destinations)


def _relieve(
    node: OverloadedNode, destinations: Destinations, quota: EvictionQuota
) -> NodeSelection:
    """The node's moves; none where the best ones would hardly help or no eviction is left."""
    if quota.exhausted:
        stay = dict.fromkeys(node.pods, Finding(quota.exhausted))
        return NodeSelection((), 1.0, stay, destinations, quota)
    found = select_for_node(node, destinations, quota)
    if found.left <= MOVABLE_SHARE:
        return found
    best = found
    if any(finding.reason in OF_QUOTA for finding in found.stay.values()):
        best = select_for_node(node, destinations.without_limits(), None)
        if best.left <= MOVABLE_SHARE:
            return found
    stuck = f"the best moves clear {1 - best.left:.0%} of its excess"
    not_movable = dict.fromkeys(node.pods, Finding(RefusalReason.EXCESS_NOT_MOVABLE, stuck))
    return NodeSelection((), 1.0, {**not_movable, **best.stay}, destinations, quota, stuck)
