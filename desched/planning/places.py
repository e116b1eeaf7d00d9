"""Where the pods of a plan may go: room under the ceilings, and where the scheduler will put them.

A move needs a place, and it has to be likely that its pod lands where that helps. Each accepted
move takes its room and changes what the scheduler sees, so that moves are judged one after the
other on the state that the earlier ones leave.
"""

from collections.abc import Mapping

import msgspec
import numpy as np

from desched.model.cluster import Pod
from desched.model.plan import LandingChance, RefusalReason
from desched.model.resources import Resource
from desched.planning.feasibility import Mask, Room
from desched.planning.landing import Landing, after, forecast
from desched.planning.scheduler_view import SchedulerView

NAMED_SHARE = 0.9
"""A plan names the likeliest nodes, as many as hold this share of the probability."""

MOST_NAMED = 5

Denial = tuple[RefusalReason, str]


class Place(msgspec.Struct, frozen=True):
    """Where a pod is expected, and the probability of a landing that does not help.

    `count` is the number of nodes where it fits under the ceiling.
    """

    landing: Landing
    expected_node: str
    risk: float
    count: int

    @property
    def likely(self) -> tuple[LandingChance, ...]:
        """The likeliest nodes with their probabilities."""
        chances = self.landing.chances(NAMED_SHARE, MOST_NAMED)
        return tuple(LandingChance(node, probability) for node, probability in chances)


class Places:
    """Room and the scheduler's view of it, with what the moves so far have changed.

    `most_risk` is the highest bearable probability of a landing that does not help.
    """

    def __init__(self, room: Room, view: SchedulerView, most_risk: float) -> None:
        self.room = room
        self._view = view
        self._most_risk = most_risk

    def copy(self) -> "Places":
        """A trial that can be thrown away."""
        return Places(self.room.copy(), self._view, self._most_risk)

    def find(self, pod: Pod, charge: Mapping[Resource, float]) -> Place | Denial:
        """Where the pod would go as things stand now, or why it should stay; changes nothing."""
        fit = self.room.fit(pod, pod.node, charge)
        if not fit.under_ceiling.any():
            if fit.requests.any():
                return RefusalReason.NO_NODE_UNDER_CEILING, fit.explanation
            return RefusalReason.NO_NODE_FITS, fit.explanation
        successor = self.room.successor(pod)
        if successor is not None:
            return RefusalReason.ROOM_AWAITED, f"{successor.ref} waits for such room"
        landing = forecast(pod, self.room, self._view)
        harmed = self.room.harmed(charge)
        risk = landing.risk(harmed)
        # Another scheduler's choice is not known; such a pod is not refused for it, but every node
        # where it may land keeps its share of room.
        if not landing.any_fit and risk > self._most_risk:
            return RefusalReason.LANDING_RISK, self._explain(landing, pod, risk)
        expected = landing.names[self._likeliest(pod, landing, fit.under_ceiling)]
        return Place(landing, expected, risk, int(np.count_nonzero(fit.under_ceiling)))

    def take(self, place: Place, pod: Pod, charge: Mapping[Resource, float]) -> None:
        """Count the pod as evicted, and its replacement as expected."""
        self.room.reserve(place.expected_node, pod, charge, leaving=pod)
        if place.landing.any_fit:
            self.room.charge(place.landing.probabilities, charge, besides=place.expected_node)
        self._view = after(self._view, place.landing)

    def _likeliest(self, pod: Pod, landing: Landing, under_ceiling: Mask) -> int:
        """The likeliest node under its ceiling; among equals the one with most to spare."""
        probabilities = np.where(under_ceiling, landing.probabilities, -1.0)
        equal = np.flatnonzero(probabilities >= probabilities.max() - 1e-9)
        share = self.room.requested_share(pod.scheduling.requests, equal)
        return int(equal[np.argmin(share)])

    @staticmethod
    def _explain(landing: Landing, pod: Pod, risk: float) -> str:
        source = landing.names.index(pod.node)
        back = float(landing.probabilities[source])
        other = max(0.0, risk - back)
        return (
            f"{back:.0%} likely to come back to {pod.node} and {other:.0%} to land where it would "
            "do harm; keeping it away from there with a soft taint would help"
        )
