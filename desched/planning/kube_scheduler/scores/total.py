"""The score that kube-scheduler gives each node for the replacement of a pod.

Source: k8s.io/kubernetes/pkg/scheduler at v1.36, default profile.
"""

import re
from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from desched.model.cluster import Pod, SpreadConstraint
from desched.model.selectors import LabelSelector, Operator, Requirement
from desched.planning.arrays import Ints, Mask
from desched.planning.kube_scheduler.node_arrays import Domains
from desched.planning.kube_scheduler.pod_index import PodMatch
from desched.planning.kube_scheduler.scores import plugins
from desched.planning.kube_scheduler.scores.cluster_view import LeavingPod, SchedulerView
from desched.planning.kube_scheduler.scores.node_sampling import nodes_to_find
from desched.planning.kube_scheduler.scores.plugins import SpreadTerm
from desched.planning.kube_scheduler.scores.requested import requested_amounts
from desched.policy.policy import ScoringStrategy

HOSTNAME_LABEL = "kubernetes.io/hostname"
ZONE_LABEL = "topology.kubernetes.io/zone"
SYSTEM_DEFAULT_SPREAD = ((HOSTNAME_LABEL, 3), (ZONE_LABEL, 5))
"""Topology key and maxSkew of the constraints of pods without their own."""

OWNERS_WITH_SELECTOR = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController"})

IMPROVEMENT_SINCE = (1, 36)
"""The version from which BalancedAllocation scores the improvement that a pod brings."""


def total_scores(leaving: LeavingPod, view: SchedulerView, feasible: Mask) -> Ints:
    """The final score of each feasible node, one row for each alternative of the view."""
    return sum(plugin_scores(leaving, view, feasible).values(), np.zeros(1, dtype=np.int64))


def plugin_scores(leaving: LeavingPod, view: SchedulerView, feasible: Mask) -> Mapping[str, Ints]:
    """The weighted scores by the names that the plugins have in the scheduler.

    Those of resources have a row for each alternative, the others where they differ. A plugin that
    has nothing to go by is left out.

    Args:
        leaving: the pod whose replacement is placed.
        view: the cluster at that time.
        feasible: nodes that pass the filters, at least one; the values of others mean nothing.
    """
    scheduling, weights = leaving.pod.scheduling, view.rules.weights
    fit, balanced = _resource_scores(leaving, view)
    taints = view.soft_taints(scheduling.tolerations)
    found = {
        "TaintToleration": weights.taint_toleration
        * plugins.share_of_most(taints, feasible, reverse=True),
        "NodeResourcesFit": weights.node_resources_fit * fit,
        "NodeResourcesBalancedAllocation": weights.node_resources_balanced_allocation * balanced,
    }
    if constraints := spread_constraints(leaving.pod, view):
        spread = _spread_scores(leaving, view, feasible, constraints)
        found["PodTopologySpread"] = weights.pod_topology_spread * spread
    if attracted := _attractions(leaving, view):
        affinity = plugins.between_extremes(sum(attracted[1:], attracted[0]), feasible)
        found["InterPodAffinity"] = weights.inter_pod_affinity * affinity
    if scheduling.preferred_node_affinity:
        preferred = view.facts.preferred(scheduling.preferred_node_affinity)
        found["NodeAffinity"] = weights.node_affinity * plugins.share_of_most(
            preferred, feasible, reverse=False
        )
    if scheduling.images:
        found["ImageLocality"] = weights.image_locality * plugins.image_locality(
            view.facts.image_bytes(scheduling.images), len(scheduling.images)
        )
    return found


def _resource_scores(leaving: LeavingPod, view: SchedulerView) -> tuple[Ints, Ints]:
    """NodeResourcesFit and BalancedAllocation; the latter skips pods without requests."""
    requested, capacity = view.requested(leaving), view.capacity
    own = np.array(requested_amounts(leaving.pod.scheduling), dtype=float)[:, None]
    with_pod = requested.amounts + own
    if view.rules.strategy is ScoringStrategy.LEAST_ALLOCATED:
        fit = plugins.least_allocated(with_pod[:, 2:], capacity)
    else:
        fit = plugins.most_allocated(with_pod[:, 2:], capacity)
    if not own[:2].any():
        return fit, np.zeros_like(fit)
    before = requested.balance if _scores_improvement(view.cluster.server_version) else None
    return fit, plugins.balanced_allocation(before, plugins.balance(with_pod[:, :2], capacity))


def _scores_improvement(server_version: str) -> bool:
    """An unknown version is taken for a new one."""
    found = re.match(r"v?(\d{1,9})\.(\d{1,9})", server_version)
    return found is None or (int(found[1]), int(found[2])) >= IMPROVEMENT_SINCE


def _attractions(leaving: LeavingPod, view: SchedulerView) -> list[Ints]:
    """By how much each node's domains draw the pod, for each topology key."""
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
    # With the system's defaults, nodes without a zone are compared as well.
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
    """Counts of the domains, and how many of them the compared nodes are in."""
    pod, domains = leaving.pod, view.arrays.domains(constraint.topology_key)
    counts = np.zeros(len(view.names), dtype=np.int64)
    if constraint.selector is not None and constraint.selector.requirements:
        wanted = PodMatch(frozenset({pod.namespace}), constraint.selector)
        counts = view.matching(wanted, leaving, terminating=False)
    if constraint.topology_key == HOSTNAME_LABEL:
        size = min(int(compared.sum()), nodes_to_find(len(view.names)))
        return SpreadTerm(counts, domains.labelled, size, constraint.max_skew)
    included = labelled
    if constraint.honors_affinity:
        included = included & view.nodes.selected(pod.scheduling)
    if constraint.honors_taints:
        included = included & view.nodes.tolerated(pod.scheduling)
    totals = domain_totals(domains, np.where(included, counts, 0))
    # To have no label is a domain here.
    size = int(np.count_nonzero(np.bincount(domains.of[compared] + 1)))
    return SpreadTerm(totals, domains.labelled, size, constraint.max_skew)


def domain_totals(domains: Domains, per_node: Ints) -> Ints:
    """For each node the sum over all nodes of its domain; 0 without a domain."""
    where = np.where(domains.of < 0, domains.count, domains.of)
    rows = [
        np.bincount(where, weights=row, minlength=domains.count + 1)
        for row in per_node.reshape(-1, per_node.shape[-1])
    ]
    totals = np.array(rows).astype(np.int64)
    totals[:, domains.count] = 0
    return totals[:, where].reshape(per_node.shape)


def spread_constraints(pod: Pod, view: SchedulerView) -> tuple[SpreadConstraint, ...]:
    """The pod's own soft constraints; the system's defaults if it has none at all."""
    if pod.scheduling.spread:
        return tuple(
            _with_own_labels(constraint, pod)
            for constraint in pod.scheduling.spread
            if not constraint.hard
        )
    selector = default_selector(pod, view)
    if not selector.requirements:
        return ()
    return tuple(
        SpreadConstraint(key, max_skew, hard=False, selector=selector)
        for key, max_skew in SYSTEM_DEFAULT_SPREAD
    )


def _with_own_labels(constraint: SpreadConstraint, pod: Pod) -> SpreadConstraint:
    keys = [key for key in constraint.match_label_keys if key in pod.labels]
    if constraint.selector is None or not keys:
        return constraint
    own = tuple(Requirement(key, Operator.IN, (pod.labels[key],)) for key in keys)
    return msgspec.structs.replace(
        constraint, selector=LabelSelector((*constraint.selector.requirements, *own))
    )


def default_selector(pod: Pod, view: SchedulerView) -> LabelSelector:
    """What the pod's Services and its controller select, both together."""
    wanted: dict[str, str] = {}
    for service in view.services_about(pod):
        wanted |= service.selector
    requirements = [Requirement(key, Operator.IN, (value,)) for key, value in wanted.items()]
    if pod.owner is not None and pod.owner.kind in OWNERS_WITH_SELECTOR:
        own = view.cluster.controller_selectors.get(pod.owner.uid, LabelSelector())
        requirements += own.requirements
    return LabelSelector(tuple(requirements))
