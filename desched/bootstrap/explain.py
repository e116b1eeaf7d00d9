"""`desched explain` with its parts: a decision about the live cluster or a snapshot file."""

from signal import Signals
from typing import TextIO

from rich.console import Console

from desched.adapters.kubernetes.client.connection import connect
from desched.adapters.kubernetes.service_proxy import ServiceProxy
from desched.adapters.running_service import RunningService, ServiceUrl
from desched.bootstrap.load_samples import SERVICE_PORT
from desched.bootstrap.look import LiveCluster, with_look
from desched.bootstrap.snapshot import SnapshotFile
from desched.bootstrap.state import state_namespace
from desched.cycle import decide, observe
from desched.errors import ConfigurationError
from desched.service.process.clock import SystemClock
from desched.settings import Settings, service_name, service_url
from desched.snapshot_file.report import target_of
from desched.views.explained.explain import explain
from desched.views.explained.subject import Subject
from desched.views.explained.values import Explanation
from desched.views.explanation import print_explanation, render_explanation
from desched.views.formatting import plain, span


def explain_live(
    settings: Settings, subject: Subject, stdout: TextIO, stderr: TextIO
) -> Signals | None:
    """Explain the subject in the live cluster; the signal that ended it before, if any.

    Raises:
        ConfigurationError: a person must change something, or there is no such object.
        ObservationError: the cluster or its load could not be read.
    """

    def explained(look: LiveCluster) -> Explanation:
        policy = look.policy.policy
        decision = decide(observe(look.world, policy), policy, look.state)
        return explain(subject, decision, look.target)

    found = with_look(settings, explained, stderr)
    if isinstance(found, Signals):
        return found
    _write(found, settings, stdout)
    return None


def explain_file(settings: Settings, subject: Subject, file: SnapshotFile, stdout: TextIO) -> None:
    """Explain the subject in a snapshot file.

    Raises:
        ConfigurationError: there is no such object.
    """
    content = file.content
    decision = decide(content.snapshot, file.policy, content.state, may_steer=content.may_steer)
    _write(explain(subject, decision, target_of(content)), settings, stdout)


def explain_from(
    settings: Settings, subject: Subject, where: str, stdout: TextIO, stderr: TextIO
) -> None:
    """Explain the subject by the last cycle of the service at a URL, or of a Kubernetes Service.

    Raises:
        ConfigurationError: there is no such object, or no service of desched.
        ObservationError: the service does not answer, or has decided nothing yet.
    """
    name, service = _running_service(settings, where)
    found, answered_at = service.explanation(subject)
    if answered_at is not None:
        age = span(answered_at - found.taken_at)
        stderr.write(f"desched: By the last cycle of {plain(name)}, {age} ago.\n")
    _write(found, settings, stdout)


def _running_service(settings: Settings, where: str) -> tuple[str, RunningService]:
    """The service, and its name for people."""
    wait = SystemClock().wait
    found = service_name(where)
    if found is None:
        try:
            url = service_url(where)
        except ValueError as error:
            raise ConfigurationError(f"--service: {error}.") from None
        name = f"the service at {url.strip().rstrip('/')}"
        return name, RunningService(name, ServiceUrl(url, wait).get)
    kubernetes = connect(settings.kubeconfig, settings.context, wait)
    namespace = state_namespace(settings, kubernetes)
    name = f"Service {namespace}/{found}, {kubernetes.target}"
    return name, RunningService(name, ServiceProxy(kubernetes, namespace, found, SERVICE_PORT).get)


def _write(explanation: Explanation, settings: Settings, stdout: TextIO) -> None:
    form = settings.output or "table"
    if form == "table" and stdout.isatty():
        print_explanation(explanation, Console(file=stdout))
    else:
        stdout.write(render_explanation(explanation, form))
