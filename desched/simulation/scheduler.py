"""A scheduler for simulated pods: kube-scheduler's filters and scores, as far as the model goes.

Source: k8s.io/kubernetes/pkg/scheduler at v1.36, default profile. Left out, because the model does
not hold what they need or because small clusters do not show them: preferred affinity, pod
affinity, image locality, preemption, and the sampling of nodes above one hundred. Ties go to the
node whose name comes first.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from desched.model.cluster import ClusterState, Effect, Node, Pod, Taint
from desched.model.resources import Amounts

BEST = 100
TAINT_WEIGHT = 3
SPREAD_WEIGHT = 2
FIT_WEIGHT = 1
BALANCE_WEIGHT = 1

# What a container without a request is taken to need when nodes are scored (not when they are
# filtered); the model does not tell containers apart, so each pod counts as one.
UNSET_CPU_MILLICORES = 100
UNSET_MEMORY_BYTES = 200 * 1024**2

HOSTNAME_SKEW = 3
ZONE_SKEW = 5
ZONE_LABEL = "topology.kubernetes.io/zone"

CORDONED = Taint("node.kubernetes.io/unschedulable", Effect.NO_SCHEDULE)
HARD_EFFECTS = {Effect.NO_SCHEDULE, Effect.NO_EXECUTE}


def choose_node(pod: Pod, cluster: ClusterState) -> str | None:
    """The node that a pending pod is bound to, None if it fits nowhere for now."""
    scores = score_nodes(pod, cluster)
    return min(scores, key=lambda name: (-scores[name], name), default=None)


def score_nodes(pod: Pod, cluster: ClusterState) -> Mapping[str, int]:
    """The weighted score of each node where the pod fits; the highest gets it."""
    nodes = [node for node in cluster.nodes if fits(pod, node, cluster)]
    taints = _taint_scores(pod, nodes)
    spread = _spread_scores(pod, nodes, cluster)
    return {
        node.name: TAINT_WEIGHT * taints[node.name]
        + SPREAD_WEIGHT * spread[node.name]
        + FIT_WEIGHT * _least_allocated(pod, node, cluster)
        + BALANCE_WEIGHT * _balanced_allocation(pod, node, cluster)
        for node in nodes
    }


# --- filters ----------------------------------------------------------------------------------


def fits(pod: Pod, node: Node, cluster: ClusterState) -> bool:
    """Whether no filter keeps the pod from the node."""
    return (
        node.ready
        and not pod.gated
        and _tolerates_hard_taints(pod, node)
        and _is_selected(pod, node)
        and _has_room(pod, node, cluster)
        and _reaches_volumes(pod, node, cluster)
    )


def _tolerates_hard_taints(pod: Pod, node: Node) -> bool:
    taints = [taint for taint in node.taints if taint.effect in HARD_EFFECTS]
    if node.unschedulable:
        taints.append(CORDONED)
    return all(any(t.tolerates(taint) for t in pod.scheduling.tolerations) for taint in taints)


def _is_selected(pod: Pod, node: Node) -> bool:
    if any(node.labels.get(key) != value for key, value in pod.scheduling.node_selector):
        return False
    terms = pod.scheduling.required_node_affinity
    return terms is None or any(term.matches(node.name, node.labels) for term in terms)


def _has_room(pod: Pod, node: Node, cluster: ClusterState) -> bool:
    wanted, taken = _counted(pod.scheduling.requests), Counter[str]()
    for other in cluster.pods_by_node[node.name]:
        taken.update(_counted(other.scheduling.requests))
    room = _counted(node.allocatable)
    return all(taken[name] + amount <= room[name] for name, amount in wanted.items() if amount)


def _counted(amounts: Amounts) -> Counter[str]:
    return Counter(
        {
            "cpu": amounts.cpu_millicores,
            "memory": amounts.memory_bytes,
            "ephemeral-storage": amounts.ephemeral_storage_bytes,
            "pods": amounts.pods,
            **dict(amounts.extended),
        }
    )


def _reaches_volumes(pod: Pod, node: Node, cluster: ClusterState) -> bool:
    for volume in pod.volumes:
        claim = cluster.claims.get((pod.namespace, volume.claim))
        bound = cluster.volumes.get(claim.volume) if claim else None
        if bound is None or bound.node_affinity is None:
            continue
        if not any(term.matches(node.name, node.labels) for term in bound.node_affinity):
            return False
    return True


# --- scores -----------------------------------------------------------------------------------


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


def _spread_scores(pod: Pod, nodes: Sequence[Node], cluster: ClusterState) -> Mapping[str, int]:
    """PodTopologySpread with the system's default constraints: fewer siblings near are better."""
    siblings = _siblings_by_node(pod, cluster)
    in_zone = Counter[str]()
    for node in cluster.nodes:
        if ZONE_LABEL in node.labels and _is_selected(pod, node):
            in_zone[node.labels[ZONE_LABEL]] += siblings[node.name]
    zones = {node.labels.get(ZONE_LABEL, "") for node in nodes}

    def crowding(node: Node) -> int:
        total = siblings[node.name] * math.log(len(nodes) + 2) + HOSTNAME_SKEW - 1
        if ZONE_LABEL in node.labels:
            total += in_zone[node.labels[ZONE_LABEL]] * math.log(len(zones) + 2) + ZONE_SKEW - 1
        return math.floor(total + 0.5)

    crowded = {node.name: crowding(node) for node in nodes}
    most, least = max(crowded.values(), default=0), min(crowded.values(), default=0)
    return {
        name: BEST * (most + least - value) // most if most else BEST
        for name, value in crowded.items()
    }


def _siblings_by_node(pod: Pod, cluster: ClusterState) -> Counter[str]:
    """Pods that the pod's Services and its owner select; terminating ones no longer count."""
    services = [
        service.selector.items()
        for service in cluster.services
        if service.namespace == pod.namespace
        and service.selector
        and service.selector.items() <= pod.labels.items()
    ]
    if pod.owner is None and not services:
        return Counter()
    return Counter(
        other.node
        for other in cluster.pods
        if other.node
        and not other.deleting
        and other.namespace == pod.namespace
        and (pod.owner is None or (other.owner and other.owner.uid == pod.owner.uid))
        and all(selector <= other.labels.items() for selector in services)
    )


def _least_allocated(pod: Pod, node: Node, cluster: ClusterState) -> int:
    """NodeResourcesFit: the emptier by requests, the better."""
    pods = [*cluster.pods_by_node[node.name], pod]
    cpu = sum(p.scheduling.requests.cpu_millicores or UNSET_CPU_MILLICORES for p in pods)
    memory = sum(p.scheduling.requests.memory_bytes or UNSET_MEMORY_BYTES for p in pods)
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
