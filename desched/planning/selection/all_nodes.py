"""Selects pods node by node, most overloaded node first, and never returns to a node.

docs/decisions/0010-choose-once.md compares this with a search over all nodes together.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from desched.model.plan import Finding, NodeReason, RefusalReason
from desched.planning.placement.destinations import Destinations
from desched.planning.plugins import Relief
from desched.planning.selection.candidates import OverloadedNode
from desched.planning.selection.limits import OF_QUOTA, EvictionQuota
from desched.planning.selection.one_node import select_for_node
from desched.planning.selection.outcomes import (
    Chosen,
    JointMove,
    NodeSelection,
    SingleMoves,
    Stuck,
)


class Selection(msgspec.Struct, frozen=True):
    """The moves of a whole plan.

    `nodes` are in the order of execution, `by_node` has their names as keys. `before` is the state
    before the first move, `destinations` and `quota` are the one after all moves.
    """

    nodes: tuple[OverloadedNode, ...]
    by_node: Mapping[str, NodeSelection]
    before: Destinations
    destinations: Destinations
    quota: EvictionQuota

    @property
    def moves(self) -> list[Chosen]:
        """All moves with their source nodes, in the order of execution."""
        return [chosen for node in self.nodes for chosen in self.by_node[node.name].moves]

    @property
    def joint_moves(self) -> list[JointMove]:
        """The moves that happen together or not at all."""
        outcomes = (selected.outcome for selected in self.by_node.values())
        return [outcome for outcome in outcomes if isinstance(outcome, JointMove)]


def select_moves(
    nodes: Iterable[OverloadedNode],
    destinations: Destinations,
    quota: EvictionQuota,
    reliefs: Iterable[Relief] = (),
    *,
    price: float,
) -> Selection:
    """Select the moves of these nodes in their order; the arguments are not modified.

    The `reliefs` are asked in turn about a node that no single moves relieve.
    """
    nodes, reliefs, before = tuple(nodes), tuple(reliefs), destinations
    selected: dict[str, NodeSelection] = {}
    leaving: dict[str, Finding[RefusalReason]] = {}
    for node in nodes:
        if node.name in leaving:
            refusals = dict.fromkeys(node.pods, leaving[node.name])
            selected[node.name] = NodeSelection(SingleMoves(), refusals, destinations, quota)
            continue
        selection = _relieve(node, destinations, quota, price)
        for relief in reliefs:
            if selection.stuck and node.loaded.overloaded:
                selection = relief.relieve(node, selection)
        if isinstance(selection.outcome, JointMove):
            settling_reason = f"{selection.outcome.title} leaves it first"
            settling = Finding(RefusalReason.NODE_SETTLING, settling_reason)
            leaving |= {source.node.name: settling for source, _ in selection.moves}
        selected[node.name] = selection
        if selection.moves:
            destinations, quota = selection.destinations, selection.quota or quota
    return Selection(nodes, selected, before, destinations, quota)


def _relieve(
    node: OverloadedNode,
    destinations: Destinations,
    quota: EvictionQuota,
    price: float,
) -> NodeSelection:
    """Select the node's moves: none if none saves its price, or if the quota is exhausted."""
    if quota.exhausted:
        refusals = dict.fromkeys(node.pods, quota.exhausted)
        return NodeSelection(SingleMoves(), refusals, destinations, quota)
    selected = select_for_node(node, destinations, quota, price)
    if selected.moves:
        return selected
    if node.later or any(finding.reason in OF_QUOTA for finding in selected.refusals.values()):
        # Without limits, would a move save enough? Then the next cycles go on.
        open_ended = node.with_later(), destinations.without_limits(), None
        if select_for_node(*open_ended, price).moves:
            return selected
    full = next(iter(node.loaded.saturated.values()), "")
    reason = Finding(NodeReason.EXCESS_NOT_MOVABLE, _why_stuck(node, selected))
    if full:
        reason = Finding(NodeReason.POOL_SATURATED, full)
    return NodeSelection(Stuck(reason), selected.refusals, destinations, quota)


def _why_stuck(node: OverloadedNode, selection: NodeSelection) -> str:
    """Return what keeps the pods of the node, the most frequent reason first."""
    reasons = Counter(finding.reason for finding in selection.refusals.values())
    if reasons.keys() == {RefusalReason.NO_RELIEF}:
        reason = "no move of a pod saves as much overload as an eviction costs"
        return reason + (f"; {_listed(node.refused)}" if node.refused else "")
    return f"no pod can move: {_listed(reasons + Counter(node.refused))}"


def _listed(reasons: Mapping[RefusalReason, int]) -> str:
    if not reasons:
        return "none runs on it"
    most_first = sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{reason.value} keeps {count}" for reason, count in most_first)
