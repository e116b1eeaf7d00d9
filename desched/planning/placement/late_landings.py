"""How new soft taints may redirect replacements of earlier moves that are not scheduled yet.

desched sets the taints of a move right after the evictions before it. A replacement that has landed
by then stays. A late one sees the new taints, may land on another node, and meet others there.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile

import msgspec
import numpy as np

from desched.model.cluster import Pod
from desched.model.resources import Resource
from desched.planning.arrays import Floats, Mask, Positions
from desched.planning.kube_scheduler.scores.cluster_view import LeavingPod, SchedulerView
from desched.planning.placement.landing_forecast import Landing, after
from desched.planning.placement.projected_load import ProjectedLoad

MOST_LATE = 10
"""The maximum number of late replacements at a time: those of half a minute at 20 evictions a
minute. Each one costs a forecast, in each case and for each move that sets taints."""

_EPSILON = 1e-9


class ForecastMove(msgspec.Struct, frozen=True):
    """A planned move and everything that depends on its forecast.

    `landing` is the forecast in `view`, which has the taints of this move and of those before it.
    `bad` has the bad nodes, see `Landing.risk`. `charge` is the expected usage of the replacement.
    All of it counts on the node `reserved`; on other nodes the share `counted`, shape (nodes,).
    `placed`, shape (alternatives,), is the position of its node in each alternative of the view.
    A move that is only considered has neither `reserved` nor `placed`. `leaving` is the whole gang
    that leaves before the first of its pods lands, in the move of this pod.
    """

    landing: Landing
    view: SchedulerView
    bad: Mask
    charge: Mapping[Resource, float]
    counted: Floats
    reserved: str = ""
    placed: Positions | None = None
    leaving: tuple[LeavingPod, ...] = ()


class _Late(msgspec.Struct, frozen=True):
    """A move whose replacement lands after all taints are set, with its new forecast."""

    move: ForecastMove
    landing: Landing
    placed: Positions | None


class LateLandings(msgspec.Struct, frozen=True):
    """One case: all replacements from one move on land after all taints are set.

    `landed` are the moves whose replacements landed before, as forecast; `late` are all others.
    `view` is the scheduler's view after all of them.
    """

    landed: tuple[ForecastMove, ...]
    late: tuple[_Late, ...]
    view: SchedulerView

    def followed_by(self, move: ForecastMove) -> "LateLandings":
        """The same case with one more late move."""
        # Late replacements may have taken the last room of other nodes than forecast.
        before = self.view.without(move.leaving)
        feasible = move.landing.feasible & before.fits(move.landing.departure)
        landing = msgspec.structs.replace(move.landing, feasible=feasible).seen_by(before)
        view = after(before, landing)
        return LateLandings(self.landed, (*self.late, _Late(move, landing, view.placed)), view)

    def lands_well(self, load: ProjectedLoad, most_risk: Callable[[Pod], float]) -> bool:
        """Whether each late replacement stays within its maximum risk, alone and together."""
        moves = [(m, m.placed) for m in self.landed] + [(one.move, one.placed) for one in self.late]
        harmed = load.harmed_if((move.charge, move.reserved, placed) for move, placed in moves)
        judged = [one for one in self.late if not one.landing.any_fit]
        return all(
            max(one.landing.risk(one.move.bad), _risk(one, harmed))
            <= most_risk(one.landing.departure.pod)
            for one in judged
        )


def late_landings(moves: Sequence[ForecastMove], view: SchedulerView) -> tuple[LateLandings, ...]:
    """The two extreme cases of late landings; empty if the taints affect no earlier move.

    In one case all replacements that the taints affect are late, in the other only the last of
    them. The two stand for all cases between them. `view` is the scheduler's view after the moves,
    with the new taints.
    """
    # Moves only add taints, so the moves with fewer taints than the view are the first ones.
    before = list(takewhile(lambda move: _has_fewer_taints(move.view, view), moves))
    recent = range(max(0, len(moves) - MOST_LATE), len(before))
    first = next((i for i in recent if _is_affected(before[i], view)), None)
    if first is None:
        return ()
    further = range(len(before) - 1, first, -1)
    last = next((i for i in further if _is_affected(before[i], view)), first)
    return tuple(_late_from(moves, i, view) for i in dict.fromkeys((first, last)))


def _has_fewer_taints(earlier: SchedulerView, view: SchedulerView) -> bool:
    same = earlier.steered is view.steered or np.array_equal(earlier.steered, view.steered)
    return not same


def _is_affected(move: ForecastMove, view: SchedulerView) -> bool:
    """Whether the view's taints make the landing on any node more likely."""
    seen = move.landing.seen_by(move.view.with_steered(view.steered))
    return bool((seen.probabilities - move.landing.probabilities).max() > _EPSILON)


def _late_from(moves: Sequence[ForecastMove], first: int, view: SchedulerView) -> LateLandings:
    case = LateLandings(tuple(moves[:first]), (), moves[first].view.with_steered(view.steered))
    left = msgspec.structs.replace(moves[first], leaving=())  # its view is without its gang
    for move in (left, *moves[first + 1 :]):
        case = case.followed_by(move)
    return case


def with_late_landings(
    moves: Sequence[ForecastMove], view: SchedulerView, load: ProjectedLoad
) -> tuple[ForecastMove, ...]:
    """Reserve room also where the view's taints may redirect replacements; return the moves.

    Of each move, only the probability that exceeds its `counted` share is added.
    """
    cases = late_landings(moves, view)
    if not cases:
        return tuple(moves)
    most = cases[0]  # the case with the most late moves
    found = list(most.landed)
    for move, landing in ((one.move, one.landing) for one in most.late):
        counted = np.maximum(move.counted, landing.probabilities)
        load.expect(counted - move.counted, move.charge, besides=move.reserved)
        found.append(msgspec.structs.replace(move, counted=counted))
    return tuple(found)


def _risk(late: _Late, harmed: Mask) -> float:
    """The share of alternatives in which the replacement does harm on the node where it lands."""
    if late.placed is None:
        return 1.0
    # A row of `harmful` is an alternative; `placed` has the column where the pod is in it.
    harmful = harmed | late.landing.wrong
    return float(harmful[np.arange(len(harmful)), late.placed].mean())
