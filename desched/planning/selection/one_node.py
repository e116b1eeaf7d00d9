"""Selects the moves that save most of one node's expected overload for their cost.

The overload that a move saves is that of the source without the pod, less what the pod adds on each
node where it may land, by the probability of the landing. A move must save at least the policy's
price for an eviction, times the cost of this pod. The best move comes first; the next is judged on
what it leaves. Where no move saves its price alone, several may together.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from desched.model.plan import Finding, RefusalReason
from desched.planning.placement.destinations import Destinations
from desched.planning.placement.landing_limits import Bearable
from desched.planning.selection.candidates import Candidate, OverloadedNode
from desched.planning.selection.excess import most_of_destination
from desched.planning.selection.limits import EvictionQuota
from desched.planning.selection.outcomes import NodeSelection, SingleMoves
from desched.planning.selection.trial import Move, Trial

NOT_NEEDED = Finding(RefusalReason.NOT_NEEDED)

LEAST_SAVED_MINUTES = 0.5
"""A smaller difference counts as none, whatever the price."""

MOST_TOGETHER = 12
"""Moves of one node that are judged together."""


def select_for_node(
    node: OverloadedNode,
    destinations: Destinations,
    quota: EvictionQuota | None,
    price: float,
) -> NodeSelection:
    """Select the node's moves; the arguments are not modified.

    A quota of None ignores limits and budgets. `price` is in minutes of expected overload.
    """
    trial = Trial(destinations, quota)
    denied: dict[str, Finding[RefusalReason]] = {}
    costs: dict[str, float] = {}
    left = list(node.candidates)
    while left and _expected_minutes(node, trial) >= max(price, LEAST_SAVED_MINUTES):
        best = _best(left, node, trial, price, denied, costs)
        left = [c for c in left if c.pod.uid not in denied]
        if best is None:
            break
        trial.take(best)
        left = _without(best, left)
    if not trial.moves and _expected_minutes(node, trial) >= 2 * price:
        ahead = Trial(*_over_next_cycles(destinations, quota))
        for planned in _together(node, ahead, price, costs):
            candidate = planned.candidate
            move = trial.move_of(
                candidate, _bearable(candidate, node, trial, planned.saved_minutes)
            )
            if isinstance(move, Finding):
                denied[candidate.pod.uid] = move
            else:
                trial.take(move.with_saved(planned.saved_minutes))
    return _selection(node, trial, denied)


def _over_next_cycles(
    destinations: Destinations, quota: EvictionQuota | None
) -> tuple[Destinations, EvictionQuota | None]:
    """Return the destinations and the quota that the next cycles have together."""
    return destinations.without_limits(), quota.over_next_cycles() if quota else None


def _together(
    node: OverloadedNode, ahead: Trial, price: float, costs: dict[str, float]
) -> list[Move]:
    """Return moves that are worth their price together though none is alone, or none.

    Far above the target, or with two resources above theirs, one small pod saves next to nothing;
    the last of several saves most. Some may have to wait for a later cycle.
    """
    left, surplus, most, count = list(node.candidates), 0.0, 0.0, 0
    while left and len(ahead.moves) < MOST_TOGETHER:
        denied: dict[str, Finding[RefusalReason]] = {}
        best = _best(left, node, ahead, 0.0, denied, costs)
        if best is None:
            break
        left = _without(best, [c for c in left if c.pod.uid not in denied])
        ahead.take(best)
        net = best.saved_minutes - best.destination.cost_minutes
        surplus += net - price * best.candidate.cost
        if surplus > most:
            most, count = surplus, len(ahead.moves)
    return ahead.moves[:count]


def _without(move: Move, candidates: Sequence[Candidate]) -> list[Candidate]:
    return [candidate for candidate in candidates if candidate.pod.uid != move.candidate.pod.uid]


class _Offer(NamedTuple):
    """What the source alone gains by a pod's move, and what the landing costs at least."""

    candidate: Candidate
    saved_minutes: float
    landing_minutes: float

    @property
    def net_minutes(self) -> float:
        """The most that the move can save."""
        return self.saved_minutes - self.landing_minutes

    @property
    def worth(self) -> float:
        """The most that the move can save for each unit of its cost."""
        return self.net_minutes / self.candidate.cost


def _best(
    candidates: Sequence[Candidate],
    node: OverloadedNode,
    trial: Trial,
    price: float,
    denied: dict[str, Finding[RefusalReason]],
    costs: dict[str, float],
) -> Move | None:
    """The move that saves most for its cost; adds why others are not possible.

    `costs` has what the landing of each pod cost when it was last sought. Further moves only make
    it dearer, so the search ends with the first pod that can be worth no more than the best move.
    """
    pasts = np.stack([candidate.past for candidate in candidates])
    saved = trial.destinations.free.load.saved_minutes(node.name, pasts)
    offers = [
        _Offer(candidate, minutes, costs.get(candidate.pod.uid, 0.0))
        for candidate, minutes in zip(candidates, saved.tolist(), strict=True)
    ]
    best: Move | None = None
    best_worth = 0.0
    for offer in sorted(offers, key=lambda each: (-each.worth, each.candidate.pod.ref)):
        uid = offer.candidate.pod.uid
        if best is not None and offer.worth <= best_worth:
            break
        least = max(LEAST_SAVED_MINUTES, price * offer.candidate.cost)
        if offer.net_minutes < least:
            denied[uid] = _too_little(offer.net_minutes, least)
            continue
        most_minutes = offer.saved_minutes - least
        move = trial.move_of(offer.candidate, _bearable(offer.candidate, node, trial, most_minutes))
        if isinstance(move, Finding):
            denied[uid] = move
            continue
        costs[uid] = move.destination.cost_minutes
        net = offer.saved_minutes - move.destination.cost_minutes
        least = max(LEAST_SAVED_MINUTES, price * move.candidate.cost)
        if net < least:
            denied[uid] = _too_little(net, least)
        elif net / move.candidate.cost > best_worth:
            best, best_worth = move.with_saved(offer.saved_minutes), net / move.candidate.cost
    return best


def _expected_minutes(node: OverloadedNode, trial: Trial) -> float:
    """The expected overload of the node after the moves so far."""
    return trial.destinations.free.load.expected_minutes(node.name)


def _bearable(
    candidate: Candidate, node: OverloadedNode, trial: Trial, most_minutes: float
) -> Bearable:
    """Return what the move may do to its destination."""
    gone = [*(move.candidate for move in trial.moves), candidate]
    return Bearable(most_of_destination(node.loaded, gone), most_minutes)


def _too_little(saved: float, price: float) -> Finding[RefusalReason]:
    does = f"save {saved:.0f}" if saved >= 0 else f"add {-saved:.0f}"
    detail = f"its move would {does} minutes of overload, and must save {price:.0f}"
    return Finding(RefusalReason.NO_RELIEF, detail)


def _selection(
    node: OverloadedNode, trial: Trial, denied: dict[str, Finding[RefusalReason]]
) -> NodeSelection:
    """The moves of the trial, and a refusal for each other candidate."""
    gone = [move.candidate for move in trial.moves]
    moved = {candidate.pod.uid for candidate in gone}
    refusals = {
        c.pod.uid: denied.get(c.pod.uid, NOT_NEEDED)
        for c in node.candidates
        if c.pod.uid not in moved
    }
    moves = tuple((node.loaded, move) for move in trial.moves)
    return NodeSelection(SingleMoves(moves), refusals, trial.destinations, trial.quota)
