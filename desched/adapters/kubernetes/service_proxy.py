"""HTTP servers inside the cluster, asked through the API server's proxy."""

from collections.abc import Mapping
from http import HTTPStatus

from desched.adapters.kubernetes.client.connection import DEADLINE_SECONDS, KubernetesConnection
from desched.adapters.kubernetes.client.decoding import Answer
from desched.errors import ConfigurationError, ObservationError, ObservationSource

_REFUSED = 400
"""Answers with this status or a higher one may be those of the API server itself."""


class ServiceProxy:
    """The port of a Service, which the API server reaches for us; the right is services/proxy.

    Each request goes to one of the Service's pods.
    """

    def __init__(
        self,
        kubernetes: KubernetesConnection,
        namespace: str,
        name: str,
        port: int,
        *,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        self._deadline_seconds = deadline_seconds
        self._kubernetes = kubernetes
        self._service = f"{namespace}/{name}"
        self._path = f"/api/v1/namespaces/{namespace}/services/http:{name}:{port}/proxy"

    def get(self, path: str, query: Mapping[str, str]) -> Answer:
        """The server's answer.

        Raises:
            ConfigurationError: there is no such Service.
            ObservationError: the API server does not answer, refuses it, or reaches no pod.
        """
        answer = self._kubernetes.get(
            self._path + path, query, deadline_seconds=self._deadline_seconds
        )
        refusal = answer.status_object if answer.status >= _REFUSED else None
        if refusal is None:
            return answer
        why = f"Service {self._service} cannot be asked: {answer.explanation}."
        if answer.status == HTTPStatus.NOT_FOUND:
            raise ConfigurationError(f"{why} `--state-namespace` names another namespace.")
        raise ObservationError(ObservationSource.CLUSTER, why)
