"""Where the pods of a plan may go: room under the ceilings, and where the scheduler will put them.

A move needs a place, and it has to be likely that its pod lands where that helps. Each accepted
move takes its room and changes what the scheduler sees, so that moves are judged one after the
other on the state that the earlier ones leave.
"""

import copy
from collections.abc import Mapping

import msgspec
import numpy as np

from desched.model.cluster import Pod
from desched.model.plan import Finding, LandingChance, RefusalReason
from desched.model.resources import Resource
from desched.planning.arrays import Mask
from desched.planning.kube_scheduler.scores.cluster_view import SchedulerView
from desched.planning.placement.free_capacity import FreeCapacity
from desched.planning.placement.landing_feedback import LandingFeedback
from desched.planning.placement.landing_forecast import Landing, after, forecast
from desched.planning.placement.landing_limits import LandingLimits
from desched.planning.placement.late_landings import LateLandings, PlannedMove, delays, with_delays
from desched.planning.placement.steering import Check, Steerable, relied_on, steer

NAMED_SHARE = 0.9
"""A plan names the likeliest nodes, as many as hold this share of the probability."""

MOST_NAMED = 5

IF_LATE = (
    "the soft taints for it may send replacements of earlier moves, as long as these have not "
    "landed, to where they would do harm"
)

IF_EARLIER_LATE = (
    "soft taints of this plan may send replacements of earlier moves, as long as these have not "
    "landed, to where it may meet them and do harm"
)


class Destination(msgspec.Struct, frozen=True):
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


class Destinations:
    """Room and the scheduler's view of it, with what the moves so far have changed.

    `most_risk` is the highest bearable probability of a landing that does not help. `within` are
    the nodes that may have soft taints, none by default. `feedback` is what came of earlier moves.
    """

    def __init__(
        self,
        free: FreeCapacity,
        view: SchedulerView,
        most_risk: float,
        within: Steerable | None = None,
        feedback: LandingFeedback | None = None,
    ) -> None:
        none = free.arrays.none()
        self.free = free
        self._within = within or Steerable(none, none)
        self._view = view.with_steered(self._within.steered)
        self._most_risk = most_risk
        self._feedback = feedback or LandingFeedback()
        self._moves: tuple[PlannedMove, ...] = ()
        self._known_delays: tuple[LateLandings, ...] | None = None

    def copy(self) -> "Destinations":
        """A trial that can be thrown away."""
        trial: Destinations = copy.copy(self)
        trial.free = self.free.copy()
        return trial

    def without_limits(self) -> "Destinations":
        """The same places if a destination could await any number of replacements."""
        unlimited: Destinations = self.copy()
        unlimited._feedback = msgspec.structs.replace(self._feedback, most_awaited=None)
        return unlimited

    def find(
        self, pod: Pod, charge: Mapping[Resource, float]
    ) -> Destination | Finding[RefusalReason]:
        """Where the pod would go as things stand now, or why it should stay."""
        fit = self.free.fit(pod, pod.node, charge)
        if not fit.under_ceiling.any():
            if fit.requests.any():
                return Finding(RefusalReason.NO_NODE_UNDER_CEILING, fit.explanation)
            return Finding(RefusalReason.NO_NODE_FITS, fit.explanation)
        successor = self.free.successor(pod)
        if successor is not None:
            return Finding(RefusalReason.ROOM_AWAITED, f"{successor.ref} waits for such room")
        limits = LandingLimits(
            pod,
            charge,
            self.free,
            fit,
            self.free.harmed(fit.loads, self._within.margin_ratio),
            self._feedback.crowded_nodes(self.free.arrays),
            self._bearable(pod),
        )
        return self._destination(forecast(pod, self.free, self._view), limits)

    def _destination(
        self, landing: Landing, limits: LandingLimits
    ) -> Destination | Finding[RefusalReason]:
        """Where the pod would go, with further soft taints if there have to be any."""
        view, bad = self._view, limits.bad
        risk = landing.risk(bad)
        if not limits.bears(risk, landing):
            found = self._steer(landing, view, bad, limits.is_harmless)
            if found is None:
                return Finding(RefusalReason.LANDING_RISK, self._explain(landing, limits))
            view, landing = found, landing.seen_by(found)
            risk = landing.risk(bad)
        expected, crowded = limits.expected(landing), ""
        avoided = bad | limits.crowded
        if limits.crowded[expected]:
            crowded = self._feedback.crowded(landing.names[expected])
            found = self._steer(landing, view, avoided, limits.is_bearable)
            if found is None:
                return Finding(RefusalReason.LIMIT_IN_FLIGHT, crowded)
            view, landing = found, landing.seen_by(found)
            risk, expected = landing.risk(bad), limits.expected(landing)
        move = PlannedMove.considered(landing, view, bad, limits.charge)
        later = (delay.followed_by(move) for delay in self._delays(view))
        if not all(delay.lands_well(self.free, self._bearable) for delay in later):
            if crowded:
                return Finding(RefusalReason.LIMIT_IN_FLIGHT, crowded)
            why = IF_EARLIER_LATE if view is self._view else IF_LATE
            return Finding(RefusalReason.LANDING_RISK, why)
        return Destination(
            landing,
            landing.names[expected],
            risk,
            int(np.count_nonzero(limits.fit.under_ceiling)),
            view,
            bad,
            relied_on(landing, view, avoided, limits.is_bearable),
        )

    def take(self, destination: Destination, pod: Pod, charge: Mapping[Resource, float]) -> None:
        """Count the pod as evicted, and its replacement as expected.

        The place is the one that was found for it as things stand now.
        """
        following, expected = (
            after(destination.view, destination.landing),
            destination.expected_node,
        )
        self.free.reserve(expected, pod, charge, leaving=pod)
        if destination.landing.any_fit:
            self.free.charge(destination.landing.probabilities, charge, besides=expected)
        else:
            self.free.expect(destination.landing.probabilities, charge, expected, following.placed)
        move = PlannedMove.considered(
            destination.landing, destination.view, destination.bad, charge
        )
        moves = (*self._moves, move.taken(expected, following.placed))
        if destination.view is not self._view:
            moves = with_delays(moves, destination.view, self.free)
        self._moves, self._known_delays = moves, None
        self._view = following
        self._feedback = self._feedback.awaiting(expected)

    def _bearable(self, pod: Pod) -> float:
        """The highest bearable risk of the pod's landing, less what its pool is distrusted by."""
        return self._most_risk - self._feedback.surcharges.get(pod.node, 0.0)

    def _delays(self, view: SchedulerView) -> tuple[LateLandings, ...]:
        """How replacements of the moves so far may be late for the taints of the view."""
        if view is not self._view:
            return delays(self._moves, view)
        if self._known_delays is None:
            self._known_delays = delays(self._moves, view)
        return self._known_delays

    def _steer(
        self, landing: Landing, view: SchedulerView, avoided: Mask, is_enough: Check
    ) -> SchedulerView | None:
        """The view with soft taints that make this landing bearable, if there may be such."""
        if not self._within.is_on or landing.any_fit:
            return None
        return steer(landing, view, avoided, self._within, is_enough)

    def _explain(self, landing: Landing, limits: LandingLimits) -> str:
        pod, bad = limits.pod, limits.bad
        back = float(landing.probabilities[landing.departure.source])
        alone, encounter = landing.risk_alone(bad), landing.risk_of_encounter(bad)
        found = (
            f"{back:.0%} likely to come back to {pod.node} and {max(0.0, alone - back):.0%} to "
            "land where it would do harm"
        )
        if encounter > alone:
            found += f", {encounter:.0%} to land with earlier moves on a node that cannot bear all"
        if self._within.is_on:
            found += f"; soft taints on at most {self._within.most} nodes cannot keep it from that"
        else:
            found += "; keeping it away from there with a soft taint would help"
        surcharge = self._feedback.surcharges.get(pod.node, 0.0)
        if surcharge:
            found += f"; landings from its pool went worse than forecast lately (+{surcharge:.0%})"
        return found
