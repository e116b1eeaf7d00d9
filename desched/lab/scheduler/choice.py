"""A scheduler for simulated pods: the filters and scores of kube-scheduler.

Source: k8s.io/kubernetes/pkg/scheduler at v1.36, default profile. Left out: image locality,
preemption. Of equal nodes, the first by name is chosen; with a `NodeSample`, any of them.
"""

import math
from collections.abc import Collection, Mapping
from zlib import crc32

import numpy as np

from desched.lab.scheduler.affinity import affinity_scores
from desched.lab.scheduler.filters import feasible, tolerates, usable
from desched.lab.scheduler.spread import spread_scores
from desched.lab.scheduler.view import BEST, ClusterView, Integers, Mask
from desched.model.cluster import Effect, Pod

TAINT_WEIGHT = 3
NODE_AFFINITY_WEIGHT = 2
SPREAD_WEIGHT = 2
POD_AFFINITY_WEIGHT = 2
FIT_WEIGHT = 1
BALANCE_WEIGHT = 1


MOST_COMPARED = 100
"""The scheduler compares all nodes of clusters of this size."""


class NodeSample:
    """The nodes that the scheduler compares for one pod, drawn at random.

    kube-scheduler compares only a part of the nodes in large clusters: it filters nodes in order,
    from where it ended the last time, until it has found enough feasible ones. A `share` of 1 is
    all of them.
    """

    def __init__(self, share: float, seed: int = 0) -> None:
        self._share, self._seed = share, seed
        self._chance = np.random.default_rng(seed)

    @classmethod
    def of_cluster(cls, nodes: int, seed: int = 0) -> "NodeSample | None":
        """The sample of kube-scheduler's defaults for this number of nodes, None if it is all.

        Source: k8s.io/kubernetes/pkg/scheduler, numFeasibleNodesToFind.
        """
        if nodes <= MOST_COMPARED:
            return None
        percentage = max(5, 50 - nodes // 125)
        return cls(max(MOST_COMPARED, nodes * percentage // 100) / nodes, seed)

    def of(self, fits: Mask) -> Mask:
        """Some of the feasible nodes, as many as `share` of all nodes."""
        enough = math.ceil(self._share * len(fits))
        found = np.flatnonzero(fits)
        if len(found) <= enough:
            return fits
        sample = np.zeros_like(fits)
        sample[self._chance.choice(found, enough, replace=False)] = True
        return sample

    def one_of(self, equal: Collection[str], pod: str) -> str:
        """The node that this pod gets of equal ones: as if at random, and the same in each run."""
        return min(equal, key=lambda node: crc32(f"{self._seed} {pod} {node}".encode()))


def choose_node(
    pod: Pod,
    view: ClusterView,
    avoided: Collection[str] = (),
    sample: NodeSample | None = None,
) -> str | None:
    """The node to which a pod is bound, None if it fits nowhere.

    For a pod that is already bound, this is the node of its replacement. `avoided` nodes count as
    if they had one more soft taint. Without a sample, all nodes are compared.
    """
    scores = score_nodes(pod, view, avoided, sample)
    if sample is None or not scores:
        return max(scores, key=scores.__getitem__, default=None)
    highest = max(scores.values())
    return sample.one_of([node for node, score in scores.items() if score == highest], pod.name)


def score_nodes(
    pod: Pod,
    view: ClusterView,
    avoided: Collection[str] = (),
    sample: NodeSample | None = None,
) -> Mapping[str, int]:
    """The weighted score of each node where the pod fits, by name; only of those in the sample."""
    usable_nodes = usable(pod, view)
    fits = feasible(pod, view, usable_nodes)
    fits = sample.of(fits) if sample else fits
    if not fits.any():
        return {}
    total = (
        TAINT_WEIGHT * _taint_scores(pod, fits, view, avoided)
        + NODE_AFFINITY_WEIGHT * _node_affinity_scores(pod, fits, view)
        + SPREAD_WEIGHT * spread_scores(pod, fits, view, usable_nodes)
        + POD_AFFINITY_WEIGHT * affinity_scores(pod, fits, view)
        + FIT_WEIGHT * _least_allocated(pod, view)
        + BALANCE_WEIGHT * _balanced_allocation(pod, view)
    )
    return {view.nodes[i].name: int(total[i]) for i in np.flatnonzero(fits)}


def _taint_scores(pod: Pod, fits: Mask, view: ClusterView, avoided: Collection[str]) -> Integers:
    """TaintToleration: fewer soft taints that the pod does not tolerate are better."""
    disliked = np.zeros(len(view.nodes), dtype=np.int64)
    for node, taint in view.taints:
        disliked[node] += taint.effect == Effect.PREFER_NO_SCHEDULE and not tolerates(pod, taint)
    disliked[[view.index[name] for name in avoided]] += 1
    most = max(1, int(disliked[fits].max()))
    return BEST - BEST * disliked // most


def _node_affinity_scores(pod: Pod, fits: Mask, view: ClusterView) -> Integers:
    """NodeAffinity: more matching preferred terms, by weight, are better."""
    weights = np.zeros(len(view.nodes), dtype=np.int64)
    for weight, term in pod.scheduling.preferred_node_affinity:
        weights += weight * view.matching((term,))
    most = max(1, int(weights[fits].max()))
    return BEST * weights // most


def _least_allocated(pod: Pod, view: ClusterView) -> Integers:
    """NodeResourcesFit: more free capacity is better."""
    own = pod.scheduling
    after = view.scored + np.array([own.scored_cpu_millicores, own.scored_memory_bytes])
    size = view.allocatable[:, :2]
    free: Integers = np.maximum(0, size - after) * BEST // np.maximum(1, size)
    score: Integers = free.sum(axis=1) // free.shape[1]
    return score


def _balanced_allocation(pod: Pod, view: ClusterView) -> Integers:
    """NodeResourcesBalancedAllocation, 1.36: more balance of CPU and memory is better."""
    requests = pod.scheduling.requests
    own = np.array([requests.cpu_millicores, requests.memory_bytes])
    if not own.any():
        return np.zeros(len(view.nodes), dtype=np.int64)
    before, size = view.requested[:, :2], view.allocatable[:, :2]
    change = _balance(before + own, size) - _balance(before, size)
    score: Integers = 50 + ((50 + change) / 2).astype(np.int64)
    return score


def _balance(requested: Integers, allocatable: Integers) -> Integers:
    shares = np.minimum(1.0, requested / np.maximum(1, allocatable))
    # The standard deviation of two values is half of their distance.
    balance: Integers = ((1 - np.abs(shares[:, 0] - shares[:, 1]) / 2) * BEST).astype(np.int64)
    return balance
