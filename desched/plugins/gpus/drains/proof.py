"""Proves a drain: every pod that leaves fits elsewhere, and then the demand fits on the nodes."""

from typing import NamedTuple

from desched.model.plan import Finding, RefusalReason
from desched.planning.placement.destinations import Destinations
from desched.planning.selection.candidates import Candidate
from desched.planning.selection.limits import EvictionQuota
from desched.planning.selection.trial import Move, Trial
from desched.plugins.devices import whole_gpus
from desched.plugins.gpus.drains.demands import Demand
from desched.plugins.gpus.drains.places import Places

PASSING = frozenset(
    {
        RefusalReason.LIMIT_IN_FLIGHT,
        RefusalReason.NO_NODE_UNDER_CEILING,
        RefusalReason.LANDING_RISK,
        RefusalReason.PLANNING_SHARE_USED,
    }
)
"""Why a pod has no destination now, though it may have one in a later cycle."""


class Unproved(NamedTuple):
    """Why a drain is not proved; `node` is the one whose pod has no destination, if it is that.

    If it `may_pass`, a drain that has begun waits.
    """

    why: str
    node: str = ""
    may_pass: bool = False


def prove(
    demand: Demand, places: Places, destinations: Destinations, quota: EvictionQuota
) -> Destinations | Unproved:
    """The destinations once all pods have left and the demand has landed, or why that fails.

    Only limits by the hour count, because the moves may take several cycles.
    """
    held = destinations.without_limits().held(places.nodes)
    if isinstance(held, str):
        return Unproved(held)
    trial = Trial(held, quota.over_next_cycles())
    for candidate in leaving(places):
        move = trial.move_of(candidate)
        if isinstance(move, Finding):
            reason = f"{candidate.pod.ref} has no other node: {said(move)}"
            return Unproved(reason, candidate.pod.node, move.reason in PASSING)
        trial.take(move)
    after = trial.destinations
    for pod in (each for each in demand.pods if after.free.place_of(each) is None):
        fitting = after.free.schedulable(pod)
        may = places.nodes if whole_gpus(pod.scheduling.requests) else after.free.names
        nodes = [node for node in may if fitting[after.free.arrays.index[node]]]
        if not nodes:
            return Unproved(f"{pod.ref.name} would not fit on {' or '.join(places.nodes)}")
        after.free.reserve(nodes[0], pod, dict.fromkeys(after.free.load.ratios, 0.0))
    return after


def moves_now(
    places: Places, destinations: Destinations, quota: EvictionQuota
) -> tuple[tuple[Move, ...], Destinations, EvictionQuota]:
    """As many of the moves as the limits of this cycle allow, in their order; the state after them.

    The nodes of the drain must be held already.
    """
    trial = Trial(destinations, quota)
    for candidate in leaving_now(places):
        move = trial.move_of(candidate)
        if isinstance(move, Move):
            trial.take(move)
    return tuple(trial.moves), trial.destinations, trial.quota or quota


def leaving_now(places: Places) -> list[Candidate]:
    """The pods that may leave in this cycle as far as they are concerned."""
    later = frozenset().union(*(vacancy.later for vacancy in places.vacancies))
    return [candidate for candidate in leaving(places) if candidate.pod.uid not in later]


def leaving(places: Places) -> list[Candidate]:
    """The pods that leave, in the order of the nodes."""
    return [candidate for vacancy in places.vacancies for candidate in vacancy.leaving]


def said(finding: Finding[RefusalReason]) -> str:
    """A refusal in a sentence: its reason with the details."""
    return f"{finding.reason.value}: {finding.detail}" if finding.detail else finding.reason.value
