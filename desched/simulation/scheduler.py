"""A scheduler for simulated pods: kube-scheduler's filters and scores, as far as the model goes.

Source: k8s.io/kubernetes/pkg/scheduler at v1.36, default profile. Left out, because small clusters
do not show them: image locality, preemption, and the sampling of nodes above one hundred. Ties go
to the node whose name comes first.
"""

from collections.abc import Mapping, Sequence

from desched.model.cluster import ClusterState, Effect, Node, Pod
from desched.simulation.scheduler_affinity import affinity_scores
from desched.simulation.scheduler_filters import feasible_nodes, is_selected, tolerates
from desched.simulation.scheduler_spread import spread_scores

BEST = 100
TAINT_WEIGHT = 3
NODE_AFFINITY_WEIGHT = 2
SPREAD_WEIGHT = 2
POD_AFFINITY_WEIGHT = 2
FIT_WEIGHT = 1
BALANCE_WEIGHT = 1


def choose_node(pod: Pod, cluster: ClusterState) -> str | None:
    """The node that a pending pod is bound to, None if it fits nowhere for now."""
    scores = score_nodes(pod, cluster)
    return min(scores, key=lambda name: (-scores[name], name), default=None)


def score_nodes(pod: Pod, cluster: ClusterState) -> Mapping[str, int]:
    """The weighted score of each node where the pod fits; the highest gets it."""
    nodes = feasible_nodes(pod, cluster)
    taints = _taint_scores(pod, nodes)
    preferred = _node_affinity_scores(pod, nodes)
    near = affinity_scores(pod, nodes, cluster)
    spread = spread_scores(
        pod,
        nodes,
        cluster,
        selected=lambda node: is_selected(pod, node),
        tolerated=lambda node: tolerates(pod, node),
    )
    return {
        node.name: TAINT_WEIGHT * taints[node.name]
        + NODE_AFFINITY_WEIGHT * preferred[node.name]
        + SPREAD_WEIGHT * spread[node.name]
        + POD_AFFINITY_WEIGHT * near[node.name]
        + FIT_WEIGHT * _least_allocated(pod, node, cluster)
        + BALANCE_WEIGHT * _balanced_allocation(pod, node, cluster)
        for node in nodes
    }


def _taint_scores(pod: Pod, nodes: Sequence[Node]) -> Mapping[str, int]:
    """TaintToleration: fewer soft taints that the pod does not tolerate are better."""
    disliked = {
        node.name: sum(
            taint.effect == Effect.PREFER_NO_SCHEDULE
            and not any(t.tolerates(taint) for t in pod.scheduling.tolerations)
            for taint in node.taints
        )
        for node in nodes
    }
    most = max(disliked.values(), default=0)
    return {name: BEST - BEST * n // most if most else BEST for name, n in disliked.items()}


def _node_affinity_scores(pod: Pod, nodes: Sequence[Node]) -> Mapping[str, int]:
    """NodeAffinity: the more weight of preferred terms a node has, the better."""
    raw = {
        node.name: sum(
            weight
            for weight, term in pod.scheduling.preferred_node_affinity
            if term.matches(node.name, node.labels)
        )
        for node in nodes
    }
    most = max(raw.values(), default=0)
    return {name: BEST * value // most if most else 0 for name, value in raw.items()}


def _least_allocated(pod: Pod, node: Node, cluster: ClusterState) -> int:
    """NodeResourcesFit: the emptier by requests, the better."""
    pods = [*cluster.pods_by_node[node.name], pod]
    cpu = sum(p.scheduling.scored_cpu_millicores for p in pods)
    memory = sum(p.scheduling.scored_memory_bytes for p in pods)
    free = [
        max(0, allocatable - requested) * BEST // allocatable if allocatable else 0
        for requested, allocatable in (
            (cpu, node.allocatable.cpu_millicores),
            (memory, node.allocatable.memory_bytes),
        )
    ]
    return sum(free) // len(free)


def _balanced_allocation(pod: Pod, node: Node, cluster: ClusterState) -> int:
    """NodeResourcesBalancedAllocation, 1.36: how much the pod evens out CPU and memory."""
    requests = pod.scheduling.requests
    if not requests.cpu_millicores and not requests.memory_bytes:
        return 0
    placed = cluster.pods_by_node[node.name]
    change = _balance([*placed, pod], node) - _balance(placed, node)
    return 50 + int((50 + change) / 2)


def _balance(pods: Sequence[Pod], node: Node) -> int:
    cpu = sum(pod.scheduling.requests.cpu_millicores for pod in pods)
    memory = sum(pod.scheduling.requests.memory_bytes for pod in pods)
    cpu_share = min(1.0, cpu / max(1, node.allocatable.cpu_millicores))
    memory_share = min(1.0, memory / max(1, node.allocatable.memory_bytes))
    # The standard deviation of two values is half of their distance.
    return int((1 - abs(cpu_share - memory_share) / 2) * BEST)
