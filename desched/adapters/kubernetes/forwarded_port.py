"""HTTP servers on loopback in pods, reached through the API server as by `kubectl port-forward`."""

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from io import BufferedReader, RawIOBase
from urllib.parse import urlencode

import msgspec

from desched.adapters.bounded_http import Deadline, http_date
from desched.adapters.kubernetes.client.answers import Answer
from desched.adapters.kubernetes.client.connection import (
    DEADLINE_SECONDS,
    LONGEST_BODY_BYTES,
    KubernetesConnection,
)
from desched.adapters.kubernetes.client.websocket import Messages, open_websocket
from desched.api_objects.decoding import Decoder
from desched.api_objects.metadata import Named, Wire
from desched.errors import AnswerTooLarge, ConfigurationError, ObservationError, ObservationSource
from desched.model.text import on_one_line

MOST_PODS = 10
_PROTOCOL = "v4.channel.k8s.io"
_DATA, _ERROR = b"\x00", b"\x01"
"""The channels of the only port. The first message of each names the port."""


class _ServiceSpec(Wire):
    selector: dict[str, str] | None = None


class _Service(Named):
    spec: _ServiceSpec = msgspec.field(default_factory=_ServiceSpec)


_SELECTOR = Decoder(_Service, lambda item: item.spec.selector or {})
_NAME = Decoder(Named, lambda item: item.metadata.name)


class ForwardedPort:
    """A port of the pods of a Service, which may listen on loopback alone.

    The rights are to get the Service, to list pods, and to get and create pods/portforward.
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
        self._namespace = f"/api/v1/namespaces/{namespace}"
        self._name = name
        self._port = port

    def get(self, path: str, query: Mapping[str, str]) -> Answer:
        """The first answer of a pod that is OK, or else that with the lowest status.

        Raises:
            ConfigurationError: there is no such Service.
            ObservationError: the API server does not answer, refuses it, or reaches no pod.
        """
        deadline = Deadline(self._deadline_seconds)
        answers, problems = [], [self._problem("it has no running pod")]
        for pod in self._pods(deadline):
            try:
                answers.append(self._of_pod(pod, f"{path}?{urlencode(query)}", deadline))
            except ObservationError as problem:
                problems.append(problem)
                continue
            if answers[-1].status == HTTPStatus.OK:
                break
        if not answers:
            raise problems[-1]
        return min(answers, key=lambda answer: answer.status)

    def _pods(self, deadline: Deadline) -> list[str]:
        service = self._read(f"/services/{self._name}", {}, deadline)
        labels = _SELECTOR.one(service).items()
        if not labels:
            raise self._problem("it selects no pods")
        query = {
            "labelSelector": ",".join(f"{key}={value}" for key, value in labels),
            "fieldSelector": "status.phase=Running",
            "limit": str(MOST_PODS),
        }
        return _NAME.page(self._read("/pods", query, deadline)).values

    def _read(self, path: str, query: Mapping[str, str], deadline: Deadline) -> bytes:
        answer = self._kubernetes.get(
            self._namespace + path, query, deadline_seconds=deadline.left_seconds
        )
        if answer.status == HTTPStatus.OK:
            return answer.body
        problem = self._problem(answer.explanation)
        if answer.is_from_server(HTTPStatus.NOT_FOUND):
            raise ConfigurationError(f"{problem} `--state-namespace` names another namespace.")
        raise problem

    def _of_pod(self, pod: str, target: str, deadline: Deadline) -> Answer:
        path = f"{self._namespace}/pods/{pod}/portforward?ports={self._port}"
        opened = open_websocket(self._kubernetes, path, _PROTOCOL, deadline)
        if isinstance(opened, Answer):
            problem = opened.explanation
            if (
                opened.status == HTTPStatus.FORBIDDEN
            ):  # the API server does not always name the right
                problem += " (the rights are to get and to create pods/portforward)"
            raise self._problem(problem)
        with opened as messages:
            request = f"GET {target} HTTP/1.1\r\nHost: localhost:{self._port}\r\n\r\n"
            messages.send(_DATA + request.encode())
            return self._answer(self._data(pod, messages))

    def _data(self, pod: str, messages: Messages) -> Iterator[bytes]:
        named = set()
        while (message := messages.receive()) is not None:
            channel, content = message[:1], message[1:]
            if channel not in named:
                named.add(channel)
            elif channel == _DATA:
                yield content
            elif channel == _ERROR:
                problem = content.decode(errors="replace")
                raise self._problem(f"port {self._port} of pod {pod} is not reached: {problem}")

    def _answer(self, arriving: Iterator[bytes]) -> Answer:
        response = HTTPResponse(_Arriving(arriving))  # type: ignore[arg-type]  # reads it alone
        try:
            response.begin()
            body = response.read(LONGEST_BODY_BYTES)
        except HTTPException as error:
            raise self._problem(f"its answer broke off ({type(error).__name__})") from error
        if len(body) == LONGEST_BODY_BYTES:
            raise AnswerTooLarge(
                ObservationSource.CLUSTER,
                f"The answer of Service {self._service} is larger than "
                f"{LONGEST_BODY_BYTES >> 20} MiB; ask about a smaller object.",
            )
        if response.length:
            raise self._problem("its answer broke off")
        return Answer(response.status, body, None, http_date(response.getheader("Date")))

    def _problem(self, problem: str) -> ObservationError:
        return ObservationError(
            ObservationSource.CLUSTER,
            f"Service {self._service} cannot be asked: {on_one_line(problem).rstrip('.')}.",
        )


class _Arriving(RawIOBase):
    """A socket as far as a response is read from it."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._rest = b""

    def makefile(self, _: str) -> BufferedReader:
        """What the library reads from."""
        return BufferedReader(self)

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # narrower
        """Read what has arrived."""
        while not self._rest:
            part = next(self._parts, None)
            if part is None:
                return 0
            self._rest = part
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count
