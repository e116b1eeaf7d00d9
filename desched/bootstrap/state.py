"""Where desched stores its Lease and its state."""

import math
import sys
from collections.abc import Callable

from desched.adapters.kubernetes.client.connection import KubernetesConnection, connect
from desched.adapters.kubernetes.existence import is_absent_namespace
from desched.adapters.kubernetes.state_store import DEADLINE_SECONDS, KubernetesStateStore
from desched.errors import ConfigurationError
from desched.service.process.clock import SystemClock
from desched.service.process.logs import configure_logs
from desched.settings import Settings

DEFAULT_NAMESPACE = "desched-system"


def connected(settings: Settings, clock: SystemClock) -> KubernetesConnection:
    """The connection of a command that needs no load, whose log goes to standard error.

    Raises:
        ConfigurationError: there is no account.
    """
    configure_logs(settings.log_format, settings.log_level, sys.stderr)
    return connect(settings.kubeconfig, settings.context, clock.wait)


def state_namespace(settings: Settings, kubernetes: KubernetesConnection) -> str:
    """The namespace from the settings, else that of desched's own pod, else desched-system."""
    own = kubernetes.namespace if kubernetes.in_cluster else None
    return settings.state_namespace or settings.pod_namespace or own or DEFAULT_NAMESPACE


def refuse_absent_namespace(settings: Settings, kubernetes: KubernetesConnection) -> None:
    """Refuse to act where the Lease and the state can have no place.

    Raises:
        ConfigurationError: the cluster does not have their namespace.
    """
    namespace = state_namespace(settings, kubernetes)
    if is_absent_namespace(kubernetes, namespace):
        raise ConfigurationError(
            f"There is no namespace {namespace} in {kubernetes.target}, where desched keeps its "
            f"Lease and its state; run `kubectl create namespace {namespace}`, or name another one "
            "with --state-namespace (DESCHED_STATE_NAMESPACE)."
        )


def state_store(
    settings: Settings,
    kubernetes: KubernetesConnection,
    seconds_left: Callable[[], float] = lambda: math.inf,
) -> KubernetesStateStore:
    """The state in that namespace; `seconds_left` returns how long this process may act."""
    return KubernetesStateStore(
        kubernetes,
        state_namespace(settings, kubernetes),
        deadline_seconds=min(settings.api_server_timeout.total_seconds(), DEADLINE_SECONDS),
        seconds_left=seconds_left,
    )
