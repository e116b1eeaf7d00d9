"""What is done for one overloaded node: single moves, moves of a plugin together, nothing."""

from collections.abc import Mapping
from typing import Any

import msgspec

from desched.model.plan import Finding, NodeReason, RefusalReason
from desched.planning.overload.node_load import LoadedNode
from desched.planning.placement.destinations import Destinations
from desched.planning.selection.limits import EvictionQuota
from desched.planning.selection.trial import Move

Chosen = tuple[LoadedNode, Move]
"""A move with the node that the pod leaves."""


class SingleMoves(msgspec.Struct, frozen=True):
    """Moves of the node's pods, perhaps none; `left` is the share of its excess that remains.

    `relieved` is whether the node is at its stop lines.
    """

    moves: tuple[Chosen, ...] = ()
    left: float = 1.0
    relieved: bool = False


class Stuck(msgspec.Struct, frozen=True):
    """Nothing moves although the node needs it."""

    why: Finding[NodeReason]


class JointMove(msgspec.Struct, frozen=True):
    """Moves that happen together or not at all.

    `title` names the pods that move. `relieved` is whether the node is at its stop lines. `note` is
    a further reason of each eviction, and `says` are fields of its `PlannedEviction`.
    """

    title: str
    moves: tuple[Chosen, ...]
    relieved: bool
    note: str
    says: Mapping[str, Any]


class NodeSelection(msgspec.Struct, frozen=True):
    """What is done for one node, and the refusals of its other pods, by uid.

    `destinations` and `quota` are the state after the moves.
    """

    outcome: SingleMoves | Stuck | JointMove
    refusals: Mapping[str, Finding[RefusalReason]]
    destinations: Destinations
    quota: EvictionQuota | None

    @property
    def moves(self) -> tuple[Chosen, ...]:
        """All moves in the order of execution."""
        return () if isinstance(self.outcome, Stuck) else self.outcome.moves

    @property
    def left(self) -> float:
        """The share of the excess that single moves leave."""
        return self.outcome.left if isinstance(self.outcome, SingleMoves) else 1.0

    @property
    def relieved(self) -> bool:
        """Whether the node is at its stop lines after the moves."""
        return isinstance(self.outcome, SingleMoves | JointMove) and self.outcome.relieved

    @property
    def stuck(self) -> Finding[NodeReason] | None:
        """Why no pod of the node moves although it needs relief, or None if one moves."""
        return self.outcome.why if isinstance(self.outcome, Stuck) else None
