"""Tries moves one after the other, each on the state after the earlier ones."""

from collections.abc import Iterable

import msgspec

from desched.model.plan import Finding, RefusalReason
from desched.planning.overload.node_load import LoadedNode
from desched.planning.placement.destination import Destination
from desched.planning.placement.destinations import Destinations
from desched.planning.placement.projected_load import NO_LIMITS
from desched.planning.selection.candidates import Candidate
from desched.planning.selection.eviction_cost import OUTSIDE_PREFERRED
from desched.planning.selection.excess import Excess
from desched.planning.selection.limits import EvictionQuota


class Move(msgspec.Struct, frozen=True):
    """A candidate with the destination where its replacement is expected."""

    candidate: Candidate
    destination: Destination


class Trial:
    """Tries moves on its own copies of the destinations and the quota.

    A quota of None ignores limits and budgets. If `source` is levelled, it loses one pod, and no
    destination may have more load than it is left with.
    """

    def __init__(
        self,
        destinations: Destinations,
        quota: EvictionQuota | None,
        source: LoadedNode | None = None,
    ) -> None:
        self.destinations = destinations.copy()
        self.quota = quota.copy() if quota else None
        self.moves: list[Move] = []
        self._levelled = Excess(source) if source is not None and source.is_levelled else None

    @property
    def is_levelled(self) -> bool:
        """Whether the source is levelled."""
        return self._levelled is not None

    def move_all(self, candidates: Iterable[Candidate]) -> dict[str, Finding[RefusalReason]]:
        """Move these candidates until one is denied; return that one's uid with the reason."""
        for candidate in candidates:
            move = self.find(candidate)
            if isinstance(move, Finding):
                return {candidate.pod.uid: move}
            self.take(move)
        return {}

    def find(self, candidate: Candidate) -> Move | Finding[RefusalReason]:
        """Return the candidate's move after those made so far, or the reason why there is none."""
        pod = candidate.pod
        denied = self.quota.refuse(pod) if self.quota else None
        if denied is not None:
            return denied
        at_most = self._levelled.levels((candidate,)) if self._levelled else NO_LIMITS
        found = self.destinations.find(pod, candidate.charge, at_most)
        if isinstance(found, Finding):
            return found
        if found.beyond_preferred:
            cost = candidate.cost + OUTSIDE_PREFERRED * found.beyond_preferred
            candidate = msgspec.structs.replace(candidate, cost=cost)
        return Move(candidate, found)

    def take(self, move: Move) -> None:
        """Make the move."""
        candidate = move.candidate
        self.destinations.take(move.destination, candidate.pod, candidate.charge)
        if self.quota:
            self.quota.take(candidate.pod)
        self.moves.append(move)
