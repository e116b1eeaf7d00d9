"""The destinations of a plan's pods: nodes with room that the scheduler is likely to choose.

A move needs a destination under its ceiling, and a small risk of a harmful landing. Each accepted
move takes room and changes the scheduler's view. Therefore moves are judged one after the other, on
the state after the earlier ones.
"""

import copy
import math
from collections.abc import Iterable, Mapping
from typing import ClassVar

import msgspec
import numpy as np

from desched.model.cluster import Pod
from desched.model.plan import Finding, RefusalReason
from desched.model.resources import Resource
from desched.planning.arrays import Floats, Mask
from desched.planning.inflow import Inflow
from desched.planning.kube_scheduler.scores.cluster_view import SchedulerView
from desched.planning.placement.destination import Destination, UncertainLanding
from desched.planning.placement.free_capacity import FreeCapacity
from desched.planning.placement.landing_forecast import Landing, after, forecast
from desched.planning.placement.landing_limits import (
    ANYTHING,
    Bearable,
    LandingFeedback,
    LandingLimits,
)
from desched.planning.placement.projected_load import NO_LIMITS
from desched.planning.placement.refusals import choice_of_others, too_risky, unfit
from desched.planning.placement.steering import (
    Check,
    Steerable,
    relied_on,
    steer,
)


class Destinations:
    """Free capacity and the scheduler's view of the cluster, after the moves so far.

    `most_risk` is the maximum probability of a harmful landing. `within` has the nodes that may get
    soft taints, none by default. `feedback` counts the replacements that nodes await.
    """

    only_expected: ClassVar[bool] = False
    """Whether a replacement counts only on the node where it is expected."""

    def __init__(
        self,
        free: FreeCapacity,
        view: SchedulerView,
        most_risk: float,
        within: Steerable | None = None,
        feedback: LandingFeedback | None = None,
        inflow: Inflow | None = None,
    ) -> None:
        none = free.arrays.none()
        self.free = free
        self._steerable = within or Steerable(none, none)
        self.view = view.with_steered(self._steerable.steered)
        self.most_risk = most_risk
        self._feedback = feedback or LandingFeedback()
        self._inflow = inflow

    def copy(self) -> "Destinations":
        """An independent copy."""
        copied: Destinations = copy.copy(self)
        copied.free = self.free.copy()
        return copied

    def without_limits(self) -> "Destinations":
        """A copy in which a node may await any number of replacements."""
        unlimited: Destinations = self.copy()
        unlimited._feedback = msgspec.structs.replace(self._feedback, most_awaited=None)
        return unlimited

    def expecting(self, pods: Iterable[Pod]) -> "Destinations":
        """A copy in which no room is awaited for these pods and those like them."""
        expecting: Destinations = copy.copy(self)
        expecting.free = self.free.expecting(pods)
        return expecting

    def held(self, nodes: Iterable[str]) -> "Destinations | str":
        """A copy in which these nodes are kept free, or why they cannot be.

        They have the soft taint and are no destination.
        """
        held: Destinations = self.copy()
        view = self.view
        steered = view.steered.copy()
        if not self._steerable.is_on:
            return "desched may not set soft taints, so others could take the room"
        for node in nodes:
            position = self.free.arrays.index[node]
            if not (steered[position] or self._steerable.eligible[position]):
                return f"{node} must not have desched's soft taint now"
            steered[position] = True
            held.free.load.hold(node)
        if int(steered.sum()) > max(self._steerable.most, int(view.steered.sum())):
            return f"at most {self._steerable.most} nodes may have desched's soft taint at a time"
        if not np.array_equal(steered, view.steered):
            held.view = view.with_steered(steered)
        return held

    def destination_of(
        self,
        pod: Pod,
        charge: Mapping[Resource, float],
        bearable: Bearable = ANYTHING,
    ) -> Destination | Finding[RefusalReason]:
        """Return the pod's destination after the moves so far, or the reason why it has none."""
        answer = self.destination_and_room(pod, charge, bearable)[0]
        if bearable.at_most and isinstance(answer, Destination):
            return msgspec.structs.replace(answer, at_most=bearable.at_most)
        return answer

    def destination_and_room(
        self,
        pod: Pod,
        charge: Mapping[Resource, float],
        bearable: Bearable = ANYTHING,
    ) -> tuple[Destination | Finding[RefusalReason], FreeCapacity]:
        """Return the answer of `destination_of`, and the free capacity on which it rests."""
        self.free.deadline.check(pod)
        comparisons = self.free.arrays.comparisons
        with comparisons.of(pod.namespace):
            answer = self._under_limits_or_relaxed(pod, charge, bearable)
            if comparisons.share_is_used:
                return Finding(RefusalReason.PLANNING_SHARE_USED, pod.namespace), self.free
            return answer

    def _under_limits_or_relaxed(
        self, pod: Pod, charge: Mapping[Resource, float], bearable: Bearable
    ) -> tuple[Destination | Finding[RefusalReason], FreeCapacity]:
        free = self.free
        answer = self._under_limits(free, pod, charge, bearable)
        if isinstance(answer, Destination):
            return answer, free
        for limits in free.limits.relaxed(pod):
            free = free.within(limits)
            answer = self._under_limits(free, pod, charge, bearable)
            if isinstance(answer, Destination):
                cost = limits.extra_cost(pod)
                return msgspec.structs.replace(answer, extra_cost=cost), free
        return answer, free

    def _under_limits(
        self,
        free: FreeCapacity,
        pod: Pod,
        charge: Mapping[Resource, float],
        bearable: Bearable,
    ) -> Destination | Finding[RefusalReason]:
        fit, landing = free.fit(pod, pod.node, charge, bearable.at_most), None
        if fit.under_ceiling.any():
            landing = forecast(pod, free, self.view)
        if landing is None:
            return unfit(pod, fit, free.limits)
        unknown = choice_of_others(pod, landing, fit, free.limits)
        if unknown is not None:
            return unknown
        successor = free.successor(pod)
        if successor is not None:
            return Finding(RefusalReason.ROOM_AWAITED, f"{successor.ref} waits for this room")
        reachable = landing.destinations & free.load.is_destination
        added = free.load.added_minutes(pod, charge, reachable)
        too_much = added > bearable.most_minutes
        limits = LandingLimits(
            pod,
            charge,
            free,
            fit,
            bad=self.harmed(fit.loads, bearable.at_most) | too_much,
            added_minutes=added,
            crowded=self._feedback.crowded_nodes(free.arrays),
            most_risk=self._most_risk_of(landing),
            only_expected=self.only_expected,
        )
        return self._with_taints(landing, limits)

    def harmed(
        self, loads: Mapping[Resource, Floats], at_most: Mapping[Resource, float] = NO_LIMITS
    ) -> Mask:
        """The nodes that would do harm with these loads, see `ProjectedLoad.harmed`."""
        return self.free.load.harmed(loads, at_most)

    def _with_taints(
        self, landing: Landing, limits: LandingLimits
    ) -> Destination | Finding[RefusalReason]:
        """The pod's destination, with further soft taints if the landing needs them."""
        view, bad = self.view, limits.bad
        if not limits.is_harmless(landing):
            steered = self._view_with_taints(landing, view, bad, limits.is_harmless)
            if steered is None:
                return too_risky(landing, bad, limits.free.limits, self._steerable)
            view, landing = steered, landing.seen_by(steered)
        risk, expected = landing.risk(bad), limits.expected(landing)
        avoided = bad | limits.crowded
        if limits.crowded[expected]:
            steered = self._view_with_taints(landing, view, avoided, limits.is_acceptable)
            if steered is None:
                crowded = self._feedback.crowded(landing.names[expected])
                return Finding(RefusalReason.LIMIT_IN_FLIGHT, crowded)
            view, landing = steered, landing.seen_by(steered)
            risk, expected = landing.risk(bad), limits.expected(landing)
        return Destination(
            landing,
            landing.names[expected],
            risk,
            int(np.count_nonzero(limits.fit.under_ceiling)),
            view,
            self._seen(landing, landing.names[expected]).probabilities,
            float(landing.probabilities @ limits.added_minutes)
            + self._newcomers_minutes(limits.pod, landing.names[expected], view),
            relied_on(landing, view, avoided, limits.is_acceptable),
        )

    def _newcomers_minutes(self, pod: Pod, expected: str, view: SchedulerView) -> float:
        """What new pods cost by the requests that move, and by the soft taints of this view."""
        if self._inflow is None:
            return 0.0
        minutes = self._inflow.cost_minutes(pod, expected)
        if (view.steered & ~self.view.steered).any():
            names = np.array(self.free.arrays.names)
            minutes += self._inflow.steering_minutes(names[self.view.steered], names[view.steered])
        return minutes

    def take(self, destination: Destination, pod: Pod, charge: Mapping[Resource, float]) -> None:
        """Make the move: the pod is evicted, and its replacement expected at the destination.

        The destination must be the result of `destination_of` after the same moves.
        """
        landing, expected = destination.landing, destination.expected_node
        following = after(destination.view, self._seen(landing, expected))
        self._reserve(expected, pod, charge)
        self.expect(UncertainLanding(landing, charge, expected, following.placed))
        self.view = following
        self._feedback = self._feedback.awaiting(expected)
        if self._inflow:
            self._inflow = self._inflow.after(pod, expected)

    def _reserve(self, node: str, pod: Pod, charge: Mapping[Resource, float]) -> None:
        self.free.reserve(node, pod, charge, leaving=pod)

    def _seen(self, landing: Landing, expected: str) -> Landing:
        """The landing as it counts for later moves; `expected` is the name of the node."""
        return landing.at(expected) if self.only_expected else landing

    def expect(self, spread: UncertainLanding) -> None:
        """Count a replacement also on the nodes where it is not expected."""
        landing, charge, expected, placed = spread
        if landing.any_fit:
            self.free.load.reserve_shares(landing.probabilities, charge, besides=expected)
        else:
            self.free.load.expect_landing(landing.probabilities, charge, expected, placed)
        pod = landing.departure.pod
        self.free.load.forecast_landing(pod, charge, landing.probabilities, besides=expected)

    def _most_risk_of(self, landing: Landing) -> float:
        """The maximum landing risk.

        The choice of a scheduler that the policy does not name is not known. Its pods are not
        refused for their risk; instead, every node where the pod may land reserves a share of its
        usage.
        """
        return math.inf if landing.any_fit else self.most_risk

    def _view_with_taints(
        self, landing: Landing, view: SchedulerView, avoided: Mask, is_enough: Check
    ) -> SchedulerView | None:
        """Return the view with soft taints that make this landing acceptable, or None."""
        scheduler = landing.scheduler
        ignored = scheduler is not None and not scheduler.honours_soft_taints
        if not self._steerable.is_on or landing.any_fit or ignored:
            return None
        return steer(landing, view, avoided, self._steerable, is_enough)
