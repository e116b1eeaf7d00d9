"""The total score of each node for the replacement of a pod.

Source: k8s.io/kubernetes/pkg/scheduler at v1.36, default profile.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from desched.model.cluster import Pod, SpreadConstraint
from desched.planning.arrays import Ints, Mask
from desched.planning.kube_scheduler.default_spread import default_selector
from desched.planning.kube_scheduler.node_arrays import Domains
from desched.planning.kube_scheduler.pod_index import PodMatch
from desched.planning.kube_scheduler.scores import plugins
from desched.planning.kube_scheduler.scores.cluster_view import LeavingPod, SchedulerView
from desched.planning.kube_scheduler.scores.node_sampling import nodes_to_find
from desched.planning.kube_scheduler.scores.plugins import SpreadTerm
from desched.planning.kube_scheduler.scores.requested import requested_amounts
from desched.policy.schedulers import OtherScheduler, SchedulerRules, ScoringStrategy

HOSTNAME_LABEL = "kubernetes.io/hostname"
ZONE_LABEL = "topology.kubernetes.io/zone"
SYSTEM_DEFAULT_SPREAD = ((HOSTNAME_LABEL, 3), (ZONE_LABEL, 5))
"""Topology key and maxSkew of the default constraints for pods without their own."""

IMPROVEMENT_SINCE = (1, 36)
"""The first version in which BalancedAllocation scores the improvement by the pod."""


ScoreRules = SchedulerRules | OtherScheduler
"""What has the strategy and the weights of a kube-scheduler."""


class Scored(NamedTuple):
    """The total scores of a pod; `besides_taints` are those of all plugins but TaintToleration.

    Both have shape (alternatives or 1, nodes), and only those of `feasible` nodes mean anything.
    """

    total: Ints
    besides_taints: Ints
    feasible: Mask
    view: SchedulerView


def total_scores(
    leaving: LeavingPod,
    view: SchedulerView,
    feasible: Mask,
    rules: ScoreRules | None = None,
    scored: Scored | None = None,
) -> Scored:
    """The total score of each feasible node.

    `known` are scores of the same pod by the same rules: if only soft taints of desched differ, its
    other plugins are not computed again.
    """
    rules = rules or view.rules
    if (
        scored is not None
        and view.moves is scored.view.moves
        and np.array_equal(feasible, scored.feasible)
    ):
        besides_taints = scored.besides_taints
    else:
        scores = _scores_besides_taints(leaving, view, feasible, rules)
        besides_taints = sum(scores.values(), np.zeros(1, dtype=np.int64))
    total = _taint_scores(leaving, view, feasible, rules) + besides_taints
    return Scored(total, besides_taints, feasible, view)


def plugin_scores(
    leaving: LeavingPod, view: SchedulerView, feasible: Mask, rules: ScoreRules | None = None
) -> Mapping[str, Ints]:
    """The weighted scores by the scheduler's names of the plugins.

    Arrays have a row for each alternative, or one row if all are equal. Plugins that do not apply
    to the pod are left out. At least one node must be feasible; scores of others mean nothing.
    `rules` are those of a kube-scheduler beside the default one.
    """
    rules = rules or view.rules
    taints = _taint_scores(leaving, view, feasible, rules)
    others = _scores_besides_taints(leaving, view, feasible, rules)
    return {"TaintToleration": taints, **others}


def _taint_scores(
    leaving: LeavingPod, view: SchedulerView, feasible: Mask, rules: ScoreRules
) -> Ints:
    taints = view.soft_taints(leaving.pod.scheduling.tolerations)
    return rules.weights.taint_toleration * plugins.share_of_most(taints, feasible, reverse=True)


def _scores_besides_taints(
    leaving: LeavingPod, view: SchedulerView, feasible: Mask, rules: ScoreRules
) -> dict[str, Ints]:
    scheduling, weights = leaving.pod.scheduling, rules.weights
    fit, balanced = _resource_scores(leaving, view, rules.strategy)
    scores = {
        "NodeResourcesFit": weights.node_resources_fit * fit,
        "NodeResourcesBalancedAllocation": weights.node_resources_balanced_allocation * balanced,
    }
    if constraints := spread_constraints(leaving.pod, view):
        spread = _spread_scores(leaving, view, feasible, constraints)
        scores["PodTopologySpread"] = weights.pod_topology_spread * spread
    if attracted := _attractions(leaving, view):
        affinity = plugins.between_extremes(sum(attracted[1:], attracted[0]), feasible)
        scores["InterPodAffinity"] = weights.inter_pod_affinity * affinity
    if scheduling.preferred_node_affinity:
        preferred = view.facts.preferred(scheduling.preferred_node_affinity)
        scores["NodeAffinity"] = weights.node_affinity * plugins.share_of_most(
            preferred, feasible, reverse=False
        )
    if scheduling.images:
        scores["ImageLocality"] = weights.image_locality * plugins.image_locality(
            view.facts.image_bytes(scheduling.images), len(scheduling.images)
        )
    return scores


def _resource_scores(
    leaving: LeavingPod, view: SchedulerView, strategy: ScoringStrategy
) -> tuple[Ints, Ints]:
    """NodeResourcesFit and BalancedAllocation; the latter skips pods without requests."""
    requested, capacity = view.requested(leaving), view.capacity
    # Rows 0 and 1 are the requests, rows 2 and 3 the same with the scheduler's defaults.
    own = np.array(requested_amounts(leaving.pod.scheduling), dtype=float)[:, None]
    with_pod = requested.amounts + own
    if strategy is ScoringStrategy.LEAST_ALLOCATED:
        fit = plugins.least_allocated(with_pod[:, 2:], capacity)
    else:
        fit = plugins.most_allocated(with_pod[:, 2:], capacity)
    if not own[:2].any():
        return fit, np.zeros_like(fit)
    before = requested.balance if _scores_improvement(view.cluster.server_version) else None
    return fit, plugins.balanced_allocation(before, plugins.balance(with_pod[:, :2], capacity))


def _scores_improvement(server_version: str) -> bool:
    """An unknown version counts as new."""
    version = re.match(r"v?(\d{1,9})\.(\d{1,9})", server_version)
    return version is None or (int(version[1]), int(version[2])) >= IMPROVEMENT_SINCE


def _attractions(leaving: LeavingPod, view: SchedulerView) -> list[Ints]:
    """The attraction of the pod by each node's domain, one array for each topology key."""
    return [
        domain_totals(view.arrays.domains(topology_key), per_node)
        for weighted in (view.attraction(leaving), view.preference(leaving))
        for topology_key, per_node in weighted.items()
    ]


def _spread_scores(
    leaving: LeavingPod,
    view: SchedulerView,
    feasible: Mask,
    constraints: Iterable[SpreadConstraint],
) -> Ints:
    labelled = view.arrays.all()
    # With the default constraints, nodes without a zone are compared as well.
    if leaving.pod.scheduling.spread:
        for constraint in constraints:
            labelled &= view.arrays.domains(constraint.topology_key).labelled
    terms = [_spread_term(leaving, view, c, feasible & labelled, labelled) for c in constraints]
    return plugins.topology_spread(terms, feasible, ~labelled)


def _spread_term(
    leaving: LeavingPod,
    view: SchedulerView,
    constraint: SpreadConstraint,
    compared: Mask,
    labelled: Mask,
) -> SpreadTerm:
    """The counts of the domains, and the number of domains of the compared nodes."""
    pod, domains = leaving.pod, view.arrays.domains(constraint.topology_key)
    counts = np.zeros(len(view.names), dtype=np.int64)
    selector = constraint.selector_of(pod.labels)
    if selector is not None and selector.requirements:
        wanted = PodMatch(frozenset({pod.namespace}), selector)
        counts = view.matching(wanted, leaving, terminating=False)
    if constraint.topology_key == HOSTNAME_LABEL:
        size = min(int(compared.sum()), nodes_to_find(len(view.names)))
        return SpreadTerm(counts, domains.labelled, size, constraint.max_skew)
    included = view.nodes.eligible(pod.scheduling, constraint, labelled)
    totals = domain_totals(domains, np.where(included, counts, 0))
    # Nodes without the label form a domain of their own here.
    size = int(np.count_nonzero(np.bincount(domains.of[compared] + 1)))
    return SpreadTerm(totals, domains.labelled, size, constraint.max_skew)


def domain_totals(domains: Domains, per_node: Ints) -> Ints:
    """The sum over all nodes of each node's domain, 0 for nodes without one; same shape."""
    where = np.where(domains.of < 0, domains.count, domains.of)
    rows = [
        np.bincount(where, weights=row, minlength=domains.count + 1)
        for row in per_node.reshape(-1, per_node.shape[-1])
    ]
    totals = np.array(rows).astype(np.int64)
    totals[:, domains.count] = 0
    return totals[:, where].reshape(per_node.shape)


def spread_constraints(pod: Pod, view: SchedulerView) -> tuple[SpreadConstraint, ...]:
    """The pod's own soft constraints; those of the system if it has none, soft or hard.

    Where the policy names default constraints, they are among its own.
    """
    if pod.scheduling.spread or view.rules.default_spread_of(pod.scheduler) is not None:
        return tuple(constraint for constraint in pod.scheduling.spread if not constraint.hard)
    selector = default_selector(pod, view.services_about(pod), view.cluster)
    if not selector.requirements:
        return ()
    return tuple(
        SpreadConstraint(key, max_skew, hard=False, selector=selector)
        for key, max_skew in SYSTEM_DEFAULT_SPREAD
    )
