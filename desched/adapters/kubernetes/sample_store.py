"""The samples of load that a process leaves to the next, beside the state in its ConfigMap."""

from dataclasses import KW_ONLY, dataclass
from http import HTTPStatus

from desched.adapters.kubernetes.client.access import GET_STATE, PATCH_STATE
from desched.adapters.kubernetes.client.config_maps import NO_CONFIG_MAP, config_map
from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.adapters.kubernetes.client.paged_reads import why_refused
from desched.adapters.kubernetes.state_store import CONFIG_MAP, DEADLINE_SECONDS
from desched.errors import ObservationError, ObservationSource

SAMPLES_KEY = "load-samples"


@dataclass
class KubernetesSampleStore:
    """One key of the ConfigMap of the state; it exists once a service has evicted or tried to.

    The latest write wins: samples are only facts, and whoever reads them checks their times.
    """

    connection: KubernetesConnection
    namespace: str
    _: KW_ONLY
    deadline_seconds: float = DEADLINE_SECONDS

    def read(self) -> str:
        """The text, empty if there is none.

        Raises:
            ObservationError: it could not be read in time.
        """
        path = GET_STATE.path(self.namespace, CONFIG_MAP)
        answer = self.connection.get(path, deadline_seconds=self.deadline_seconds)
        if answer.is_from_server(HTTPStatus.NOT_FOUND):
            return ""
        if answer.status != HTTPStatus.OK:
            refusal = why_refused(answer, GET_STATE, self.namespace)
            raise ObservationError(ObservationSource.CLUSTER, f"Samples are not read: {refusal}.")
        stored = config_map(answer)
        if stored is None:
            text = f"Samples are not read: {NO_CONFIG_MAP}."
            raise ObservationError(ObservationSource.CLUSTER, text)
        return stored.texts.get(SAMPLES_KEY, "")

    def write(self, text: str) -> None:
        """Replace the text.

        Raises:
            ObservationError: it may not have been written.
        """
        path = PATCH_STATE.path(self.namespace, CONFIG_MAP)
        body = {"data": {SAMPLES_KEY: text}}
        answer = self.connection.patch(path, body, deadline_seconds=self.deadline_seconds)
        if not answer.is_done:
            refusal = why_refused(answer, PATCH_STATE, self.namespace)
            raise ObservationError(ObservationSource.CLUSTER, f"Samples are not kept: {refusal}.")
