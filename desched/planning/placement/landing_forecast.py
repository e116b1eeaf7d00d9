"""Where the replacement of an evicted pod will land.

kube-scheduler's scores over all nodes where it can go, the source included, give each node a
probability. Pods of other schedulers may land on any of these nodes.
"""

from functools import cached_property

import msgspec
import numpy as np

from desched.model.cluster import Pod
from desched.planning.arrays import Floats, Ints, Mask
from desched.planning.kube_scheduler.scores.cluster_view import LeavingPod, SchedulerView
from desched.planning.kube_scheduler.scores.node_sampling import best_of_sample, nodes_to_find
from desched.planning.kube_scheduler.scores.total import total_scores
from desched.planning.placement.free_capacity import FreeCapacity

DEFAULT_SCHEDULER = "default-scheduler"


def expected_node(pod: Pod, destinations: Mask, free: FreeCapacity) -> str | None:
    """The most likely place, ties by name; None without any place."""
    where = np.flatnonzero(destinations)
    if not len(where):
        return None
    share = free.requested_share(pod.scheduling.requests, where)
    return free.names[int(where[np.argmin(share)])]


class Landing(msgspec.Struct, frozen=True, dict=True):
    """The probability of each node, in the order of `names`; all zero where nothing fits.

    `destinations` are the nodes that it can go to, in any alternative of the view; `feasible` and
    `alternatives` have a row for each, or one where all are alike; `scores` as well, and they mean
    nothing outside of `destinations`. `unfamiliar` marks nodes of an architecture that the workload
    has never run on. `any_fit` says that nothing is known but where the pod fits, since another
    scheduler places it.
    """

    names: tuple[str, ...]
    feasible: Mask
    alternatives: Floats
    scores: Ints
    departure: LeavingPod
    unfamiliar: Mask
    any_fit: bool = False

    @cached_property
    def destinations(self) -> Mask:
        """Shape (nodes,), not to be changed."""
        somewhere: Mask = np.logical_or.reduce(self.feasible, axis=0)
        return somewhere

    @cached_property
    def probabilities(self) -> Floats:
        """Shape (nodes,), not to be changed; their sum is 1, or 0 where nothing fits."""
        rows = self.alternatives
        mean: Floats = rows[0] if len(rows) == 1 else rows.mean(axis=0)
        return mean

    @property
    def expected_node(self) -> str | None:
        """The most likely node, ties by name."""
        probabilities = self.probabilities
        return self.names[int(np.argmax(probabilities))] if probabilities.any() else None

    def likely(self, share: float) -> tuple[str, ...]:
        """The fewest nodes that hold this share of the probability, most likely first."""
        return tuple(name for name, _ in self.chances(share, len(self.names)))

    def chances(self, share: float, most: int) -> tuple[tuple[str, float], ...]:
        """These nodes with their probabilities, at most so many."""
        probabilities = self.probabilities
        order = np.argsort(-probabilities, kind="stable")
        count = int(np.searchsorted(np.cumsum(probabilities[order]), share - 1e-9)) + 1
        found = order[: min(count, most)]
        return tuple((self.names[i], float(probabilities[i])) for i in found if probabilities[i])

    def risk(self, bad: Mask) -> float:
        """The probability of a landing that does not help; 1 where nothing fits.

        Where what has landed differs, it is at least that of the likeliest harmful encounter: to
        land on one certain node, in alternatives in which others are there already.

        Args:
            bad: nodes that would exceed their target, are unknown or not managed, perhaps others in
                each alternative of the view; the source and unfamiliar architectures are counted
                whether they are in it or not.
        """
        return max(self.risk_alone(bad), self.risk_of_encounter(bad))

    def risk_alone(self, bad: Mask) -> float:
        """The probability of a node that does not help whatever has landed before."""
        if not np.count_nonzero(self.destinations):
            return 1.0
        return float((self.probabilities * self._harmful_alone(bad)).sum())

    def risk_of_encounter(self, bad: Mask) -> float:
        """The probability of the likeliest harmful encounter; 0 where what has landed is alike."""
        return 0.0 if bad.ndim == 1 else float(self._encounters(bad).max())

    def harmful(self, bad: Mask) -> Mask:
        """Nodes to keep the replacement from, shape (nodes,), given those of `risk`."""
        harmful = self._harmful_alone(bad)
        if bad.ndim > 1 and np.count_nonzero(encounters := self._encounters(bad)):
            harmful |= encounters >= encounters.max()
        return harmful

    def _harmful_alone(self, bad: Mask) -> Mask:
        """Nodes on which it does not help in any alternative."""
        harmful = (bad if bad.ndim == 1 else np.logical_and.reduce(bad, axis=0)) | self.unfamiliar
        harmful[self.departure.source] = True
        return harmful

    def _encounters(self, bad: Mask) -> Floats:
        """For each node the probability to land on it where it is bad in that alternative."""
        mean: Floats = (self.alternatives * bad).mean(axis=0)
        return mean

    def seen_by(self, view: SchedulerView) -> "Landing":
        """The landing of the same replacement where soft taints are as in this view."""
        alternatives, scores = _alternatives(self.departure, self.feasible, view)
        return msgspec.structs.replace(self, alternatives=alternatives, scores=scores)


def forecast(pod: Pod, free: FreeCapacity, view: SchedulerView) -> Landing:
    """Where the pod's replacement will land.

    A ReplicaSet replaces a pod at once, so the old one still holds its requests; if nothing fits
    until it has ended, it is gone by then, and so it always is for a StatefulSet and without a
    grace period.

    Args:
        pod: a pod that is bound to a node of the view.
        free: where the filters let it, with what earlier moves have reserved.
        view: what earlier moves leave to the scheduler.
    """
    source = view.arrays.index[pod.node]
    leaving = LeavingPod(pod, source, gone=False)
    destinations = free.feasible_beside(pod, pod.node) & view.fits(leaving)
    if _goes_first(pod) or not np.count_nonzero(destinations):
        leaving = LeavingPod(pod, source, gone=True)
        destinations = free.feasible(pod, pod.node) & view.fits(leaving)
    alternatives, scores = _alternatives(leaving, destinations, view)
    any_fit = pod.scheduler != DEFAULT_SCHEDULER
    return Landing(
        view.names, destinations, alternatives, scores, leaving, view.unfamiliar(pod), any_fit
    )


def _goes_first(pod: Pod) -> bool:
    """Whether the scheduler always sees the pod go before it sees the replacement."""
    one_by_one = pod.owner is not None and pod.owner.kind == "StatefulSet"
    return one_by_one or pod.grace_period_seconds == 0


def _alternatives(
    leaving: LeavingPod, destinations: Mask, view: SchedulerView
) -> tuple[Floats, Ints]:
    """Probabilities and scores for each alternative, both of shape (alternatives or 1, nodes)."""
    somewhere: Mask = np.logical_or.reduce(destinations, axis=0)
    if leaving.pod.scheduler != DEFAULT_SCHEDULER or not np.count_nonzero(somewhere):
        shares: Floats = destinations / np.maximum(destinations.sum(axis=-1, keepdims=True), 1)
        return shares, np.zeros_like(destinations, dtype=np.int64)
    scores = total_scores(leaving, view, somewhere)
    return _winners(scores, destinations), scores


def after(view: SchedulerView, landing: Landing) -> SchedulerView:
    """The view that the move leaves to those that follow."""
    return view.moved(landing.departure, landing.alternatives)


def _winners(totals: Ints, destinations: Mask) -> Floats:
    """Probabilities for each alternative; all zero in those in which nothing fits."""
    nodes = destinations.shape[-1]
    sample = nodes_to_find(nodes)
    if nodes > sample and max(map(np.count_nonzero, destinations)) > sample:
        return np.array(
            [best_of_sample(t, p, sample) for t, p in zip(totals, destinations, strict=True)]
        )
    reachable = np.where(destinations, totals, -1)
    best = destinations & (reachable == reachable.max(axis=-1, keepdims=True))
    shares: Floats = best / np.maximum(best.sum(axis=-1, keepdims=True), 1)
    return shares
