"""The commands for people: pause, resume and status, and steering clear."""

from collections.abc import Mapping
from datetime import datetime
from getpass import getuser
from typing import TextIO

from rich.console import Console

from desched.adapters.kubernetes.client.connection import KubernetesConnection, connect
from desched.adapters.kubernetes.existence import is_absent_namespace, is_absent_workload
from desched.adapters.kubernetes.lease import KubernetesLease
from desched.adapters.kubernetes.taints import KubernetesSteerer
from desched.bootstrap.pause_commands import OperatorContext, apply, pausing, resuming
from desched.bootstrap.state import state_namespace, state_store
from desched.errors import LeaseError, ObservationError, ObservationSource
from desched.service.process.clock import SystemClock
from desched.service.process.logs import configure_logs
from desched.settings import Settings
from desched.views.formatting import plain
from desched.views.status import Status, print_status, render_status

LONGEST_NAME = 200  # characters
_PAUSE_COMMANDS = {"pause": pausing, "resume": resuming}


def run_command(
    name: str, settings: Settings, flags: Mapping[str, str], stdout: TextIO, stderr: TextIO
) -> None:
    """Run a command with its own flags, by name.

    Raises:
        ConfigurationError: a flag is invalid, or the state must not be written.
        ObservationError: the state could not be read, or it is unknown whether it was written.
    """
    configure_logs(settings.log_format, settings.log_level, stderr)
    change = _PAUSE_COMMANDS[name](flags) if name in _PAUSE_COMMANDS else None
    clock = SystemClock()
    kubernetes = connect(settings.kubeconfig, settings.context, clock.wait)
    if name == "steering":
        request_seconds = settings.api_server_timeout.total_seconds()
        clear(KubernetesSteerer(kubernetes, deadline_seconds=request_seconds), stdout)
        return
    store = state_store(settings, kubernetes)

    def now() -> datetime:
        """The API server's time, which the service's clock must match; this machine's may not."""
        return store.server_time or clock.now()

    if change is not None:
        person = _person(kubernetes, settings)
        apply(change, OperatorContext(store, now, clock.wait, person, stdout, stderr))
        if name == "pause" and (absent := absent_subject(flags, kubernetes)):
            stderr.write(f"desched: {absent}\n")
        return
    stored = store.load()
    lease, lease_problem = None, ""
    try:
        lease = KubernetesLease(kubernetes, state_namespace(settings, kubernetes)).read()
    except LeaseError as error:
        lease_problem = str(error)
    status = Status(
        now(), kubernetes.target, store.place, stored.state, stored.problem, lease, lease_problem
    )
    if settings.output in {None, "table"} and stdout.isatty():
        print_status(status, Console(file=stdout))
    else:
        stdout.write(render_status(status, settings.output or "table"))


def absent_subject(flags: Mapping[str, str], kubernetes: KubernetesConnection) -> str:
    """A sentence if there is nothing of the name that was paused; else empty.

    The pause stands: what has the name may come to exist, and it is better to pause too much.
    """
    check = "check the name; a pause of another name protects nothing."
    if "namespace" in flags and is_absent_namespace(kubernetes, flags["namespace"].strip()):
        return f"There is no namespace {flags['namespace'].strip()} now; {check}"
    if "workload" in flags:
        path = flags["workload"].split()[-1]
        namespace, _, name = path.partition("/")
        if is_absent_workload(kubernetes, namespace, name):
            return f"There is no Deployment, StatefulSet, ReplicaSet or Job {path} now; {check}"
    if "pool" in flags:
        pool = plain(flags["pool"].strip())
        return f"This command does not read the policy: check that its nodePools name {pool}."
    return ""


def clear(steerer: KubernetesSteerer, stdout: TextIO) -> None:
    """Remove desched's soft taint from every node.

    Raises:
        ObservationError: the nodes could not be read, or some of them not be changed.
    """
    failures = []
    nodes = tuple(steerer.standing().until)
    for node in nodes:
        answer = steerer.untaint(node)
        if answer.done:
            stdout.write(f"Removed the soft taint from node {plain(node)}.\n")
        else:
            failures.append(f"{node}: {answer.detail}")
    if not nodes:
        stdout.write("No node has a soft taint of desched.\n")
    if failures:
        raise ObservationError(
            ObservationSource.CLUSTER, f"Some soft taints remain. {'; '.join(failures)}"
        )


def _person(kubernetes: KubernetesConnection, settings: Settings) -> str:
    """Who runs the command: the user of the machine and of the kubeconfig, or the pod."""
    try:
        user = getuser()
    except (OSError, KeyError, ImportError):  # the user has no name, as in many containers
        user = "somebody"
    if kubernetes.in_cluster:
        account = f"in pod {settings.pod_name}" if settings.pod_name else "in a pod"
    else:
        account = f"as {kubernetes.account.user or 'an account without a name'}"
    return plain(f"{user} {account}")[:LONGEST_NAME]
