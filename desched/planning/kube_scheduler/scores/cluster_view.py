"""The cluster as kube-scheduler will see it when it places the replacement of an evicted pod.

A view is a value; `moved` returns the view after one more move. Only the probabilities of landings
are known. Therefore a view has several equally likely alternatives of the cluster after the moves
so far. In each alternative, every replacement is on one certain node.

Arrays have a row for each alternative and a column for each node, or a single row as long as all
alternatives are equal.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from desched.model.cluster import (
    STEERING_TAINT,
    ClusterState,
    ControllerKey,
    Pod,
    Service,
    Toleration,
)
from desched.model.groups import grouped
from desched.planning.arrays import Floats, Ints, Mask
from desched.planning.kube_scheduler.filters.node_constraints import NodeFilter
from desched.planning.kube_scheduler.label_index import LabelIndex
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.kube_scheduler.pod_index import PodIndex, PodMatch
from desched.planning.kube_scheduler.scores.node_facts import ARCHITECTURE_LABEL, NodeFacts
from desched.planning.kube_scheduler.scores.plugins import Capacity
from desched.planning.kube_scheduler.scores.pod_counts import CarriedTerm, PodCounts, carried_terms
from desched.planning.kube_scheduler.scores.requested import Requested, requested_amounts
from desched.planning.plugins import OtherScores
from desched.policy.schedulers import SchedulerProfile, SchedulerRules

ALTERNATIVES = (31, 23, 17, 11, 7, 5, 3, 2, 1)
"""Primes: steps of any size through the quantiles reach all of them."""

CELLS = 4096
"""The maximum of alternatives times nodes: in large clusters one move matters less."""


class LeavingPod(msgspec.Struct, frozen=True):
    """A pod that leaves its node: it is terminating, or `gone` and holds no requests any more.

    One that is `away` has left with others before, and is no longer in the view.
    """

    pod: Pod
    source: int
    gone: bool
    away: bool = False

    @property
    def frees(self) -> bool:
        """Whether its requests end with its move."""
        return self.gone and not self.away


class _Move(msgspec.Struct, frozen=True):
    """A move; `placed`, shape (alternatives,), has the replacement's node, None for no node."""

    departure: LeavingPod
    placed: NDArray[np.intp] | None


class SchedulerView:
    """Requests and pod counts of every node, in the order of `names`.

    `steered` marks the nodes with desched's own soft taint. `placed`, shape (alternatives,), has
    the node of the last replacement, None before the first move. `others` are the scores of other
    schedulers, for each profile in the rules. `index` is an existing index of the same cluster.
    """

    def __init__(
        self,
        cluster: ClusterState,
        rules: SchedulerRules,
        others: Mapping[SchedulerProfile, OtherScores] | None = None,
        index: PodIndex | None = None,
    ) -> None:
        index = index or PodIndex(cluster, NodeArrays(cluster.nodes))
        self.cluster = cluster
        self.rules = rules
        self.others = others or {}
        self.arrays = index.arrays
        self.names = self.arrays.names
        self.nodes = NodeFilter(self.arrays)
        self.facts = NodeFacts(self.arrays)
        self.steered = self.facts.steered
        self._taints_added: Ints | None = None
        self._counts = PodCounts(index)
        self._alternatives = next(
            (a for a in ALTERNATIVES if a * len(self.names) <= CELLS), ALTERNATIVES[-1]
        )
        self.capacity = Capacity.of_nodes(np.array(self.facts.allocatable))
        totals = self._counts.index.totals(requested_amounts)
        self._requested = Requested.of(totals, self.capacity)
        self._moves: LabelIndex[_Move] = LabelIndex()
        self.placed: NDArray[np.intp] | None = None
        self._carrying: dict[CarriedTerm, tuple[_Move, ...]] = {}

    def with_steered(self, steered: Mask) -> "SchedulerView":
        """The view if exactly these nodes have desched's own soft taint."""
        following: SchedulerView = copy.copy(self)
        following.steered = steered
        added = steered.astype(np.int64) - self.facts.steered
        following._taints_added = added if added.any() else None
        return following

    @property
    def moves(self) -> object:
        """The same object in all views that differ in desched's own soft taints only."""
        return self._moves

    def soft_taints(self, tolerations: tuple[Toleration, ...]) -> Ints:
        """Count the PreferNoSchedule taints of each node that are not tolerated, shape (nodes,)."""
        counts = self.facts.soft_taints(tolerations)
        if self._taints_added is None or any(t.tolerates(STEERING_TAINT) for t in tolerations):
            return counts
        return counts + self._taints_added

    def moved(self, departure: LeavingPod, landing: Floats) -> "SchedulerView":
        """The view after this pod leaves and its replacement has landed.

        Args:
            departure: the pod.
            landing: the probability of each node, shape (alternatives or 1, nodes); all 0 if no
                node is feasible.
        """
        following: SchedulerView = copy.copy(self)
        requested = self._requested.in_alternatives(self._alternatives)
        if departure.frees:
            requested = requested.having(departure.pod.scheduling, departure.source, -1)
        placed = self._destination(landing) if np.count_nonzero(landing) else None
        if placed is not None:
            requested = requested.having(departure.pod.scheduling, placed)
        following._requested = requested
        following.placed = placed
        following._remember(_Move(departure, placed))
        return following

    def without(self, leaving: Iterable[LeavingPod]) -> "SchedulerView":
        """The view once these pods are gone, before any replacement of them is placed."""
        following, nowhere = self, np.zeros((1, len(self.names)))
        for each in leaving:
            following = following.moved(each, nowhere)
        return following

    def _remember(self, move: _Move) -> None:
        """Add the move to a view that is new."""
        self._moves = self._moves.having(move.departure.pod.labels, move)
        if carried := carried_terms(move.departure.pod):
            self._carrying = dict(self._carrying)
            for term in carried:  # a term that a pod has twice counts twice
                self._carrying[term] = (*self._carrying.get(term, ()), move)

    def _destination(self, landing: Floats) -> NDArray[np.intp]:
        """Choose a node for each alternative, so that their shares match the probabilities.

        Each alternative takes one of evenly spaced quantiles of the landing. Each move assigns the
        quantiles in another order, so that alternatives combine different landings of different
        moves. An alternative in which no node is feasible uses the mean of all rows.
        """
        if self._alternatives == 1:
            likeliest: NDArray[np.intp] = landing.argmax(axis=1)
            return likeliest
        # Alternative i takes quantile i * step; the count of alternatives is prime, so each step
        # from 1 to count - 1 reaches every quantile once.
        step = len(self._moves.entries) % max(self._alternatives - 1, 1) + 1
        quantiles = np.arange(self._alternatives) * step % self._alternatives / self._alternatives
        rows = np.broadcast_to(landing, (self._alternatives, landing.shape[-1]))
        rows = np.where(rows.any(axis=-1, keepdims=True), rows, landing.mean(axis=0))
        # In each row: nodes by falling probability, and the first whose running sum exceeds the
        # quantile; `last` guards against a sum that rounding left below 1.
        order = np.argsort(-rows, axis=-1, kind="stable")
        reached = np.cumsum(np.take_along_axis(rows, order, axis=-1), axis=-1)
        past = (reached <= quantiles[:, None] + 1e-9).sum(axis=-1)
        last = (rows > 0).sum(axis=-1) - 1
        chosen: NDArray[np.intp] = np.take_along_axis(
            order, np.minimum(past, last)[:, None], axis=-1
        )[:, 0]
        return chosen

    def requested(self, leaving: LeavingPod) -> Requested:
        """The requests on every node; a pod that is gone does not count."""
        if not leaving.frees:
            return self._requested
        return self._requested.having(leaving.pod.scheduling, leaving.source, -1)

    def fits(self, leaving: LeavingPod) -> Mask:
        """The nodes with enough CPU and memory, shape (alternatives or 1, nodes).

        Pods that earlier moves evicted hold their requests until they are gone.
        """
        amounts = self.requested(leaving).amounts
        own = requested_amounts(leaving.pod.scheduling)
        fits: Mask = np.ones((len(amounts), len(self.names)), dtype=bool)
        for resource, allocatable in enumerate(self.capacity.allocatable):
            if own[resource]:
                fits &= amounts[:, resource] + own[resource] <= allocatable
        return fits

    def matching(self, wanted: PodMatch, leaving: LeavingPod, *, terminating: bool) -> Ints:
        """Count the matching pods on each node; `terminating` pods count or do not."""
        counts = self._counts.per_node(wanted, terminating=terminating)
        moves = (*self._moves.selected(wanted.selector), _Move(leaving, None))
        changes = [move for move in moves if wanted.matches(move.departure.pod)]
        return self._changed(counts, changes, 1, leaves=not terminating)

    def attraction(self, leaving: LeavingPod) -> dict[str, Ints]:
        """The weights with which existing pods attract the pod, by topology key and node."""
        pod = leaving.pod
        at_start = self._counts.attraction(pod.namespace, tuple(sorted(pod.labels.items())))
        weights, own = dict(at_start.weights), carried_terms(pod)
        for carried in at_start.terms:
            moves = [*self._carrying.get(carried, ())]
            moves += [_Move(leaving, None)] * own.count(carried)
            sums = weights[carried.term.topology_key]
            weights[carried.term.topology_key] = self._changed(
                sums, moves, carried.weight, leaves=False
            )
        return weights

    def preference(self, leaving: LeavingPod) -> dict[str, Ints]:
        """The weights with which the pod's own terms attract it, by topology key and node."""
        found: dict[str, Ints] = {}
        for term in leaving.pod.scheduling.preferred_pod_affinity:
            match = self._counts.index.match_of_incoming(term, leaving.pod.namespace)
            counts = self.matching(match, leaving, terminating=True)
            topology = term.topology_key
            found[topology] = found.get(topology, 0) + term.weight * counts
        return found

    def _changed(self, counts: Ints, moves: Sequence[_Move], weight: int, *, leaves: bool) -> Ints:
        """The counts after the moves; if `leaves`, a terminating pod does not count any more."""
        placed = [move.placed for move in moves if move.placed is not None]
        departures = [move.departure for move in moves if not move.departure.away]
        left = [departure.source for departure in departures if leaves or departure.gone]
        if placed:
            # `placed` has shape (moves, alternatives); moves may repeat a cell, hence `add.at`.
            counts = np.broadcast_to(counts, (self._alternatives, len(self.names))).copy()
            np.add.at(counts, (np.arange(self._alternatives), np.array(placed)), weight)
        if left:
            # A pod leaves the same node in all alternatives; the transpose has nodes as rows.
            counts = counts.copy()
            np.subtract.at(counts.T, left, weight)
        return counts

    def services_about(self, pod: Pod) -> list[Service]:
        """The Services that select the pod."""
        labels = [(pod.namespace, label) for label in pod.labels.items()]
        return [s for key in labels for s in self._services.get(key, ()) if s.selects(pod)]

    @cached_property
    def _services(self) -> Mapping[tuple[str, tuple[str, str]], list[Service]]:
        """The Services by namespace and one label of their selector."""
        return grouped(
            ((service.namespace, next(iter(service.selector.items()))), service)
            for service in self.cluster.services
            if service.selector
        )

    def unfamiliar(self, pod: Pod) -> Mask:
        """The nodes of an architecture on which no pod of the workload runs."""
        if len(self.facts.distinct_architectures) == 1:
            return self.arrays.none()
        controller = pod.controller
        seen_on = self._architectures.get(controller, frozenset()) if controller else frozenset()
        here = self.arrays.nodes[self.arrays.index[pod.node]].labels.get(ARCHITECTURE_LABEL, "")
        return np.array([a not in seen_on and a != here for a in self.facts.architectures], bool)

    @cached_property
    def _architectures(self) -> Mapping[ControllerKey, frozenset[str]]:
        """The architectures of the nodes of each controller's pods."""
        residents, architectures = self._counts.index.residents, self.facts.architectures
        by_controller = grouped(
            (key, architectures[i]) for pod, i in residents if (key := pod.controller)
        )
        return {key: frozenset(names) for key, names in by_controller.items()}
