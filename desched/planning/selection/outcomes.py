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
    """Moves of the node's pods, perhaps none."""

    moves: tuple[Chosen, ...] = ()


class Stuck(msgspec.Struct, frozen=True):
    """Nothing moves although the node needs it."""

    why: Finding[NodeReason]


class JointMove(msgspec.Struct, frozen=True):
    """Moves that happen together or not at all.

    `title` names the pods that move. `note` is a further reason of each eviction, and `says` are
    fields of its `PlannedEviction`.
    """

    title: str
    moves: tuple[Chosen, ...]
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
    def stuck(self) -> Finding[NodeReason] | None:
        """Why no pod of the node moves although it needs relief, or None if one moves."""
        return self.outcome.why if isinstance(self.outcome, Stuck) else None
