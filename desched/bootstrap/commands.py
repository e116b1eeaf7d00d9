"""The commands for people: pause, resume and status on the state, and steering clear."""

from collections.abc import Mapping
from getpass import getuser
from typing import TextIO

from rich.console import Console

from desched.adapters.kubernetes.client.connection import KubernetesConnection, connect
from desched.adapters.kubernetes.lease import KubernetesLease
from desched.adapters.kubernetes.state_store import KubernetesStateStore
from desched.adapters.kubernetes.taints import KubernetesSteerer
from desched.bootstrap.pause_commands import OperatorContext, pausing, resuming
from desched.bootstrap.state import state_namespace, state_store
from desched.errors import LeaseError, ObservationError, ObservationSource
from desched.ports import Clock
from desched.service.process.clock import SystemClock
from desched.service.process.logs import configure_logs
from desched.service.reports.formatting import plain
from desched.service.reports.status import Status, print_status, render_status
from desched.settings import Settings

LONGEST_NAME = 200  # characters
_PAUSE_COMMANDS = {"pause": pausing, "resume": resuming}


def run_command(
    name: str, settings: Settings, flags: Mapping[str, str], stdout: TextIO, stderr: TextIO
) -> None:
    """Carry out a command, with the flags of its own by their names.

    Raises:
        ConfigurationError: a flag cannot be used, or the state may not be written.
        ObservationError: the state could not be read, or it is not known whether it was written.
    """
    configure_logs(settings.log_format, settings.log_level, stderr)
    if name == "steering":
        kubernetes = connect(settings.kubeconfig, settings.context)
        request_seconds = settings.api_server_timeout.total_seconds()
        clear(KubernetesSteerer(kubernetes, deadline_seconds=request_seconds), stdout)
        return
    command = _PAUSE_COMMANDS[name](flags) if name in _PAUSE_COMMANDS else None
    clock = SystemClock()
    kubernetes = connect(settings.kubeconfig, settings.context, clock.wait)
    store = state_store(settings, kubernetes)
    if command is None:
        _print(_status(kubernetes, store, settings, clock), settings, stdout)
        return
    command(OperatorContext(store, clock, _person(kubernetes, settings), stdout, stderr))


def clear(steerer: KubernetesSteerer, stdout: TextIO) -> None:
    """Take desched's soft taint off every node.

    Raises:
        ObservationError: the nodes could not be read, or not all of them be changed.
    """
    failures = []
    nodes = steerer.steered()
    for node in nodes:
        answer = steerer.untaint(node)
        if answer.done:
            stdout.write(f"Took the soft taint off node {plain(node)}.\n")
        else:
            failures.append(f"{node}: {answer.detail}")
    if not nodes:
        stdout.write("No node has a soft taint of desched.\n")
    if failures:
        raise ObservationError(
            ObservationSource.CLUSTER, f"Not all soft taints are gone. {'; '.join(failures)}"
        )


def _person(kubernetes: KubernetesConnection, settings: Settings) -> str:
    """Who gives the command: the user of the machine and of the kubeconfig, or the pod."""
    try:
        user = getuser()
    except (OSError, KeyError, ImportError):  # nobody has a name here, as in many containers
        user = "somebody"
    if kubernetes.in_cluster:
        account = f"in pod {settings.pod_name}" if settings.pod_name else "in a pod"
    else:
        account = f"as {kubernetes.account.user or 'an account without a name'}"
    return plain(f"{user} {account}")[:LONGEST_NAME]


def _status(
    kubernetes: KubernetesConnection,
    store: KubernetesStateStore,
    settings: Settings,
    clock: Clock,
) -> Status:
    stored = store.load()
    lease, lease_problem = None, ""
    try:
        lease = KubernetesLease(kubernetes, state_namespace(settings, kubernetes)).read()
    except LeaseError as error:
        lease_problem = str(error)
    return Status(
        clock.now(),
        kubernetes.target,
        store.place,
        stored.state,
        stored.problem,
        lease,
        lease_problem,
    )


def _print(status: Status, settings: Settings, stdout: TextIO) -> None:
    form = settings.output or "table"
    if form == "table" and stdout.isatty():
        print_status(status, Console(file=stdout))
        return
    stdout.write(render_status(status, form))
