"""Where the pods of a plan may go: room under the ceilings, and where the scheduler will put them.

A move needs a place, and it has to be likely that its pod lands where that helps. Each accepted
move takes its room and changes what the scheduler sees, so that moves are judged one after the
other on the state that the earlier ones leave.
"""

from collections import Counter
from collections.abc import Mapping

import msgspec
import numpy as np

from desched.model.cluster import Pod
from desched.model.plan import LandingChance, RefusalReason
from desched.model.resources import Resource
from desched.planning.feasibility import Mask, Room
from desched.planning.landing import Landing, after, forecast
from desched.planning.scheduler_view import SchedulerView
from desched.planning.steering import Steerable, relied_on, steer

NAMED_SHARE = 0.9
"""A plan names the likeliest nodes, as many as hold this share of the probability."""

MOST_NAMED = 5

Denial = tuple[RefusalReason, str]


class Place(msgspec.Struct, frozen=True):
    """Where a pod is expected, and the probability of a landing that does not help.

    `count` is the number of nodes where it fits under the ceiling. `view` is how the scheduler sees
    the cluster then, `bad` the nodes as `Landing.risk` takes them, and `steered` names the nodes
    whose soft taints make the risk bearable.
    """

    landing: Landing
    expected_node: str
    risk: float
    count: int
    view: SchedulerView
    bad: Mask
    steered: tuple[str, ...] = ()

    @property
    def likely(self) -> tuple[LandingChance, ...]:
        """The likeliest nodes with their probabilities."""
        chances = self.landing.chances(NAMED_SHARE, MOST_NAMED)
        return tuple(LandingChance(node, probability) for node, probability in chances)


class Caution(msgspec.Struct, frozen=True):
    """What came of earlier moves: how much worse than forecast, and what is still on its way.

    `surcharges` are added to the risk of pods on these nodes. `awaited` counts the replacements
    that are expected on a node, of which there may be `most_awaited` at a time, None for any.
    """

    surcharges: Mapping[str, float] = {}
    awaited: Mapping[str, int] = {}
    most_awaited: int | None = None

    def crowded(self, node: str) -> str:
        """Why no further replacement may be on its way to the node, empty if one may."""
        count = self.awaited.get(node, 0)
        if self.most_awaited is None or count < self.most_awaited:
            return ""
        return f"node {node} already awaits {count}, at most {self.most_awaited} at a time"

    def awaiting(self, node: str) -> "Caution":
        """This with one more on its way to the node."""
        if self.most_awaited is None:
            return self
        awaited = {**self.awaited, node: self.awaited.get(node, 0) + 1}
        return msgspec.structs.replace(self, awaited=awaited)


class Places:
    """Room and the scheduler's view of it, with what the moves so far have changed.

    `most_risk` is the highest bearable probability of a landing that does not help. `within` are
    the nodes that may have soft taints, none by default. `caution` is what came of earlier moves.
    """

    def __init__(
        self,
        room: Room,
        view: SchedulerView,
        most_risk: float,
        within: Steerable | None = None,
        caution: Caution | None = None,
    ) -> None:
        none = room.columns.none()
        self.room = room
        self._within = within or Steerable(none, none)
        self._view = view.with_steered(self._within.steered)
        self._most_risk = most_risk
        self._caution = caution or Caution()
        self._taken: tuple[Place, ...] = ()
        self._steps = Counter[str]()

    @property
    def steps(self) -> int:
        """How often places were copied, looked for or taken, all copies together.

        It measures how long planning has taken, but the same on every machine.
        """
        return self._steps.total()

    def copy(self) -> "Places":
        """A trial that can be thrown away."""
        trial = object.__new__(Places)
        trial.__dict__.update(self.__dict__)
        trial.room = self.room.copy()
        trial._steps["copy"] += 1
        return trial

    def without_limits(self) -> "Places":
        """The same places if a destination could await any number of replacements."""
        unlimited = self.copy()
        unlimited.__dict__["_caution"] = msgspec.structs.replace(self._caution, most_awaited=None)
        return unlimited

    def find(self, pod: Pod, charge: Mapping[Resource, float]) -> Place | Denial:
        """Where the pod would go as things stand now, or why it should stay."""
        self._steps["find"] += 1
        fit = self.room.fit(pod, pod.node, charge)
        if not fit.under_ceiling.any():
            if fit.requests.any():
                return RefusalReason.NO_NODE_UNDER_CEILING, fit.explanation
            return RefusalReason.NO_NODE_FITS, fit.explanation
        successor = self.room.successor(pod)
        if successor is not None:
            return RefusalReason.ROOM_AWAITED, f"{successor.ref} waits for such room"
        view, bad = self._view, self.room.harmed(fit.loads)
        landing = forecast(pod, self.room, view)
        # Another scheduler's choice is not known; such a pod is not refused for it, but every node
        # where it may land keeps its share of room.
        most_risk = self._most_risk - self._caution.surcharges.get(pod.node, 0.0)
        risk = landing.risk(bad)
        if not landing.any_fit and risk > most_risk:
            found = self._steer(landing, bad, most_risk)
            if found is None:
                return RefusalReason.LANDING_RISK, self._explain(landing, pod, risk)
            view, landing = found, landing.seen_by(found)
            risk = landing.risk(bad)
        expected = landing.names[self._likeliest(pod, landing, fit.under_ceiling)]
        crowded = self._caution.crowded(expected)
        if crowded:
            return RefusalReason.LIMIT_IN_FLIGHT, crowded
        return Place(
            landing,
            expected,
            risk,
            int(np.count_nonzero(fit.under_ceiling)),
            view,
            bad,
            relied_on(landing, view, bad, most_risk),
        )

    def take(self, place: Place, pod: Pod, charge: Mapping[Resource, float]) -> None:
        """Count the pod as evicted, and its replacement as expected."""
        self._steps["take"] += 1
        self.room.reserve(place.expected_node, pod, charge, leaving=pod)
        if place.landing.any_fit:
            self.room.charge(place.landing.probabilities, charge, besides=place.expected_node)
        else:
            self.room.expect(place.landing.probabilities, charge, besides=place.expected_node)
        self._view = after(place.view, place.landing)
        self._caution = self._caution.awaiting(place.expected_node)
        self._taken = (*self._taken, place)

    def _steer(self, landing: Landing, bad: Mask, most_risk: float) -> SchedulerView | None:
        """The view with soft taints that make this landing bearable, and no earlier one worse."""
        if not self._within.is_on:
            return None
        view = steer(landing, self._view, bad, self._within, most_risk)
        if view is None or not all(self._bears(place, view.steered) for place in self._taken):
            return None
        return view

    def _bears(self, place: Place, steered: Mask) -> bool:
        """Whether a replacement that may be under way still lands well with further taints."""
        later = place.landing.seen_by(place.view.with_steered(steered))
        return place.landing.any_fit or later.risk(place.bad) <= self._most_risk

    def _likeliest(self, pod: Pod, landing: Landing, under_ceiling: Mask) -> int:
        """The likeliest node under its ceiling; among equals the one with most to spare."""
        probabilities = landing.probabilities * under_ceiling
        equal = (under_ceiling & (probabilities >= probabilities.max() - 1e-9)).nonzero()[0]
        if len(equal) == 1:
            return int(equal[0])
        share = self.room.requested_share(pod.scheduling.requests, equal)
        return int(equal[np.argmin(share)])

    def _explain(self, landing: Landing, pod: Pod, risk: float) -> str:
        back = float(landing.probabilities[landing.departure.source])
        other = max(0.0, risk - back)
        if self._within.is_on:
            advice = f"soft taints on at most {self._within.most} nodes cannot keep it from that"
        else:
            advice = "keeping it away from there with a soft taint would help"
        surcharge = self._caution.surcharges.get(pod.node, 0.0)
        if surcharge:
            advice += f"; landings from its pool went worse than forecast lately (+{surcharge:.0%})"
        return (
            f"{back:.0%} likely to come back to {pod.node} and {other:.0%} to land where it would "
            f"do harm; {advice}"
        )
