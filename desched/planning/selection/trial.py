"""Tries moves one after the other, each on the state after the earlier ones."""

from collections.abc import Sequence

import msgspec
import numpy as np

from desched.model.plan import Finding, RefusalReason
from desched.planning.arrays import Floats
from desched.planning.overload.node_load import LoadedNode
from desched.planning.placement.destination import Destination
from desched.planning.placement.destinations import Destinations
from desched.planning.placement.landing_limits import Bearable
from desched.planning.selection.candidates import Candidate
from desched.planning.selection.eviction_cost import OUTSIDE_PREFERRED
from desched.planning.selection.excess import Excess
from desched.planning.selection.limits import EvictionQuota


class Move(msgspec.Struct, frozen=True):
    """A candidate with the destination where its replacement is expected.

    `saved_minutes` is the expected overload that the source loses.
    """

    candidate: Candidate
    destination: Destination
    saved_minutes: float = 0.0

    def with_saved(self, minutes: float) -> "Move":
        """The same with what the source loses."""
        return msgspec.structs.replace(self, saved_minutes=minutes)


class Trial:
    """Tries moves of one node's pods on its own copies of the destinations and the quota.

    A quota of None ignores limits and budgets. In a saturated pool no destination may have more
    load than the source is left with.
    """

    def __init__(
        self, destinations: Destinations, quota: EvictionQuota | None, source: LoadedNode
    ) -> None:
        self.destinations = destinations.copy()
        self.quota = quota.copy() if quota else None
        self.moves: list[Move] = []
        self._source = source

    @property
    def expected_minutes(self) -> float:
        """The expected overload of the source after the moves so far."""
        return self.destinations.free.load.expected_minutes(self._source.node.name)

    def saved_minutes(self, candidates: Sequence[Candidate]) -> Floats:
        """The expected overload that the source would lose with each of these pods."""
        pasts = [candidate.past for candidate in candidates if candidate.past is not None]
        load = self.destinations.free.load
        return load.saved_minutes(self._source.node.name, np.stack(pasts))

    def find(self, candidate: Candidate, most_minutes: float) -> Move | Finding[RefusalReason]:
        """Return the candidate's move after those made so far, or the reason why there is none.

        Nodes that would get more than `most_minutes` of further overload are bad landings.
        """
        pod = candidate.pod
        denied = self.quota.refuse(pod) if self.quota else None
        if denied is not None:
            return denied
        left = Excess(self._source).levels((*(m.candidate for m in self.moves), candidate))
        at_most = {r: level for r, level in left.items() if r in self._source.saturated}
        found = self.destinations.find(pod, candidate.charge, Bearable(at_most, most_minutes))
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
        if candidate.past is not None:
            self.destinations.free.load.remove(self._source.node.name, candidate.past)
        if self.quota:
            self.quota.take(candidate.pod)
        self.moves.append(move)
