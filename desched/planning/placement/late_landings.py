"""What further soft taints do to replacements of earlier moves that no node may have yet.

A taint for a later move is set right after the evictions before it. A replacement that has landed
by then stays, one that has not may go elsewhere, and meet others there.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile

import msgspec
import numpy as np

from desched.model.cluster import Pod
from desched.model.resources import Resource
from desched.planning.arrays import Floats, Mask, Positions
from desched.planning.kube_scheduler.scores.cluster_view import SchedulerView
from desched.planning.placement.free_capacity import FreeCapacity
from desched.planning.placement.landing_forecast import Landing, after

_EPSILON = 1e-9


class PlannedMove(msgspec.Struct, frozen=True):
    """A move with what counts on its forecast.

    `landing` is as `view` has the cluster, with the taints of this move and of those before it, and
    `bad` are nodes as `Landing.risk` takes them. `charge` is what the replacement will use: all of
    it on the node where it has its room, `reserved`, elsewhere the share `counted`, shape (nodes,).
    `placed` is where each alternative of the view has it. The last two are empty as long as the
    move is only considered.
    """

    landing: Landing
    view: SchedulerView
    bad: Mask
    charge: Mapping[Resource, float]
    counted: Floats
    reserved: str = ""
    placed: Positions | None = None

    @classmethod
    def considered(
        cls, landing: Landing, view: SchedulerView, bad: Mask, charge: Mapping[Resource, float]
    ) -> "PlannedMove":
        """The move as it is forecast."""
        return cls(landing, view, bad, charge, landing.probabilities)

    def taken(self, reserved: str, placed: Positions | None) -> "PlannedMove":
        """The move once it has its room."""
        return msgspec.structs.replace(self, reserved=reserved, placed=placed)


class _Late(msgspec.Struct, frozen=True):
    """A move whose replacement lands when all taints are set, here and on these nodes."""

    move: PlannedMove
    landing: Landing
    placed: Positions | None


class LateLandings(msgspec.Struct, frozen=True):
    """What comes of it if all replacements from one move on land when all taints are set.

    `view` is how the scheduler sees the cluster then.
    """

    landed: tuple[PlannedMove, ...]
    late: tuple[_Late, ...]
    view: SchedulerView

    def followed_by(self, move: PlannedMove) -> "LateLandings":
        """With one more move after all of these."""
        # Earlier ones may have taken the last room of other nodes than expected.
        feasible = move.landing.feasible & self.view.fits(move.landing.departure)
        landing = msgspec.structs.replace(move.landing, feasible=feasible).seen_by(self.view)
        view = after(self.view, landing)
        return LateLandings(self.landed, (*self.late, _Late(move, landing, view.placed)), view)

    def lands_well(self, free: FreeCapacity, most_risk: Callable[[Pod], float]) -> bool:
        """Whether none of the late ones is likelier than this to do harm, alone or together."""
        moves = [(m, m.placed) for m in self.landed] + [(one.move, one.placed) for one in self.late]
        harmed = free.harmed_if((move.charge, move.reserved, placed) for move, placed in moves)
        judged = [one for one in self.late if not one.landing.any_fit]
        return all(
            max(one.landing.risk(one.move.bad), _risk(one, harmed))
            <= most_risk(one.landing.departure.pod)
            for one in judged
        )


def delays(moves: Sequence[PlannedMove], view: SchedulerView) -> tuple[LateLandings, ...]:
    """The longest and the shortest delay that matter, none where the taints affect nothing.

    In the longest, no replacement that these affect has landed before, in the shortest all but the
    last of them have: the extremes stand for what is between them.

    Args:
        moves: taken, in their order.
        view: what the moves leave, with the taints.
    """
    # Taints are only added, so that all moves after the first with the same ones have the same.
    before = list(takewhile(lambda move: _has_fewer_taints(move.view, view), moves))
    first = next((i for i, move in enumerate(before) if _is_affected(move, view)), None)
    if first is None:
        return ()
    further = range(len(before) - 1, first, -1)
    last = next((i for i in further if _is_affected(before[i], view)), first)
    return tuple(_delay(moves, i, view) for i in dict.fromkeys((first, last)))


def _has_fewer_taints(earlier: SchedulerView, view: SchedulerView) -> bool:
    same = earlier.steered is view.steered or np.array_equal(earlier.steered, view.steered)
    return not same


def _is_affected(move: PlannedMove, view: SchedulerView) -> bool:
    """Whether the taints of the view make any landing likelier."""
    seen = move.landing.seen_by(move.view.with_steered(view.steered))
    return bool((seen.probabilities - move.landing.probabilities).max() > _EPSILON)


def _delay(moves: Sequence[PlannedMove], first: int, view: SchedulerView) -> LateLandings:
    delay = LateLandings(tuple(moves[:first]), (), moves[first].view.with_steered(view.steered))
    for move in moves[first:]:
        delay = delay.followed_by(move)
    return delay


def with_delays(
    moves: Sequence[PlannedMove], view: SchedulerView, free: FreeCapacity
) -> tuple[PlannedMove, ...]:
    """The moves, once the room also counts them where the taints of the view may send them."""
    known = delays(moves, view)
    if not known:
        return tuple(moves)
    longest = known[0]
    found = list(longest.landed)
    for move, landing in ((one.move, one.landing) for one in longest.late):
        counted = np.maximum(move.counted, landing.probabilities)
        free.expect(counted - move.counted, move.charge, besides=move.reserved)
        found.append(msgspec.structs.replace(move, counted=counted))
    return tuple(found)


def _risk(late: _Late, harmed: Mask) -> float:
    """The share of the alternatives in which it lands where it does harm."""
    if late.placed is None:
        return 1.0
    harmful = harmed | late.landing.unfamiliar
    harmful[:, late.landing.departure.source] = True
    return float(harmful[np.arange(len(harmful)), late.placed].mean())
