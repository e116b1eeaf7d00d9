"""How schedulers beside kube-scheduler score nodes, as far as that is known.

Their code cannot be run here, and their state differs from ours by what happens in between. So each
node has bounds: what surely counts is in both, what may count only in the upper one. Nodes whose
bounds overlap are equally likely.

Sources, at volcano-sh/volcano@ed72c7c8 and NVIDIA/KAI-Scheduler@72de64fc; the tests cite the lines.
"""

import numpy as np

from desched.planning.arrays import Floats, Mask
from desched.planning.kube_scheduler.scores import plugins
from desched.planning.kube_scheduler.scores.cluster_view import LeavingPod, SchedulerView
from desched.planning.kube_scheduler.scores.requested import requested_amounts
from desched.planning.kube_scheduler.scores.total import plugin_scores
from desched.planning.plugins import ScoreBounds
from desched.plugins.devices import gpus_of
from desched.policy.schedulers import OtherScheduler, SchedulerProfile, ScoreWeights, VolcanoWeights

BEST = float(plugins.BEST)

SLACK = 10.0
"""Points by which a score may differ from ours: pods come and go, and versions round differently.

A tenth of what a plugin of weight 1 gives at most."""

_MOST_PACKED = 9.0
_CPU_ONLY = 10.0
_KAI_SLACK = 1.0
"""KAI's scheduler packs with 0 to 9 points (pack.go), and gives pods without a GPU 10 for a node
without one (scores.go). One point is a ninth of the difference between the nodes."""


def bounds_of_volcano(
    leaving: LeavingPod, view: SchedulerView, feasible: Mask, scheduler: OtherScheduler
) -> ScoreBounds:
    """Volcano adds up the scores of nodeorder and binpack, mostly by plugins of kube-scheduler."""
    weights, scheduling = scheduler.volcano, leaving.pod.scheduling
    same = plugin_scores(leaving, view, feasible, _of_kube_scheduler(weights))
    sums: Floats = sum((score.astype(float) for score in same.values()), np.zeros(1))
    requested, capacity = view.requested(leaving), view.capacity
    own = np.array(requested_amounts(scheduling), dtype=float)[:, None]
    with_pod = requested.amounts + own
    sums = sums + weights.most_requested * plugins.most_allocated(with_pod[:, 2:], capacity)
    packed = weights.binpack * _packed(with_pod[:, :2], own[:2], view, weights)
    # Which of the other resources binpack counts is not kept, and most pods request none.
    others = scheduler.packs_others and bool(scheduling.requests.extended)
    sums = sums + (0.0 if others else packed)
    most_packed = weights.binpack * BEST if others else 0.0
    if scheduling.preferred_node_affinity:  # its sum is not normalized
        sums = sums + weights.node_affinity * view.facts.preferred(
            scheduling.preferred_node_affinity
        )
    lowest, highest = np.zeros(1), np.full(1, BEST)
    if own[:2].all() and not gpus_of(scheduling.requests):  # GPUs count in the balance as well
        after = plugins.balance(with_pod[:, :2], capacity)
        by_version = [
            plugins.balanced_allocation(before, after) for before in (None, requested.balance)
        ]
        lowest, highest = np.minimum(*by_version), np.maximum(*by_version)
    balanced = weights.balanced_resource
    # Whole points: nodes that differ by less need not be told apart, which takes time.
    return ScoreBounds(
        np.floor(sums + balanced * lowest - SLACK / 2),
        np.ceil(sums + balanced * highest + SLACK / 2 + scheduler.further_points + most_packed),
    )


def _of_kube_scheduler(weights: VolcanoWeights) -> OtherScheduler:
    """What nodeorder takes from kube-scheduler without a change."""
    return OtherScheduler(
        SchedulerProfile.KUBE_SCHEDULER,
        weights=ScoreWeights(
            taint_toleration=weights.taint_toleration,
            node_affinity=0,
            pod_topology_spread=weights.pod_topology_spread,
            inter_pod_affinity=weights.pod_affinity,
            node_resources_fit=weights.least_requested,
            node_resources_balanced_allocation=0,
            image_locality=weights.image_locality,
        ),
    )


def _packed(with_pod: Floats, own: Floats, view: SchedulerView, weights: VolcanoWeights) -> Floats:
    """The mean requested share, of what the pod requests, in percent (`BinPackingScore`)."""
    share = np.where(with_pod <= view.capacity.allocatable, with_pod / view.capacity.divisors, 0.0)
    of_each = np.array([[weights.binpack_cpu], [weights.binpack_memory]]) * (own > 0)
    packed: Floats = BEST * (share * of_each).sum(axis=1) / max(float(of_each.sum()), 1.0)
    return packed


def bounds_of_kai(
    leaving: LeavingPod, view: SchedulerView, feasible: Mask, _: OtherScheduler
) -> ScoreBounds:
    """KAI prefers the node with the least free CPU, and for pods without a GPU one without GPUs."""
    pod, nodes = leaving.pod, view.arrays.nodes
    free = (view.capacity.allocatable - view.requested(leaving).amounts[:, :2])[:, 0]
    if gpus_of(pod.scheduling.requests):
        packed = np.zeros_like(free)
        return ScoreBounds(packed, packed + _MOST_PACKED)
    low = np.where(feasible, free, np.inf).min(axis=-1, keepdims=True, initial=np.inf)
    high = np.where(feasible, free, -np.inf).max(axis=-1, keepdims=True, initial=-np.inf)
    width = np.where(high > low, high - low, 1.0)
    packed = _MOST_PACKED * np.where(high > low, (high - free) / width, 1.0)
    without_gpus = _CPU_ONLY * np.array([not gpus_of(node.allocatable) for node in nodes])
    least, most = (
        without_gpus + np.clip(packed + slack, 0.0, _MOST_PACKED)
        for slack in (-_KAI_SLACK / 2, _KAI_SLACK / 2)
    )
    if pod.scheduling.preferred_pod_affinity or view.attraction(leaving):
        most = most + np.inf  # affinity between pods counts for more than all else
    return ScoreBounds(least, most)
