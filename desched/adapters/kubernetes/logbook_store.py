"""The logbook in a ConfigMap of its own, so that the state can neither be changed nor crowded."""

import base64
import binascii
from dataclasses import dataclass, field
from http import HTTPStatus

from desched.adapters.kubernetes.client.access import GET_LOGBOOK, PATCH_LOGBOOK
from desched.adapters.kubernetes.client.answers import Answer
from desched.adapters.kubernetes.client.config_maps import NO_CONFIG_MAP, ConfigMap, config_map
from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.adapters.kubernetes.client.paged_reads import why_refused
from desched.api_objects.access import Access
from desched.errors import ObservationError, ObservationSource
from desched.history.stored import StoredLogbook, decode_logbook

CONFIG_MAP = "desched-logbook"
KEY = "logbook"
DEADLINE_SECONDS = 5.0
"""For one request with all its retries: the next cycle tries again."""


@dataclass
class KubernetesLogbookStore:
    """The LogbookStore on one ConfigMap that exists; desched may not create it."""

    connection: KubernetesConnection
    namespace: str
    _version: str = field(default="", init=False)

    @property
    def place(self) -> str:
        """The ConfigMap, for people."""
        return f"ConfigMap {self.namespace}/{CONFIG_MAP}"

    def load(self) -> StoredLogbook:
        """The stored logbook; none, with a problem, if it cannot be used."""
        answer = self.connection.get(self._path, deadline_seconds=DEADLINE_SECONDS)
        stored = self._read(answer, GET_LOGBOOK)
        self._version = stored.metadata.resource_version
        text = (stored.binary_data or {}).get(KEY)
        if not text:
            return StoredLogbook()
        try:
            packed = base64.b64decode(text, validate=True)
        except binascii.Error as error:
            return StoredLogbook(problem=f"it is damaged ({error})")
        return decode_logbook(packed)

    def save(self, packed: bytes) -> None:
        """Replace what this store loaded or saved last."""
        body = {
            "metadata": {"resourceVersion": self._version},
            "binaryData": {KEY: base64.b64encode(packed).decode()},
        }
        answer = self.connection.patch(self._path, body, deadline_seconds=DEADLINE_SECONDS)
        self._version = self._read(answer, PATCH_LOGBOOK).metadata.resource_version

    @property
    def _path(self) -> str:
        return GET_LOGBOOK.path(self.namespace, CONFIG_MAP)

    def _read(self, answer: Answer, what: Access) -> ConfigMap:
        if answer.status == HTTPStatus.OK:
            if (stored := config_map(answer)) is not None:
                return stored
            problem = NO_CONFIG_MAP
        elif answer.is_from_server(HTTPStatus.NOT_FOUND):
            problem = (
                "it does not exist; `kubectl apply -k deploy/base` creates it, or `kubectl "
                f"--namespace {self.namespace} create configmap {CONFIG_MAP}`; a service outside "
                "a cluster then writes it only with --logbook"
            )
        elif answer.is_from_server(HTTPStatus.CONFLICT):
            problem = "somebody else changed it meanwhile"
        else:
            problem = why_refused(answer, what, self.namespace)
        done = "read" if what is GET_LOGBOOK else "written"
        raise ObservationError(
            ObservationSource.CLUSTER, f"The logbook in {self.place} was not {done}: {problem}."
        )
