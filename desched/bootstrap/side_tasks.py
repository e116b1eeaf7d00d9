"""What runs beside the cycles: the contest for the lease, the janitor, the watches.

Each has a connection of its own, which no cycle blocks and which works while the process stops.
"""

from collections.abc import Callable
from contextlib import suppress
from random import SystemRandom
from threading import Event

from desched.adapters.kubernetes.client.connection import KubernetesConnection, connect
from desched.adapters.kubernetes.client.server_health import RequestLog
from desched.adapters.kubernetes.lease import DEADLINE_SECONDS, KubernetesLease
from desched.adapters.kubernetes.taints import KubernetesSteerer
from desched.adapters.kubernetes.watch.cluster import ClusterWatch
from desched.adapters.kubernetes.watch.loop import WatchClient
from desched.bootstrap.state import state_namespace
from desched.errors import ConfigurationError
from desched.model.report import Mode
from desched.service.election.leadership import Leadership, LeaseTiming
from desched.service.process.clock import SystemClock
from desched.service.steering.janitor import Janitor
from desched.service.telemetry.metrics import ServiceMetrics
from desched.settings import Settings

POLL_SECONDS = 0.2
REQUEST_SECONDS = 5.0
"""For one request of the janitor with all its retries: it tries again later anyway."""

SPREAD_SECONDS = 3.0
"""In a cluster, where many processes may start at once; a person elsewhere does not wait."""


def contender(
    settings: Settings,
    kubernetes: KubernetesConnection,
    mode: Mode,
    identity: str,
    clock: SystemClock,
) -> Leadership | None:
    """This process as a contender for the lease; None without leader election."""
    if not contends(settings, mode, in_cluster=kubernetes.in_cluster):
        return None
    timing = LeaseTiming(
        round(settings.lease_duration.total_seconds()),
        settings.renew_deadline.total_seconds(),
        settings.retry_period.total_seconds(),
    )
    lease = KubernetesLease(
        connect(settings.kubeconfig, settings.context, reads=kubernetes.reads),
        state_namespace(settings, kubernetes),
        deadline_seconds=min(timing.request_seconds, DEADLINE_SECONDS),
    )
    return Leadership(lease, identity, timing, now=clock.now, random=SystemRandom().random)


def contends(settings: Settings, mode: Mode, *, in_cluster: bool) -> bool:
    """Whether to elect a leader: by default if it evicts, and for a service in a cluster."""
    if settings.leader_elect is not None:
        return settings.leader_elect
    return mode is Mode.EVICT or (in_cluster and settings.loops)


def wait_for_lease(leadership: Leadership, settings: Settings, clock: SystemClock) -> None:
    """Wait until this process may act, at most until it would own an abandoned lease.

    If it lacks the right to, it does not wait.
    """
    patience = settings.lease_duration + 3 * settings.retry_period
    until = clock.monotonic() + patience.total_seconds()
    while not (leadership.may_act() or leadership.refused) and clock.monotonic() < until:
        if clock.wait(POLL_SECONDS):
            return


def janitor_of(
    settings: Settings, metrics: ServiceMetrics, may_act: Callable[[], bool] = lambda: False
) -> Janitor | None:
    """The janitor of a service that evicts, or that runs in a cluster; None for all other runs.

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


def look_once(settings: Settings) -> None:
    """Remove what has expired in a process that ends at once.

    A container whose policy is invalid restarts again and again; taints must not wait for its
    repair.
    """
    with suppress(ConfigurationError):
        janitor = janitor_of(settings, ServiceMetrics(Mode.DRY_RUN))
        if janitor is not None:
            with janitor.at_work():
                pass  # it looks once at least


def cluster_watch_of(settings: Settings, reads: RequestLog) -> ClusterWatch | None:
    """The watches of a service, which add to `reads`; None for a single cycle, which lists.

    Raises:
        ConfigurationError: there is no account for the connection.
    """
    if not settings.loops or settings.watch is False:
        return None
    stop = Event()
    connection = connect(settings.kubeconfig, settings.context, stop.wait, reads)
    request_seconds = settings.api_server_timeout.total_seconds()
    spread_seconds = SPREAD_SECONDS if connection.in_cluster else 0.0
    random = SystemRandom().random
    return ClusterWatch(WatchClient(connection, stop, random, request_seconds, spread_seconds))
