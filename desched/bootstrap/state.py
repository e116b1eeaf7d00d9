"""Where desched keeps what outlives a process: its Lease and its memory."""

from desched.adapters.kubernetes.connection import KubernetesConnection
from desched.settings import Settings

DEFAULT_NAMESPACE = "desched-system"


def state_namespace(settings: Settings, kubernetes: KubernetesConnection) -> str:
    """The namespace that was named, else that of desched's own pod, else desched-system."""
    own = kubernetes.namespace if kubernetes.in_cluster else None
    return settings.state_namespace or settings.pod_namespace or own or DEFAULT_NAMESPACE
