"""Tries moves one after the other, each on the state after the earlier ones."""

import msgspec

from desched.model.plan import Finding, RefusalReason
from desched.planning.placement.destination import Destination
from desched.planning.placement.destinations import Destinations
from desched.planning.placement.landing_limits import ANYTHING, Bearable
from desched.planning.selection.candidates import Candidate
from desched.planning.selection.limits import EvictionQuota


class Move(msgspec.Struct, frozen=True):
    """A candidate with the destination where its replacement is expected.

    `saved_minutes` is the expected overload that the source loses.
    """

    candidate: Candidate
    destination: Destination
    saved_minutes: float = 0.0

    def with_saved(self, minutes: float) -> "Move":
        """Return a copy with the expected overload that the source loses."""
        return msgspec.structs.replace(self, saved_minutes=minutes)


class Trial:
    """Tries moves on its own copies of the destinations and the quota.

    A quota of None ignores limits and budgets.
    """

    def __init__(self, destinations: Destinations, quota: EvictionQuota | None) -> None:
        self.destinations = destinations.copy()
        self.quota = quota.copy() if quota else None
        self.moves: list[Move] = []

    def move_of(
        self, candidate: Candidate, bearable: Bearable = ANYTHING
    ) -> Move | Finding[RefusalReason]:
        """Return the candidate's move after those made so far, or the reason why there is none."""
        pod = candidate.pod
        denied = self.quota.why_refused(pod) if self.quota else None
        if denied is not None:
            return denied
        destination = self.destinations.destination_of(pod, candidate.charge, bearable)
        if isinstance(destination, Finding):
            return destination
        if destination.extra_cost:
            cost = candidate.cost + destination.extra_cost
            candidate = msgspec.structs.replace(candidate, cost=cost)
        return Move(candidate, destination)

    def take(self, move: Move) -> None:
        """Make the move."""
        candidate = move.candidate
        self.destinations.take(move.destination, candidate.pod, candidate.charge)
        self.destinations.free.load.remove(candidate.pod.node, candidate.past)
        if self.quota:
            self.quota.take(candidate.pod)
        self.moves.append(move)
