"""HTTP requests that end in time: one deadline, few retries, bounded bodies.

Both client libraries use urllib3, whose own timeouts hold for single reads of the socket only.
"""

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPResponse
from io import BufferedReader, RawIOBase
from time import monotonic
from typing import Any, TypeVar

from urllib3 import BaseHTTPResponse, HTTPConnectionPool, HTTPSConnectionPool, PoolManager, Timeout
from urllib3.connection import HTTPConnection, HTTPSConnection

from desched.errors import AnswerTooLarge, ObservationError, ObservationSource

RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})
_CHUNK_BYTES = 2**18

T = TypeVar("T")


class Deadline:
    """The end of the time for something, by the monotonic clock."""

    def __init__(self, seconds: float) -> None:
        self._at = monotonic() + seconds

    @property
    def left_seconds(self) -> float:
        """The time left, negative after the deadline."""
        return self._at - monotonic()

    @property
    def timeout(self) -> Timeout:
        """The time left for connecting and for the first read together, never 0."""
        return Timeout(total=max(self.left_seconds, 0.001))

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Each read from a connection with deadlines ends by this one, within the context."""
        token = APPLIED.set(self)
        try:
            yield
        finally:
            APPLIED.reset(token)


APPLIED: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


class _TimelyReader(RawIOBase):
    """Reads from a socket until the deadline that applies, however slowly the bytes come.

    A server could send a header, or the size of a chunk, byte by byte for days.
    """

    def __init__(self, raw: RawIOBase, sock: socket.socket) -> None:
        self._raw, self._sock = raw, sock

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read what has arrived."""
        deadline = APPLIED.get()
        if deadline is not None:
            left_seconds = deadline.left_seconds  # which may pass before it is read again
            if left_seconds <= 0:
                raise TimeoutError
            self._sock.settimeout(left_seconds)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        """Close what it reads from."""
        self._raw.close()
        super().close()


class _TimelyResponse(HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp: BufferedReader = BufferedReader(_TimelyReader(self.fp.detach(), sock))


class _HttpConnection(HTTPConnection):
    response_class = _TimelyResponse


class _HttpsConnection(HTTPSConnection):
    response_class = _TimelyResponse


class _HttpPool(HTTPConnectionPool):
    ConnectionCls = _HttpConnection


class _HttpsPool(HTTPSConnectionPool):
    ConnectionCls = _HttpsConnection


def with_deadlines(pools: PoolManager) -> PoolManager:
    """The same, whose connections keep the deadlines that apply."""
    pools.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}
    return pools


@dataclass(frozen=True, kw_only=True)
class HttpBounds:
    """The bounds of requests to one server.

    `server` and `when_too_large` are for error messages. `pauses_seconds` are those before the
    second and each further attempt. `wait` pauses and returns true if desched is stopping.
    """

    source: ObservationSource
    server: str
    pauses_seconds: Sequence[float]
    longest_body_bytes: int
    when_too_large: str
    wait: Callable[[float], bool]

    def repeated(
        self,
        attempt: Callable[[Deadline], T],
        retry_after_seconds: Callable[[T], float | None],
        deadline_seconds: float,
    ) -> T:
        """The outcome of the last attempt.

        `retry_after_seconds` is how long to wait at least after an outcome, None if it is final.

        Raises:
            ObservationError: desched is stopping.
        """
        self._wait(0)
        deadline = Deadline(deadline_seconds)
        outcome = attempt(deadline)
        for shortest_pause_seconds in self.pauses_seconds:
            asked_seconds = retry_after_seconds(outcome)
            if asked_seconds is None:
                break
            pause_seconds = max(shortest_pause_seconds, asked_seconds)
            if pause_seconds >= deadline.left_seconds:
                break
            self._wait(pause_seconds)
            outcome = attempt(deadline)
        return outcome

    def read_body(self, response: BaseHTTPResponse, deadline: Deadline) -> bytes:
        """The whole decoded body; the connection goes back to its pool, or is closed on failure.

        Raises:
            TimeoutError: it did not end before the deadline.
            AnswerTooLarge: it is too large.
        """
        body = bytearray()
        try:
            while chunk := _next_chunk(response, deadline):
                body += chunk
                if len(body) > self.longest_body_bytes:
                    raise AnswerTooLarge(
                        self.source,
                        f"An answer of {self.server} is larger than "
                        f"{self.longest_body_bytes >> 20} MiB; {self.when_too_large}.",
                    )
        finally:
            response.close()  # without effect after the last byte: the pool has the connection
        return bytes(body)

    def _wait(self, seconds: float) -> None:
        if self.wait(seconds):
            raise ObservationError(
                self.source, f"A request to {self.server} was given up: desched is stopping."
            )


def _next_chunk(response: BaseHTTPResponse, deadline: Deadline) -> bytes:
    if deadline.left_seconds <= 0:
        raise TimeoutError
    # read1 returns what has arrived; read would wait for a full chunk of a slow drip.
    with deadline.applied():
        return response.read1(_CHUNK_BYTES, decode_content=True)


def http_date(text: str | None) -> datetime | None:
    """The time in a header `Date`, None if it has none."""
    try:
        return parsedate_to_datetime(text or "").replace(tzinfo=UTC)  # the only zone in HTTP
    except (ValueError, OverflowError):
        return None
