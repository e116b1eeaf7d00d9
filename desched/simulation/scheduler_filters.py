"""On which nodes the simulated scheduler may place a pod: kube-scheduler's filters, node by node.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins at v1.36. Left out: attach limits,
volume zones, claims for one pod only, preemption.
"""

from collections import Counter

from desched.model.cluster import ClusterState, Effect, HostPort, Node, Pod, Taint
from desched.model.resources import Amounts
from desched.simulation.scheduler_affinity import affinity_filter
from desched.simulation.scheduler_spread import spread_filter

CORDONED = Taint("node.kubernetes.io/unschedulable", Effect.NO_SCHEDULE)
HARD_EFFECTS = {Effect.NO_SCHEDULE, Effect.NO_EXECUTE}


def feasible_nodes(pod: Pod, cluster: ClusterState) -> list[Node]:
    """The nodes that no filter keeps the pod from."""
    if pod.gated:
        return []
    even = spread_filter(
        pod,
        cluster,
        selected=lambda node: is_selected(pod, node),
        tolerated=lambda node: tolerates(pod, node),
    )
    near_and_apart = affinity_filter(pod, cluster)
    return [
        node
        for node in cluster.nodes
        if node.ready
        and is_selected(pod, node)
        and tolerates(pod, node)
        and _has_room(pod, node, cluster)
        and _has_ports(pod, node, cluster)
        and _reaches_volumes(pod, node, cluster)
        and even(node)
        and near_and_apart(node)
    ]


def tolerates(pod: Pod, node: Node) -> bool:
    """Whether no hard taint keeps the pod away."""
    taints = [taint for taint in node.taints if taint.effect in HARD_EFFECTS]
    if node.unschedulable:
        taints.append(CORDONED)
    return all(any(t.tolerates(taint) for t in pod.scheduling.tolerations) for taint in taints)


def is_selected(pod: Pod, node: Node) -> bool:
    """Whether the pod's node selector and required node affinity allow the node."""
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


def _has_ports(pod: Pod, node: Node, cluster: ClusterState) -> bool:
    wanted = pod.scheduling.host_ports
    return not wanted or not any(
        _conflict(mine, taken)
        for other in cluster.pods_by_node[node.name]
        for taken in other.scheduling.host_ports
        for mine in wanted
    )


def _conflict(one: HostPort, other: HostPort) -> bool:
    if (one.port, one.protocol) != (other.port, other.protocol):
        return False
    return not one.address or not other.address or one.address == other.address


def _reaches_volumes(pod: Pod, node: Node, cluster: ClusterState) -> bool:
    for volume in pod.volumes:
        claim = cluster.claims.get((pod.namespace, volume.claim))
        bound = cluster.volumes.get(claim.volume) if claim else None
        if bound is None or bound.node_affinity is None:
            continue
        if not any(term.matches(node.name, node.labels) for term in bound.node_affinity):
            return False
    return True
