"""Whether and how this process takes part in leader election."""

from contextlib import AbstractContextManager, nullcontext
from random import SystemRandom

from desched.adapters.kubernetes.client.connection import KubernetesConnection, connect
from desched.adapters.kubernetes.lease import DEADLINE_SECONDS, KubernetesLease
from desched.bootstrap.state import state_namespace
from desched.model.report import Mode
from desched.service.election.leadership import Leadership, LeaseTiming
from desched.service.process.clock import SystemClock
from desched.settings import Settings

POLL_SECONDS = 0.2


def contender(
    settings: Settings,
    kubernetes: KubernetesConnection,
    mode: Mode,
    identity: str,
    clock: SystemClock,
) -> Leadership | None:
    """This process as a contender for the lease; None without leader election.

    It has a connection of its own, which still works while the process stops, to release the lease.
    """
    if not contends(settings, mode, in_cluster=kubernetes.in_cluster):
        return None
    timing = LeaseTiming(
        round(settings.lease_duration.total_seconds()),
        settings.renew_deadline.total_seconds(),
        settings.retry_period.total_seconds(),
    )
    lease = KubernetesLease(
        connect(settings.kubeconfig, settings.context),
        state_namespace(settings, kubernetes),
        deadline_seconds=min(timing.request_seconds, DEADLINE_SECONDS),
    )
    return Leadership(lease, identity, timing, now=clock.now, random=SystemRandom().random)


def contends(settings: Settings, mode: Mode, *, in_cluster: bool) -> bool:
    """Whether to elect a leader: by default if it evicts, and for a service in a cluster."""
    if settings.leader_elect is not None:
        return settings.leader_elect
    return mode is Mode.EVICT or (in_cluster and settings.loops)


def contend(leadership: Leadership | None) -> AbstractContextManager[None]:
    """Contend for the lease during the context; nothing without leader election."""
    return nullcontext() if leadership is None else leadership.contend()


def wait_for_lease(leadership: Leadership, settings: Settings, clock: SystemClock) -> None:
    """Wait until this process may act, at most until it would own an abandoned lease.

    If it lacks the right to, it does not wait.
    """
    patience = settings.lease_duration + 3 * settings.retry_period
    until = clock.monotonic() + patience.total_seconds()
    while not (leadership.may_act() or leadership.refused) and clock.monotonic() < until:
        if clock.wait(POLL_SECONDS):
            return
