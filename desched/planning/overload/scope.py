"""Decides which nodes are in scope."""

from datetime import datetime

from desched.model.cluster import Effect, Node
from desched.model.plan import Finding, NodeReason
from desched.policy.policy import Policy

REMOVAL_TAINTS = frozenset(
    {
        "ToBeDeletedByClusterAutoscaler",  # Cluster Autoscaler, utils/taints/taints.go
        "karpenter.sh/disrupted",  # Karpenter since 1.0, pkg/apis/v1/taints.go
        "karpenter.sh/disruption",  # Karpenter before 1.0
        "node.kubernetes.io/out-of-service",  # Kubernetes since 1.28, set by a person
    }
)
"""Taints of nodes that an autoscaler or a person is removing.

A candidate for removal is none: Cluster Autoscaler's DeletionCandidateOfClusterAutoscaler only
makes the scheduler prefer other nodes, and can stay for weeks.
"""

NOT_READY_TAINTS = frozenset(
    {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/network-unavailable",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.cloudprovider.kubernetes.io/shutdown",
        "karpenter.sh/unregistered",
    }
)

PRESSURE_TAINTS = frozenset(
    {
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/pid-pressure",
    }
)
"""Under these conditions the kubelet evicts pods itself."""

VIRTUAL_TAINT = "virtual-kubelet.io/provider"
VIRTUAL_LABELS = (("type", "virtual-kubelet"), ("eks.amazonaws.com/compute-type", "fargate"))


def out_of_scope(node: Node, policy: Policy, now: datetime) -> Finding[NodeReason] | None:
    """Return why the node is out of scope, or None if it is in scope."""
    if not policy.looks_at(node.labels):
        return Finding(NodeReason.NOT_SELECTED, "")
    taints = {taint.key for taint in node.taints if taint.effect != Effect.PREFER_NO_SCHEDULE}
    return _never_measured(node, taints) or _not_fit(node, taints) or _too_young(node, policy, now)


def _never_measured(node: Node, taints: set[str]) -> Finding[NodeReason] | None:
    if VIRTUAL_TAINT in taints or any(node.labels.get(k) == v for k, v in VIRTUAL_LABELS):
        return Finding(NodeReason.VIRTUAL, "")
    if node.operating_system != "linux":
        return Finding(NodeReason.NOT_LINUX, node.operating_system)
    return None


def _not_fit(node: Node, taints: set[str]) -> Finding[NodeReason] | None:
    if not node.ready or taints & NOT_READY_TAINTS:
        return Finding(NodeReason.NOT_READY, ", ".join(sorted(taints & NOT_READY_TAINTS)))
    if node.deleting:
        return Finding(NodeReason.BEING_REMOVED, "it has a deletion timestamp")
    if taints & REMOVAL_TAINTS:
        return Finding(NodeReason.BEING_REMOVED, ", ".join(sorted(taints & REMOVAL_TAINTS)))
    if node.unschedulable:
        return Finding(NodeReason.CORDONED, "")
    if taints & PRESSURE_TAINTS:
        return Finding(NodeReason.UNDER_PRESSURE, ", ".join(sorted(taints & PRESSURE_TAINTS)))
    return None


def _too_young(node: Node, policy: Policy, now: datetime) -> Finding[NodeReason] | None:
    age_seconds = (now - node.created_at).total_seconds()
    if age_seconds >= policy.longest_window_seconds:
        return None
    detail = f"{age_seconds:.0f} s old, the longest window is {policy.longest_window_seconds} s"
    return Finding(NodeReason.TOO_YOUNG, detail)
