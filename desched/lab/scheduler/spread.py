"""Topology spread: filter and score of the simulated scheduler.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread at v1.36. A pod without
constraints is scored with the system's defaults. Terminating pods do not count.
"""

import math
from typing import NamedTuple

import numpy as np

from desched.lab.scheduler.view import BEST, ClusterView, Integers, Mask
from desched.model.cluster import ClusterState, Pod, SpreadConstraint
from desched.model.selectors import LabelSelector, Operator, Requirement

HOSTNAME_LABEL = "kubernetes.io/hostname"
SYSTEM_DEFAULTS = ((HOSTNAME_LABEL, 3), ("topology.kubernetes.io/zone", 5))
"""Labels and skews with which a pod without constraints is scored."""


class Usable(NamedTuple):
    """The nodes that a pod's node affinity selects, and those whose hard taints it tolerates."""

    selected: Mask
    tolerated: Mask


def spread_mask(pod: Pod, view: ClusterView, usable: Usable) -> Mask:
    """The nodes where the pod violates no hard constraint."""
    hard = [constraint for constraint in pod.scheduling.spread if constraint.hard]
    allowed = view.everywhere
    for constraint in hard:
        eligible = _eligible(constraint, hard, view, usable)
        count = view.in_domain(constraint.topology_key, _matching(pod, constraint, view) * eligible)
        domain = view.domain(constraint.topology_key)
        enough = len(np.unique(domain[eligible])) >= constraint.min_domains
        least = count[eligible].min() if enough and eligible.any() else 0
        selector = constraint.selector_of(pod.labels)
        itself = selector is not None and selector.matches(pod.labels)
        allowed = allowed & (domain >= 0) & (count + itself - least <= constraint.max_skew)
    return allowed


def spread_scores(pod: Pod, feasible: Mask, view: ClusterView, usable: Usable) -> Integers:
    """From 0 to 100, more where fewer matching pods are near; all 0 without constraints."""
    own = [each for each in pod.scheduling.spread if not each.hard]
    constraints = own if pod.scheduling.spread else _system_defaults(pod, view.cluster)
    # Nodes that lack a label of the pod's own constraints are not scored; the defaults need none.
    scored = np.logical_and.reduce([feasible, *(view.domain(c.topology_key) >= 0 for c in own)])
    if not constraints or not scored.any():
        return np.zeros(len(view.nodes), dtype=np.int64)
    crowding = np.zeros(len(view.nodes))
    for constraint in constraints:
        domain = view.domain(constraint.topology_key)
        if (domain < 0).all():
            continue
        count = _matching(pod, constraint, view)
        size = int(scored.sum())
        if constraint.topology_key != HOSTNAME_LABEL:  # a host is one node, whatever its taints
            count = view.in_domain(
                constraint.topology_key, count * _eligible(constraint, own, view, usable)
            )
            size = len(np.unique(domain[scored]))
        crowding += np.where(domain >= 0, count * math.log(size + 2) + constraint.max_skew - 1, 0)
    raw = np.floor(crowding + 0.5).astype(np.int64)
    most, least = int(raw[scored].max()), int(raw[scored].min())
    return np.where(scored, BEST * (most + least - raw) // most if most else BEST, 0)


def _eligible(
    constraint: SpreadConstraint,
    together: list[SpreadConstraint],
    view: ClusterView,
    usable: Usable,
) -> Mask:
    """The nodes whose pods count: those with the labels of all constraints."""
    keys = {other.topology_key for other in (*together, constraint)}
    masks = [view.domain(key) >= 0 for key in keys]
    if constraint.honors_affinity:
        masks.append(usable.selected)
    if constraint.honors_taints:
        masks.append(usable.tolerated)
    counts: Mask = np.logical_and.reduce(masks)
    return counts


def _matching(pod: Pod, constraint: SpreadConstraint, view: ClusterView) -> Integers:
    """The number of pods on each node that the constraint counts, without the pod itself."""
    selector = constraint.selector_of(pod.labels)
    if selector is None or not selector.requirements:
        # For the scheduler, an empty selector counts no pod, although it matches all.
        return np.zeros(len(view.nodes), dtype=np.int64)
    wanted = [
        other.namespace == pod.namespace and selector.matches(other.labels) for other in view.kinds
    ]
    count = view.staying(np.array(wanted, dtype=bool))
    if pod.node in view.index and not pod.deleting and selector.matches(pod.labels):
        count[view.index[pod.node]] -= 1
    return count


def _system_defaults(pod: Pod, cluster: ClusterState) -> list[SpreadConstraint]:
    """For pods that all of the pod's Services and its controller select; none without any."""
    requirements = [
        Requirement(key, Operator.IN, (value,))
        for service in cluster.services
        if service.namespace == pod.namespace
        and service.selector
        and service.selector.items() <= pod.labels.items()
        for key, value in service.selector.items()
    ]
    controller = cluster.controller_selectors.get(pod.controller) if pod.controller else None
    requirements += controller.requirements if controller is not None else ()
    if not requirements:
        return []
    selector = LabelSelector(tuple(requirements))
    return [
        SpreadConstraint(key, skew, hard=False, selector=selector) for key, skew in SYSTEM_DEFAULTS
    ]
