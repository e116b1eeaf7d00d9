"""Questions to a running service over HTTP, with bounds for an answer of anybody's making.

It is asked at its URL, or by what else can get an answer from it, such as the API server's proxy.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from http import HTTPStatus
from typing import NamedTuple, Protocol
from urllib.parse import urlencode

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from desched.adapters.bounded_http import Deadline, HttpBounds, http_date
from desched.errors import ConfigurationError, ObservationError, ObservationSource
from desched.model.plan import VerdictReason, verdict_reason
from desched.model.text import on_one_line
from desched.views.explained.subject import Subject
from desched.views.explained.values import EXPLANATION_VERSION, Explanation

PAGES_PORT = 10280
"""On loopback in the pod of a service, unless it has another --pages-address."""

DEADLINE_SECONDS = 30.0
LONGEST_BODY_BYTES = 64 * 2**20
LONGEST_SAMPLES_BYTES = 2**20
_PORT_FORWARD = f"kubectl -n desched-system port-forward deploy/desched {PAGES_PORT}"
_CALLERS_FAULT = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND})


class ServiceAnswer(Protocol):
    """An answer over HTTP; `date` is the time at the service, None if it does not say so."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def body(self) -> bytes:
        """All of the body."""

    @property
    def date(self) -> datetime | None:
        """The time at the service."""


Ask = Callable[[str, Mapping[str, str]], ServiceAnswer]
"""Gets what the service answers at a path, with a query."""


class Explained(NamedTuple):
    """An explanation, and the time at the service when it answered, if it says so."""

    explanation: Explanation
    answered_at: datetime | None


class _Problem(msgspec.Struct):
    problem: str


class _Head(msgspec.Struct):
    version: str


_PROBLEM = msgspec.json.Decoder(_Problem)
_HEAD = msgspec.json.Decoder(_Head)


class RunningService:
    """A service, by how people know where it is, and how it is asked."""

    def __init__(self, name: str, ask: Ask) -> None:
        self._name = name
        self._ask = ask

    def explanation(self, subject: Subject) -> Explained:
        """The explanation by its last cycle.

        Raises:
            ConfigurationError: its cluster has no such object, or this is no service of desched.
            ObservationError: it does not answer, or has decided nothing yet.
        """
        answer = self._ask("/explain", subject.words)
        body = answer.body
        if answer.status != HTTPStatus.OK:
            self._refused(answer.status, body)
        try:
            version = _HEAD.decode(body).version
            if version == EXPLANATION_VERSION:
                found = _EXPLANATION.decode(body)
                return Explained(found, answer.date)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            raise self._stranger() from None
        raise ConfigurationError(
            f"The answer of {self._name} is in format {on_one_line(version)}, this desched "
            f"reads {EXPLANATION_VERSION}; use the desched of the service's version."
        )

    def load_samples(self) -> str:
        """The samples of load that it has taken, empty if it has none or is another version.

        Raises:
            ConfigurationError: there is no such service.
            ObservationError: it does not answer.
        """
        answer = self._ask("/load-samples", {})
        if answer.status != HTTPStatus.OK or len(answer.body) > LONGEST_SAMPLES_BYTES:
            return ""
        return answer.body.decode("ascii", errors="replace")

    def _refused(self, status: int, body: bytes) -> None:
        try:
            problem = on_one_line(_PROBLEM.decode(body).problem)
        except (msgspec.DecodeError, UnicodeError):
            raise self._stranger(f" (HTTP {status})") from None
        if status in _CALLERS_FAULT:
            raise ConfigurationError(problem)
        raise ObservationError(ObservationSource.CLUSTER, f"{self._name}: {problem}")

    def _stranger(self, said: str = "") -> ConfigurationError:
        return ConfigurationError(
            f"What answers as {self._name} is no service of desched of this version{said}; "
            f"forward the port of its pages with `{_PORT_FORWARD}`."
        )


class _Answer(NamedTuple):
    status: int
    body: bytes
    date: datetime | None


class ServiceUrl:
    """The URL of a service; `wait` pauses and returns true if desched is stopping."""

    def __init__(self, url: str, wait: Callable[[float], bool]) -> None:
        self._url = url.strip().rstrip("/")
        self._bounds = HttpBounds(
            source=ObservationSource.CLUSTER,
            server=f"the service at {self._url}",
            pauses_seconds=(),
            longest_body_bytes=LONGEST_BODY_BYTES,
            when_too_large="ask about a smaller object",
            wait=wait,
        )

    def get(self, path: str, query: Mapping[str, str]) -> ServiceAnswer:
        """The service's answer.

        Raises:
            ObservationError: it does not answer.
        """
        url = f"{self._url}{path}?{urlencode(query)}"

        def attempt(deadline: Deadline) -> _Answer:
            with urllib3.PoolManager(retries=False) as pool:
                response = pool.request(
                    "GET", url, preload_content=False, redirect=False, timeout=deadline.timeout
                )
                body = self._bounds.read_body(response, deadline)
                return _Answer(response.status, body, http_date(response.headers.get("Date")))

        try:
            return self._bounds.repeated(attempt, lambda _: None, DEADLINE_SECONDS)
        except (HTTPError, OSError) as error:
            raise ObservationError(
                ObservationSource.CLUSTER,
                f"The service at {self._url} does not answer; check the "
                f"address, or forward the port of its pages with `{_PORT_FORWARD}`.",
            ) from error


def _hook(kind: object, value: object) -> object:
    if kind is VerdictReason:
        return verdict_reason(str(value))
    raise NotImplementedError  # msgspec then refuses the value


_EXPLANATION = msgspec.json.Decoder(Explanation, dec_hook=_hook)
