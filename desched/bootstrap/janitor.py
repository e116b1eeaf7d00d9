"""Whether and how this process removes soft taints beside its cycles."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from desched.adapters.kubernetes.client.connection import connect
from desched.adapters.kubernetes.taints import KubernetesSteerer
from desched.errors import ConfigurationError
from desched.model.report import Mode
from desched.service.process.clock import SystemClock
from desched.service.steering.janitor import Janitor
from desched.service.telemetry.metrics import ServiceMetrics
from desched.settings import Settings

REQUEST_SECONDS = 5.0
"""For one request of the janitor with all its retries: it tries again later anyway."""


def janitor_of(
    settings: Settings, metrics: ServiceMetrics, may_act: Callable[[], bool] = lambda: False
) -> Janitor | None:
    """The janitor of a service that evicts, or that runs in a cluster; None for all other runs.

    It has a connection of its own, which no cycle blocks and which works while the process stops.

    Raises:
        ConfigurationError: there is no account for the connection.
    """
    if not settings.loops:
        return None
    kubernetes = connect(settings.kubeconfig, settings.context)
    evicts = settings.evict and not settings.dry_run
    if not (kubernetes.in_cluster or evicts):
        return None
    request_seconds = min(settings.api_server_timeout.total_seconds(), REQUEST_SECONDS)
    steerer = KubernetesSteerer(kubernetes, deadline_seconds=request_seconds)
    return Janitor(steerer, SystemClock().now, metrics, may_act)


@contextmanager
def at_work(janitor: Janitor | None) -> Iterator[None]:
    """Remove expired taints during the context, and at least once."""
    if janitor is None:
        yield
        return
    with janitor.at_work():
        yield


def look_once(settings: Settings) -> None:
    """Remove what has expired in a process that ends at once.

    A container whose policy is invalid restarts again and again; taints must not wait for its
    repair.
    """
    with suppress(ConfigurationError):
        janitor = janitor_of(settings, ServiceMetrics(Mode.DRY_RUN))
        with at_work(janitor):
            pass
