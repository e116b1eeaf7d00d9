"""`desched status`: the last cycle, pauses and evictions in flight."""

from __future__ import annotations

from desched.cli.command import Command, Invocation
from desched.cli.lazy_loading import loaded_to_run
from desched.cli.setting_flags import CONNECTION

if loaded_to_run(__name__):
    from desched.adapters.kubernetes.lease import KubernetesLease
    from desched.bootstrap.state import connected, state_namespace, state_store
    from desched.errors import LeaseError
    from desched.service.process.clock import SystemClock
    from desched.views.rendering import write_out
    from desched.views.status import Status, status_blocks


def run(invocation: Invocation) -> None:
    """Print the status."""
    settings, clock = invocation.settings(), SystemClock()
    kubernetes = connected(settings, clock)
    store = state_store(settings, kubernetes)
    stored = store.load()
    lease, lease_problem = None, ""
    try:
        lease = KubernetesLease(kubernetes, state_namespace(settings, kubernetes)).read()
    except LeaseError as error:
        lease_problem = str(error)
    # The service goes by the API server's time; this machine's may differ.
    now = store.server_time or clock.now()
    status = Status(
        now, kubernetes.target, store.place, stored.state, stored.problem, lease, lease_problem
    )
    write_out(settings.output, status, status_blocks(status))


COMMAND = Command(
    "status",
    examples={
        "desched status --context prod": "of the desched in another context",
        "desched status -o json": "for programs",
    },
    settings=(*CONNECTION, "output"),
)
