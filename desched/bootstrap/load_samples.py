"""Hands the samples of load from one process to the next."""

from dataclasses import dataclass, field

import structlog

from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.adapters.kubernetes.forwarded_port import ForwardedPort
from desched.adapters.kubernetes.sample_store import KubernetesSampleStore
from desched.adapters.metrics_apis.reader import SampledLoadReader
from desched.adapters.running_service import PAGES_PORT, RunningService
from desched.bootstrap.state import state_namespace
from desched.errors import ConfigurationError, ObservationError
from desched.policy.durations import duration_text
from desched.policy.policy import Policy
from desched.policy.windows_of_samples import first_decision_seconds
from desched.ports import Fence
from desched.settings import Settings

SERVICE_NAME = "desched"
ASKING_SECONDS = 10.0
_log = structlog.get_logger(__name__)


@dataclass(eq=False)
class LoadSamples:
    """The kept samples; `may_write` is None in a run that must not write.

    A single look asks the `running` service first, which has later ones. Without any, windows fill
    again, so a failure is logged and nothing else.
    """

    store: KubernetesSampleStore
    may_write: Fence | None = None
    running: RunningService | None = None
    _reader: SampledLoadReader | None = field(default=None, init=False)

    def recall(self, reader: SampledLoadReader) -> None:
        """Let a new reader continue with the kept samples."""
        self._reader = reader
        try:
            reader.recall(self._of_running() or self.store.read())
        except ObservationError as error:
            _log.warning("samples.not_read", why=str(error))

    def _of_running(self) -> str:
        if self.running is None:
            return ""
        try:
            return self.running.load_samples()
        except (ConfigurationError, ObservationError) as error:
            _log.info("samples.not_asked", why=str(error))  # most looks have no service beside them
            return ""

    def offered(self) -> str:
        """The samples of this process so far, empty if it has none."""
        return "" if self._reader is None else self._reader.kept()

    def keep(self) -> None:
        """Keep the samples of this process at a clean stop, if it has any."""
        if self._reader is None or self.may_write is None or not self.may_write():
            return
        try:
            self.store.write(self._reader.kept())
        except ObservationError as error:
            _log.warning("samples.not_kept", why=str(error))


def samples_for_a_look(settings: Settings, kubernetes: KubernetesConnection) -> LoadSamples:
    """What a single look continues with."""
    namespace = state_namespace(settings, kubernetes)
    store = KubernetesSampleStore(kubernetes, namespace)
    if kubernetes.in_cluster:
        return LoadSamples(store)  # the account of a pod may not forward ports
    pages = ForwardedPort(
        kubernetes, namespace, SERVICE_NAME, PAGES_PORT, deadline_seconds=ASKING_SECONDS
    )
    running = RunningService(f"Service {namespace}/{SERVICE_NAME}", pages.get)
    return LoadSamples(store, running=running)


def no_window_yet(policy: Policy) -> str:
    """Why a single cycle knows no load, and which commands help."""
    title = policy.metrics.type.in_words
    return (
        f"One look covers no window, because {title} has no history. `desched plan --wait 3m` "
        "takes samples for three minutes and plans by them; a service, also in a dry run, takes "
        f"its own and decides after {duration_text(first_decision_seconds(policy))}."
    )
