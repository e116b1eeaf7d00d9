"""The autoscalers of nodes, by what they leave at the API server; they may run elsewhere."""

from desched.adapters.kubernetes.client.access import owners_access
from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.adapters.kubernetes.permission import reviewed
from desched.api_objects.access import Access
from desched.errors import ObservationError

NODE_POOLS = owners_access("karpenter.sh", "nodepools", "v1")
"""Karpenter's own kind; who lacks its API group has no Karpenter."""

GET_STATUS = Access("get", "", "configmaps", "whether a cluster-autoscaler runs", "it is not known")
STATUS_NAMESPACE, STATUS_NAME = "kube-system", "cluster-autoscaler-status"


def has_cluster_autoscaler(kubernetes: KubernetesConnection, deadline_seconds: float) -> bool:
    """Whether a cluster-autoscaler has left its status; false where that may not be read."""
    at = STATUS_NAMESPACE, STATUS_NAME
    if not reviewed(kubernetes, GET_STATUS, *at, deadline_seconds=deadline_seconds):
        return False
    try:
        return kubernetes.get(GET_STATUS.path(*at), deadline_seconds=deadline_seconds).is_done
    except ObservationError:
        return False
