"""The landing forecast: the probability of each node to receive the replacement of an evicted pod.

It computes kube-scheduler's scores for all feasible nodes, including the source. The best nodes
share the probability. For another scheduler that the policy names, it computes what is known of its
scores. A pod of any other scheduler may land on any feasible node.
"""

from functools import cached_property

import msgspec
import numpy as np

from desched.model.cluster import DEFAULT_SCHEDULER, Pod
from desched.model.landing import LandingChance
from desched.planning.arrays import Floats, Ints, Mask
from desched.planning.eligibility.controllers import VOLCANO_JOB_KIND
from desched.planning.kube_scheduler.scores.cluster_view import LeavingPod, SchedulerView
from desched.planning.kube_scheduler.scores.node_sampling import (
    best_of_sample,
    nodes_to_find,
    shares_by_bounds,
)
from desched.planning.kube_scheduler.scores.total import Scored, total_scores
from desched.planning.placement.free_capacity import FreeCapacity
from desched.policy.schedulers import OtherScheduler, SchedulerProfile

_SHOWN_AT_MOST = 1_000_000
"""What is shown for a score without an upper bound."""

_TIED = 1e-9
"""Probabilities that differ by less are equal."""


def expected_node(pod: Pod, destinations: Mask, free: FreeCapacity) -> str | None:
    """Return the least requested of these nodes, ties by name, or None without any node."""
    where = np.flatnonzero(destinations)
    if not len(where):
        return None
    share = free.requested_share(pod.scheduling.requests, where)
    return free.names[int(where[np.argmin(share)])]


class Landing(msgspec.Struct, frozen=True, dict=True):
    """The forecast of one landing. Arrays have a column for each node, in the order of `names`.

    Earlier moves may leave several alternatives (see `SchedulerView`). Three arrays have a row for
    each alternative, or a single row if all are equal: `feasible` has the nodes where the pod fits,
    `alternatives` the probability of each node (all 0 if no node is feasible), and `scores` the
    total scores, which mean nothing on nodes that are not feasible.

    `wrong` marks nodes of an architecture that the workload has never run on, those outside its
    limits, and the source, unless it left with others. `any_fit` is true if a
    scheduler places the pod whose scores are not known: then all feasible nodes are equally likely.
    `scheduler` is another scheduler whose scores are known; `scores` are its highest possible ones.
    `scored` is how a kube-scheduler comes to its scores. `unclear` is why they are not known though
    the policy names the scheduler.
    """

    names: tuple[str, ...]
    feasible: Mask
    alternatives: Floats
    scores: Ints
    departure: LeavingPod
    wrong: Mask
    any_fit: bool = False
    scheduler: OtherScheduler | None = None
    scored: Scored | None = None
    unclear: str = ""

    @cached_property
    def destinations(self) -> Mask:
        """The nodes that are feasible in any alternative, shape (nodes,). Do not modify."""
        somewhere: Mask = np.logical_or.reduce(self.feasible, axis=0)
        return somewhere

    @cached_property
    def probabilities(self) -> Floats:
        """The mean of the alternatives, shape (nodes,), sum 1 or 0. Do not modify."""
        rows = self.alternatives
        mean: Floats = rows[0] if len(rows) == 1 else rows.mean(axis=0)
        return mean

    @cached_property
    def likeliest(self) -> Mask:
        """The nodes with the highest probability, shape (nodes,). Do not modify."""
        likeliest: Mask = self.probabilities >= self.probabilities.max() - _TIED
        return likeliest

    def chances(self, share: float, most: int, first: str = "") -> tuple[LandingChance, ...]:
        """The fewest nodes with this share of the probability, at most `most`, likeliest first.

        Of equally likely nodes, `first` comes first, then they follow by name.
        """
        probabilities = self.probabilities
        ranks = np.where(self.likeliest, probabilities.max(), probabilities)
        if first:
            ranks[self.names.index(first)] += _TIED
        order = np.argsort(-ranks, kind="stable")
        count = int(np.searchsorted(np.cumsum(probabilities[order]), share - 1e-9)) + 1
        likely = order[: min(count, most)]
        return tuple(
            LandingChance(self.names[i], float(probabilities[i]))
            for i in likely
            if probabilities[i]
        )

    def risk(self, bad: Mask) -> float:
        """The probability of a harmful landing; 1 if no node is feasible.

        If alternatives differ in what has landed, it is at least the probability of the likeliest
        harmful encounter: the landing on one node in those alternatives in which the node is bad.

        Args:
            bad: the nodes that would exceed their target or gain too much overload, are unknown or
                not managed; shape (nodes,) or (alternatives, nodes). Wrong nodes always count.
        """
        return max(self.risk_alone(bad), self.risk_of_encounter(bad))

    def risk_alone(self, bad: Mask) -> float:
        """The probability of a node that is bad in every alternative."""
        if not np.count_nonzero(self.destinations):
            return 1.0
        return float((self.probabilities * self._harmful_alone(bad)).sum())

    def risk_of_encounter(self, bad: Mask) -> float:
        """The probability of the likeliest harmful encounter; 0 if all alternatives are equal."""
        return 0.0 if bad.ndim == 1 else float(self._encounters(bad).max())

    def harmful(self, bad: Mask) -> Mask:
        """The nodes to keep the replacement away from, shape (nodes,); `bad` as in `risk`."""
        harmful = self._harmful_alone(bad)
        if bad.ndim > 1 and np.count_nonzero(encounters := self._encounters(bad)):
            harmful |= encounters >= encounters.max()
        return harmful

    def _harmful_alone(self, bad: Mask) -> Mask:
        """The nodes that are bad in every alternative."""
        return (bad if bad.ndim == 1 else np.logical_and.reduce(bad, axis=0)) | self.wrong

    def _encounters(self, bad: Mask) -> Floats:
        """The probability of a landing on each node while it is bad, shape (nodes,)."""
        mean: Floats = (self.alternatives * bad).mean(axis=0)
        return mean

    def seen_by(self, view: SchedulerView) -> "Landing":
        """The landing of the same replacement with the soft taints of this view."""
        parts = _alternatives(self.departure, self.feasible, view, self.scored)
        alternatives, scores, scored = parts
        return msgspec.structs.replace(
            self, alternatives=alternatives, scores=scores, scored=scored
        )

    def at(self, node: str) -> "Landing":
        """The same landing on this node, for certain."""
        certain = np.zeros((1, len(self.names)))
        certain[0, self.names.index(node)] = 1.0
        return msgspec.structs.replace(self, alternatives=certain)


def forecast(pod: Pod, free: FreeCapacity, view: SchedulerView) -> Landing:
    """Forecast the landing of the pod's replacement.

    A ReplicaSet replaces a pod at once, while the old one still holds its requests. The old pod is
    gone only if the replacement fits nowhere before that, if a StatefulSet owns the pod, if it has
    no grace period, or if it left with others. `free` and `view` are the state after earlier
    moves.
    """
    source = view.arrays.index[pod.node]
    other, scheduler = pod.scheduler != DEFAULT_SCHEDULER, view.rules.known(pod.scheduler)
    possible = ~free.limits.never_chosen(pod) if other else free.arrays.all()
    leaving = LeavingPod(pod, source, gone=False)
    destinations = free.feasible_beside(pod, pod.node) & view.fits(leaving) & possible
    if free.may_return or _goes_first(pod) or not np.count_nonzero(destinations):
        leaving = LeavingPod(pod, source, gone=True, away=free.may_return)
        destinations = free.feasible(pod, pod.node) & view.fits(leaving) & possible
    alternatives, scores, scored = _alternatives(leaving, destinations, view)
    wrong = view.unfamiliar(pod) | free.limits.outside(pod)
    if not leaving.away:  # pods that left together may come back to nodes that are not overloaded
        wrong[source] = True
    any_fit = other and scheduler is None
    rest = any_fit, scheduler, scored, view.rules.unclear(pod.scheduler)
    return Landing(view.names, destinations, alternatives, scores, leaving, wrong, *rest)


def _goes_first(pod: Pod) -> bool:
    """Whether the pod is always gone before its replacement is created."""
    owner = pod.owner
    one_by_one = owner is not None and (
        owner.kind == "StatefulSet" or owner.declared_kind == VOLCANO_JOB_KIND
    )
    return one_by_one or pod.grace_period_seconds == 0


def _alternatives(
    leaving: LeavingPod,
    destinations: Mask,
    view: SchedulerView,
    scored_before: Scored | None = None,
) -> tuple[Floats, Ints, Scored | None]:
    """The probabilities and the scores, both of shape (alternatives or 1, nodes).

    `scored_before` are scores of a kube-scheduler for the same pod in this or another view.
    """
    somewhere: Mask = np.logical_or.reduce(destinations, axis=0)
    scheduler = view.rules.known(leaving.pod.scheduler)
    unknown = leaving.pod.scheduler != DEFAULT_SCHEDULER and scheduler is None
    if unknown or not np.count_nonzero(somewhere):
        shares: Floats = destinations / np.maximum(destinations.sum(axis=-1, keepdims=True), 1)
        return shares, np.zeros_like(destinations, dtype=np.int64), None
    if scheduler is None or scheduler.profile is SchedulerProfile.KUBE_SCHEDULER:
        scored = total_scores(leaving, view, somewhere, scheduler, scored_before)
        return _winners(scored.total, destinations), scored.total, scored
    return *_by_bounds(leaving, view, destinations, scheduler), None


def _by_bounds(
    leaving: LeavingPod, view: SchedulerView, destinations: Mask, scheduler: OtherScheduler
) -> tuple[Floats, Ints]:
    """Return the same as `_alternatives`, by the bounds of the scores."""
    somewhere: Mask = np.logical_or.reduce(destinations, axis=0)
    scores = view.others[scheduler.profile]
    bounds = scores.bounds(leaving, view, somewhere, scheduler)
    least, most, feasible = np.broadcast_arrays(*bounds, destinations)
    count = feasible.shape[-1]
    sample = nodes_to_find(count) if scores.samples else count
    rows = zip(least, most, feasible, strict=True)
    shares = np.array([shares_by_bounds(*row, sample) for row in rows])
    shown = np.nan_to_num(most, posinf=_SHOWN_AT_MOST)
    return shares, np.maximum(shown, 0).astype(np.int64)


def after(view: SchedulerView, landing: Landing) -> SchedulerView:
    """The scheduler's view after this move."""
    return view.moved(landing.departure, landing.alternatives)


def _winners(totals: Ints, destinations: Mask) -> Floats:
    """The probability of each node to win; all 0 in a row without a feasible node."""
    nodes = destinations.shape[-1]
    sample = nodes_to_find(nodes)
    if nodes > sample and max(map(np.count_nonzero, destinations)) > sample:
        # The scheduler scores only a sample of the feasible nodes.
        return best_of_sample(totals, destinations, sample)
    # The scheduler draws among the nodes with the highest total; totals are never negative.
    compared = np.where(destinations, totals, -1)
    best = destinations & (compared == compared.max(axis=-1, keepdims=True))
    shares: Floats = best / np.maximum(best.sum(axis=-1, keepdims=True), 1)
    return shares
