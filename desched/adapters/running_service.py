"""Questions to a running service over HTTP, with bounds for an answer of anybody's making."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import urlencode

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from desched.adapters.bounded_http import Deadline, HttpBounds
from desched.errors import ConfigurationError, ObservationError, ObservationSource
from desched.explanation.subject import Subject
from desched.explanation.values import EXPLANATION_VERSION, Explanation
from desched.model.plan import VerdictReason, verdict_reason
from desched.model.text import on_one_line

DEADLINE_SECONDS = 30.0
LONGEST_BODY_BYTES = 64 * 2**20
_CALLERS_FAULT = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND})


class Explained(NamedTuple):
    """An explanation, and the time at the service when it answered, if it says so."""

    explanation: Explanation
    answered_at: datetime | None


class _Problem(msgspec.Struct):
    problem: str


class _Head(msgspec.Struct):
    version: str


class RunningService:
    """The service at a URL; `wait` pauses and returns true if desched is stopping."""

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

    def explanation(self, subject: Subject) -> Explained:
        """The explanation by its last cycle.

        Raises:
            ConfigurationError: its cluster has no such object, or this is no service of desched.
            ObservationError: it does not answer, or has decided nothing yet.
        """
        status, body, answered_at = self._get("/explain", subject.words)
        if status != HTTPStatus.OK:
            self._refused(status, body)
        try:
            version = msgspec.json.decode(body, type=_Head).version
            if version == EXPLANATION_VERSION:
                found = msgspec.json.decode(body, type=Explanation, dec_hook=_hook)
                return Explained(found, answered_at)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            raise self._stranger() from None
        raise ConfigurationError(
            f"The service at {self._url} answers in format {on_one_line(version)}, this desched "
            f"reads {EXPLANATION_VERSION}; use the desched of the service's version."
        )

    def _refused(self, status: int, body: bytes) -> None:
        try:
            why = on_one_line(msgspec.json.decode(body, type=_Problem).problem)
        except (msgspec.DecodeError, UnicodeError):
            raise self._stranger(f" (HTTP {status})") from None
        if status in _CALLERS_FAULT:
            raise ConfigurationError(why)
        raise ObservationError(ObservationSource.CLUSTER, f"{self._url}: {why}")

    def _stranger(self, said: str = "") -> ConfigurationError:
        return ConfigurationError(
            f"What answers at {self._url} is no service of desched of this version{said}; "
            "its port is 10258, as of `kubectl -n desched-system port-forward deploy/desched 10258`"
            "."
        )

    def _get(self, path: str, query: Mapping[str, str]) -> tuple[int, bytes, datetime | None]:
        url = f"{self._url}{path}?{urlencode(query)}"

        def attempt(deadline: Deadline) -> tuple[int, bytes, datetime | None]:
            with urllib3.PoolManager(retries=False) as pool:
                response = pool.request(
                    "GET", url, preload_content=False, redirect=False, timeout=deadline.timeout
                )
                body = self._bounds.read_body(response, deadline)
                return response.status, body, _date(response.headers.get("Date"))

        try:
            return self._bounds.repeated(attempt, lambda _: None, DEADLINE_SECONDS)
        except (HTTPError, OSError) as error:
            raise ObservationError(
                ObservationSource.CLUSTER,
                f"The service at {self._url} does not answer ({type(error).__name__}); check the "
                "address, or forward its port with "
                "`kubectl -n desched-system port-forward deploy/desched 10258`.",
            ) from error


def _hook(kind: object, value: object) -> object:
    if kind is VerdictReason:
        return verdict_reason(str(value))
    raise NotImplementedError  # msgspec then refuses the value


def _date(text: str | None) -> datetime | None:
    try:
        return parsedate_to_datetime(text or "").replace(tzinfo=UTC)  # the only zone in HTTP
    except (ValueError, OverflowError):
        return None
