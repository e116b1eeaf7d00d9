"""Topology spread as the simulated scheduler filters and scores by it.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread at v1.36. A pod without
constraints of its own is scored by the system's default ones. Terminating pods do not count.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from desched.model.cluster import ClusterState, Node, Pod, SpreadConstraint
from desched.model.selectors import LabelSelector, Operator, Requirement

BEST = 100
HOSTNAME_LABEL = "kubernetes.io/hostname"
ZONE_LABEL = "topology.kubernetes.io/zone"
HOSTNAME_SKEW = 3
ZONE_SKEW = 5

NodeFilter = Callable[[Node], bool]


def spread_filter(
    pod: Pod, cluster: ClusterState, selected: NodeFilter, tolerated: NodeFilter
) -> NodeFilter:
    """Tells on which nodes the pod would not be too many for a hard constraint.

    `selected` and `tolerated` say which nodes the pod's node affinity and tolerations allow.
    """
    hard = [_merged(each, pod) for each in pod.scheduling.spread if each.hard]
    policies = (selected, tolerated)
    counted = [(each, _counts(pod, each, hard, cluster, policies)) for each in hard]
    limits = [(each.topology_key, counts, _most(pod, each, counts)) for each, counts in counted]

    def allows(node: Node) -> bool:
        return all(
            key in node.labels and counts[node.labels[key]] <= most for key, counts, most in limits
        )

    return allows


def spread_scores(
    pod: Pod,
    nodes: Sequence[Node],
    cluster: ClusterState,
    selected: NodeFilter,
    tolerated: NodeFilter,
) -> Mapping[str, int]:
    """From 0 to 100: the fewer matching pods near, the better; all 0 without any constraint."""
    own = [_merged(each, pod) for each in pod.scheduling.spread if not each.hard]
    constraints = own if pod.scheduling.spread else _system_defaults(pod, cluster)
    if not constraints:
        return {node.name: 0 for node in nodes}
    # Nodes that lack a label of the pod's own constraints are not scored; the defaults need none.
    scored = [node for node in nodes if all(c.topology_key in node.labels for c in own)]
    terms = [
        _Term(pod, each, scored, _counts(pod, each, own, cluster, (selected, tolerated)), cluster)
        for each in constraints
    ]
    raw = {n.name: math.floor(sum(term.crowding(n) for term in terms) + 0.5) for n in scored}
    most, least = max(raw.values(), default=0), min(raw.values(), default=0)
    found = {node.name: 0 for node in nodes}
    for name, value in raw.items():
        found[name] = BEST * (most + least - value) // most if most else BEST
    return found


class _Term:
    """What one constraint adds to how crowded a node is."""

    def __init__(
        self,
        pod: Pod,
        constraint: SpreadConstraint,
        scored: Sequence[Node],
        counts: Counter[str],
        cluster: ClusterState,
    ) -> None:
        self._pod = pod
        self._constraint = constraint
        self._counts = counts
        self._cluster = cluster
        key = constraint.topology_key
        by_host = key == HOSTNAME_LABEL
        size = len(scored) if by_host else len({node.labels.get(key, "") for node in scored})
        self._weight = math.log(size + 2)

    def crowding(self, node: Node) -> float:
        key = self._constraint.topology_key
        if key not in node.labels:
            return 0.0
        if key == HOSTNAME_LABEL:  # whatever the node's taints: it is itself that is asked
            count = _matching(self._pod, self._constraint, node, self._cluster)
        else:
            count = self._counts[node.labels[key]]
        return count * self._weight + self._constraint.max_skew - 1


def _counts(
    pod: Pod,
    constraint: SpreadConstraint,
    together: Sequence[SpreadConstraint],
    cluster: ClusterState,
    policies: tuple[NodeFilter, NodeFilter],
) -> Counter[str]:
    """Matching pods by domain, 0 for those without; nodes need the labels of all constraints."""
    selected, tolerated = policies
    found = Counter[str]()
    for node in cluster.nodes:
        if any(each.topology_key not in node.labels for each in (*together, constraint)):
            continue
        if constraint.honors_affinity and not selected(node):
            continue
        if constraint.honors_taints and not tolerated(node):
            continue
        found[node.labels[constraint.topology_key]] += _matching(pod, constraint, node, cluster)
    return found


def _most(pod: Pod, constraint: SpreadConstraint, counts: Counter[str]) -> int:
    """With how many matching pods a domain may still take this one."""
    enough = len(counts) >= constraint.min_domains
    least = min(counts.values(), default=0) if enough else 0
    itself = constraint.selector is not None and constraint.selector.matches(pod.labels)
    return constraint.max_skew + least - itself


def _matching(pod: Pod, constraint: SpreadConstraint, node: Node, cluster: ClusterState) -> int:
    selector = constraint.selector
    if selector is None or not selector.requirements:
        return 0  # the scheduler counts nothing by an empty selector, although it matches all
    return sum(
        not other.deleting and other.namespace == pod.namespace and selector.matches(other.labels)
        for other in cluster.pods_by_node[node.name]
    )


def _merged(constraint: SpreadConstraint, pod: Pod) -> SpreadConstraint:
    """With the pod's own values of matchLabelKeys in the selector."""
    if constraint.selector is None:
        return constraint
    own = tuple(
        Requirement(key, Operator.IN, (pod.labels[key],))
        for key in constraint.match_label_keys
        if key in pod.labels
    )
    return replace(constraint, selector=LabelSelector((*constraint.selector.requirements, *own)))


def _system_defaults(pod: Pod, cluster: ClusterState) -> list[SpreadConstraint]:
    selector = _default_selector(pod, cluster)
    return [
        SpreadConstraint(key, skew, hard=False, selector=selector)
        for key, skew in ((HOSTNAME_LABEL, HOSTNAME_SKEW), (ZONE_LABEL, ZONE_SKEW))
        if selector is not None
    ]


def _default_selector(pod: Pod, cluster: ClusterState) -> LabelSelector | None:
    """What the pod's Services and its controller select, all of it; None if nothing does."""
    requirements = [
        Requirement(key, Operator.IN, (value,))
        for service in cluster.services
        if service.namespace == pod.namespace
        and service.selector
        and service.selector.items() <= pod.labels.items()
        for key, value in service.selector.items()
    ]
    controller = cluster.controller_selectors.get(pod.owner.uid) if pod.owner else None
    if controller is not None:
        requirements += controller.requirements
    return LabelSelector(tuple(requirements)) if requirements else None
