"""The destinations of a plan's pods: nodes with room that the scheduler is likely to choose.

A move needs a destination under its ceiling, and a small risk of a harmful landing. Each accepted
move takes room and changes the scheduler's view. Therefore moves are judged one after the other, on
the state after the earlier ones.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from desched.model.cluster import Pod
from desched.model.landing import NEARLY_CERTAIN, LandingChance
from desched.model.plan import Finding, RefusalReason
from desched.model.resources import Resource
from desched.planning.arrays import Floats, Ints, Mask, Positions
from desched.planning.kube_scheduler.scores.cluster_view import LeavingPod, SchedulerView
from desched.planning.kube_scheduler.scores.total import plugin_scores
from desched.planning.placement.free_capacity import NO_LIMITS, Fit, FreeCapacity, Member
from desched.planning.placement.landing_forecast import Landing, after, forecast
from desched.planning.placement.landing_limits import LandingFeedback, LandingLimits
from desched.planning.placement.late_landings import (
    LateLandings,
    PlannedMove,
    late_landings,
    with_late_landings,
)
from desched.planning.placement.steering import (
    CLEAR_MARGIN_RATIO,
    Check,
    Steerable,
    relied_on,
    steer,
)

MOST_NAMED = 5
"""A plan names at most so many of the likeliest nodes."""

FEWEST_REFUSED_IF_LATE, NODES_REFUSED_IF_LATE = 5, 5_000
"""After so many pods in a row that only late landings of earlier moves forbid, all others are
refused without a forecast until the next move: it would hardly differ. A forecast costs as much as
there are nodes, so that small clusters allow more: 50 with 100 nodes."""

IF_LATE = (
    "its soft taints may redirect replacements of earlier moves that have not landed yet to nodes "
    "where they would do harm"
)

IF_EARLIER_LATE = (
    "soft taints of this plan may redirect replacements of earlier moves that have not landed yet "
    "to nodes where they and this pod together would do harm"
)


class Destination(msgspec.Struct, frozen=True):
    """The likeliest node for a replacement, and the probability of a harmful landing.

    `count` is the number of nodes where the pod fits under the ceiling. `view` is the scheduler's
    view at the landing. `bad` has the bad nodes, see `Landing.risk`. `steered` names the nodes
    whose soft taints make the risk acceptable. `beyond_preferred`: the pod leaves a domain that it
    only prefers. `at_most` is as for `Destinations.find`.
    """

    landing: Landing
    expected_node: str
    risk: float
    count: int
    view: SchedulerView
    bad: Mask
    steered: tuple[str, ...] = ()
    beyond_preferred: bool = False
    at_most: Mapping[Resource, float] = NO_LIMITS

    @property
    def likely(self) -> tuple[LandingChance, ...]:
        """The likeliest nodes with their probabilities, `expected_node` first."""
        return self.landing.chances(NEARLY_CERTAIN, MOST_NAMED, self.expected_node)

    @property
    def shares(self) -> Floats:
        """The probability of each node, shape (nodes,).

        Each pod of a gang that moves whole is on its own node: the forecast of each counts on the
        expected nodes of those before it.
        """
        landing = self.landing
        return (
            landing.at(self.expected_node).probabilities
            if landing.departure.away
            else (landing.probabilities)
        )

    @property
    def possible(self) -> int:
        """The number of nodes where the replacement may land."""
        return int(np.count_nonzero(self.landing.probabilities))


class PlacesExamined(msgspec.Struct, frozen=True):
    """All that decides on a pod's destination after the moves so far.

    `excluded` counts the nodes that cannot take it by reason. `loads` are those of each node with
    the pod, `over_ceiling` how far they are above the ceiling. `landing` is the forecast without
    further soft taints. `scores` are weighted, by plugin, with the taints that `found` needs. `bad`
    has the bad nodes, see `Landing.risk`; a risk up to `most_risk` is accepted. `found` is the
    answer of `Destinations.find`.
    """

    fit: Fit
    excluded: Mapping[str, int]
    loads: Mapping[Resource, Floats]
    over_ceiling: Mapping[Resource, Floats]
    landing: Landing
    scores: Mapping[str, Ints]
    bad: Mask
    most_risk: float
    found: Destination | Finding[RefusalReason]


class _UncertainLanding(NamedTuple):
    """A replacement that may land elsewhere than expected, see `FreeCapacity.expect`."""

    landing: Landing
    charge: Mapping[Resource, float]
    expected: str
    placed: Positions | None


class Destinations:
    """Free capacity and the scheduler's view of the cluster, after the moves so far.

    `most_risk` is the maximum probability of a harmful landing. `within` has the nodes that may get
    soft taints, none by default. `feedback` has the results of earlier moves.
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
        # With steering there is a choice of nodes.
        self._margin_ratio = CLEAR_MARGIN_RATIO if self._within.is_on else 0.0
        self._most_risk = most_risk
        self._feedback = feedback or LandingFeedback()
        self._moves: tuple[PlannedMove, ...] = ()
        self._leaving: tuple[LeavingPod, ...] = ()
        self._together: tuple[_UncertainLanding, ...] = ()
        self._known_late: tuple[LateLandings, ...] | None = None
        self._refused_if_late: list[str] = []  # shared by copies after the same moves

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

    def after_landings(self) -> "Destinations":
        """A copy for a later cycle: all moves are over, and their soft taints are gone."""
        later: Destinations = self.copy()
        later._view = self._view.settled().with_steered(self._within.steered)
        later._moves, later._known_late, later._refused_if_late = (), None, []
        return later

    def vacate(self, gang: Sequence[Member]) -> None:
        """Let all pods of the gang leave; then each of them is found a destination, and takes it.

        Until `refilled`, each is on the node where it is expected: they change places with each
        other only, so that chances for each of them would count a full node as free, and a free one
        as full.
        """
        self._together = ()
        positions = self.free.arrays.index
        self.free.vacate(gang)
        self._leaving = tuple(LeavingPod(m.pod, positions[m.pod.node], gone=True) for m in gang)
        self._view = self._view.without(self._leaving)

    def refilled(self) -> None:
        """End what `vacate` began: all pods of the gang have been placed.

        For later moves, each of them may be wherever its scheduler could place it.
        """
        self.free.refilled()
        for spread in self._together:
            self._expect(spread)

    def find(
        self,
        pod: Pod,
        charge: Mapping[Resource, float],
        *,
        cool: bool = False,
        at_most: Mapping[Resource, float] = NO_LIMITS,
    ) -> Destination | Finding[RefusalReason]:
        """Return the pod's destination after the moves so far, or the reason why it has none.

        With `cool`, a landing on a node above its ceiling is a bad one, too; and so is one on a
        node that would have more load than `at_most`.
        """
        found = self._find(pod, charge, cool=cool, at_most=at_most)[0]
        if at_most and isinstance(found, Destination):
            return msgspec.structs.replace(found, at_most=at_most)
        return found

    def _find(
        self,
        pod: Pod,
        charge: Mapping[Resource, float],
        *,
        cool: bool = False,
        at_most: Mapping[Resource, float] = NO_LIMITS,
    ) -> tuple[Destination | Finding[RefusalReason], FreeCapacity]:
        """The answer of `find`, with the free capacity that it is by."""
        self.free.deadline.check(pod)
        most = max(FEWEST_REFUSED_IF_LATE, NODES_REFUSED_IF_LATE // len(self.free.arrays))
        if len(self._refused_if_late) >= most:
            return Finding(RefusalReason.LANDING_RISK, self._refused_if_late[-1]), self.free
        free = self.free
        found = self._find_within(free, pod, charge, cool=cool, at_most=at_most)
        if isinstance(found, Finding) and free.has_preferred_domains(pod):
            free = free.beyond_preferred()
            found = self._find_within(free, pod, charge, cool=cool, at_most=at_most)
            if isinstance(found, Destination):
                found = msgspec.structs.replace(found, beyond_preferred=True)
        if isinstance(found, Finding) and free.may_download(pod):
            free = free.with_downloads()
            found = self._find_within(free, pod, charge, cool=cool, at_most=at_most)
        return found, free

    def _find_within(
        self,
        free: FreeCapacity,
        pod: Pod,
        charge: Mapping[Resource, float],
        *,
        cool: bool,
        at_most: Mapping[Resource, float],
    ) -> Destination | Finding[RefusalReason]:
        fit, landing = free.fit(pod, pod.node, charge), None
        if fit.under_ceiling.any():
            landing = forecast(pod, free, self._view)
        if landing is None:
            return _unfit(pod, fit, free)
        unknown = _choice_of_others(pod, landing, fit, free)
        if unknown is not None:
            return unknown
        successor = free.successor(pod)
        if successor is not None:
            return Finding(RefusalReason.ROOM_AWAITED, f"{successor.ref} waits for this room")
        limits = LandingLimits(
            pod,
            charge,
            free,
            fit,
            self._bad(fit, cool=cool, at_most=at_most),
            self._feedback.crowded_nodes(free.arrays),
            self._most_risk_of(pod),
        )
        return self._destination(landing, limits)

    def examine(self, pod: Pod, charge: Mapping[Resource, float]) -> PlacesExamined:
        """All that decides on the pod's destination, whether or not it has one."""
        found, free = self._find(pod, charge)
        fit, loads = free.fit(pod, pod.node, charge), free.loads_with(charge)
        landing = forecast(pod, free, self._view)
        scores: Mapping[str, Ints] = {}
        if landing.destinations.any() and not landing.any_fit:
            view = found.view if isinstance(found, Destination) else self._view
            scores = plugin_scores(landing.departure, view, landing.destinations)
        return PlacesExamined(
            fit,
            free.exclusions(pod, pod.node, fit),
            loads,
            free.over_ceiling(loads),
            landing,
            scores,
            free.harmed(loads, self._margin_ratio),
            self._most_risk_of(pod),
            found,
        )

    def _bad(self, fit: Fit, *, cool: bool, at_most: Mapping[Resource, float]) -> Mask:
        """The bad nodes, see `Landing.risk`."""
        harmed = self.free.harmed(fit.loads, self._margin_ratio, at_most)
        return harmed | ~fit.under_ceiling if cool else harmed

    def _destination(
        self, landing: Landing, limits: LandingLimits
    ) -> Destination | Finding[RefusalReason]:
        """The pod's destination, with further soft taints if the landing needs them."""
        view, bad = self._view, limits.bad
        risk = landing.risk(bad)
        if not limits.accepts(risk, landing):
            found = self._steer(landing, view, bad, limits.is_harmless)
            if found is None:
                return Finding(RefusalReason.LANDING_RISK, self._explain(landing, limits))
            view, landing = found, landing.seen_by(found)
            risk = landing.risk(bad)
        expected, crowded = limits.expected(landing), ""
        avoided = bad | limits.crowded
        if limits.crowded[expected]:
            crowded = self._feedback.crowded(landing.names[expected])
            found = self._steer(landing, view, avoided, limits.is_acceptable)
            if found is None:
                return Finding(RefusalReason.LIMIT_IN_FLIGHT, crowded)
            view, landing = found, landing.seen_by(found)
            risk, expected = landing.risk(bad), limits.expected(landing)
        charge, shares = limits.charge, landing.probabilities
        move = PlannedMove(landing, view, bad, charge, shares, leaving=self._leaving)
        late = (case.followed_by(move) for case in self._late_landings(view))
        if not all(case.lands_well(self.free, self._most_risk_of) for case in late):
            if crowded:
                return Finding(RefusalReason.LIMIT_IN_FLIGHT, crowded)
            why = IF_EARLIER_LATE if view is self._view else IF_LATE
            self._refused_if_late.append(why)
            return Finding(RefusalReason.LANDING_RISK, why)
        return Destination(
            landing,
            landing.names[expected],
            risk,
            int(np.count_nonzero(limits.fit.under_ceiling)),
            view,
            bad,
            relied_on(landing, view, avoided, limits.is_acceptable),
        )

    def take(self, destination: Destination, pod: Pod, charge: Mapping[Resource, float]) -> None:
        """Make the move: the pod is evicted, and its replacement expected at the destination.

        The destination must be the result of `find` after the same moves.
        """
        landing, view, expected = destination.landing, destination.view, destination.expected_node
        together = landing.departure.away
        following = after(view, landing.at(expected) if together else landing)
        self.free.reserve(expected, pod, charge, leaving=pod)
        spread = _UncertainLanding(landing, charge, expected, following.placed)
        if together:
            self._together = (*self._together, spread)
        else:
            self._expect(spread)
        bad, shares, placed = destination.bad, landing.probabilities, following.placed
        move = PlannedMove(landing, view, bad, charge, shares, expected, placed, self._leaving)
        moves = (*self._moves, move)
        if view is not self._view:
            moves = with_late_landings(moves, view, self.free)
        self._moves, self._known_late, self._refused_if_late = moves, None, []
        self._view, self._leaving = following, ()
        self._feedback = self._feedback.awaiting(expected)

    def _expect(self, spread: "_UncertainLanding") -> None:
        """Count a replacement also on the nodes where it is not expected."""
        landing, charge, expected, placed = spread
        if landing.any_fit:
            self.free.charge(landing.probabilities, charge, besides=expected)
        else:
            self.free.expect(landing.probabilities, charge, expected, placed)

    def _most_risk_of(self, pod: Pod) -> float:
        """The maximum landing risk for this pod, minus its pool's distrust surcharge."""
        return self._most_risk - self._feedback.surcharges.get(pod.node, 0.0)

    def _late_landings(self, view: SchedulerView) -> tuple[LateLandings, ...]:
        """The cases in which replacements of the moves so far land after the view's taints."""
        if view is not self._view:
            return late_landings(self._moves, view)
        if self._known_late is None:
            self._known_late = late_landings(self._moves, view)
        return self._known_late

    def _steer(
        self, landing: Landing, view: SchedulerView, avoided: Mask, is_enough: Check
    ) -> SchedulerView | None:
        """The view with soft taints that make this landing acceptable, None if none do."""
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
        if landing.departure.away:
            found = f"{alone:.0%} likely to land where it would do harm"
        if encounter > alone:
            found += f", {encounter:.0%} to land with earlier moves on a node without room for all"
        if landing.any_fit:
            found += f"; {pod.scheduler} may choose any node where it fits"
        elif self._within.is_on:
            found += f"; soft taints on at most {self._within.most} nodes cannot prevent this"
        else:
            found += "; soft taints on those nodes could prevent this"
        surcharge = self._feedback.surcharges.get(pod.node, 0.0)
        if surcharge:
            found += f"; recent landings from its pool were worse than forecast (+{surcharge:.0%})"
        free, possible = limits.free, landing.probabilities > 0
        named = [
            *([free.domains_of(pod)] if (possible & free.outside_domains(pod)).any() else ()),
            *([free.models_of(pod)] if (possible & free.without_model(pod)).any() else ()),
        ]
        return ": ".join((*named, found))


def _choice_of_others(
    pod: Pod, landing: Landing, fit: Fit, free: FreeCapacity
) -> Finding[RefusalReason] | None:
    """Why a pod stays of which another scheduler, whose choice is not known, decides."""
    if not landing.any_fit:
        return None
    if not (landing.destinations & fit.under_ceiling).any():
        why = f"until it leaves, {pod.scheduler} can place it on no node under its ceiling"
        return Finding(RefusalReason.NO_NODE_UNDER_CEILING, why)
    if (landing.destinations & free.outside_domains(pod)).any():
        why = f"{free.domains_of(pod)}: {pod.scheduler} may place it outside"
        return Finding(RefusalReason.PLACEMENT_DOMAIN, why)
    if (landing.destinations & free.without_model(pod)).any():
        why = f"{free.models_of(pod)}: {pod.scheduler} may place it elsewhere"
        return Finding(RefusalReason.MODEL_CACHE, why)
    return None


def _unfit(pod: Pod, fit: Fit, free: FreeCapacity) -> Finding[RefusalReason]:
    """Why no node can take the pod."""
    if fit.inside.any():
        limits = [
            *([free.domains_of(pod)] if (fit.requests & ~fit.in_domains).any() else ()),
            *([free.models_of(pod)] if (fit.in_domains & ~fit.inside).any() else ()),
        ]
        why = ": ".join((*limits, fit.explanation))
        return Finding(RefusalReason.NO_NODE_UNDER_CEILING, why)
    if fit.in_domains.any():
        why = f"{free.models_of(pod)}: {fit.explanation}"
        return Finding(RefusalReason.MODEL_CACHE, why)
    if fit.requests.any():
        why = f"{free.domains_of(pod)}: {fit.explanation}"
        return Finding(RefusalReason.PLACEMENT_DOMAIN, why)
    return Finding(RefusalReason.NO_NODE_FITS, fit.explanation)
