"""`desched steering clear`: no node has a soft taint of desched any more."""

from __future__ import annotations

import sys

from desched.cli.command import Command, Invocation
from desched.cli.lazy_loading import loaded_to_run
from desched.cli.setting_flags import CONNECTION
from desched.errors import ObservationError, ObservationSource

if loaded_to_run(__name__):
    from desched.adapters.kubernetes.taints import KubernetesSteerer
    from desched.bootstrap.state import connected
    from desched.service.process.clock import SystemClock
    from desched.wording.formatting import plain


def run(invocation: Invocation) -> None:
    """Remove the soft taints."""
    settings = invocation.settings()
    seconds = settings.api_server_timeout.total_seconds()
    clear(KubernetesSteerer(connected(settings, SystemClock()), deadline_seconds=seconds))


def clear(steerer: KubernetesSteerer) -> None:
    """Remove desched's soft taint from every node.

    Raises:
        ObservationError: the nodes could not be read, or some of them not be changed.
    """
    failures = []
    nodes = tuple(steerer.standing().until)
    for node in nodes:
        answer = steerer.untaint(node)
        if answer.done:
            sys.stdout.write(f"Removed the soft taint from node {plain(node)}.\n")
        else:
            failures.append(f"{node}: {answer.detail}")
    if not nodes:
        sys.stdout.write("No node has a soft taint of desched.\n")
    if failures:
        raise ObservationError(
            ObservationSource.CLUSTER, f"Some soft taints remain. {'; '.join(failures)}"
        )


COMMAND = Command(
    "steering clear",
    details="Run it before you uninstall desched or revoke its right to patch nodes.",
    examples={
        "desched steering clear": "in the current context",
        "desched steering clear --context prod": "in another context",
    },
    settings=CONNECTION,
)
