"""HTTP requests that end in time: one deadline, few retries, bounded bodies.

Both client libraries use urllib3, whose own timeouts hold for single reads of the socket only.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar

from urllib3 import BaseHTTPResponse, Timeout

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
    left_seconds = deadline.left_seconds
    if left_seconds <= 0:
        raise TimeoutError
    # The timeout of the request is for each read, and as of its start. A kept-alive connection
    # still has its socket here, so a stalled body ends exactly in time.
    sock = getattr(response.connection, "sock", None)
    if sock is not None:
        sock.settimeout(left_seconds)
    # read1 returns what has arrived; read would wait for a full chunk of a slow drip.
    return response.read1(_CHUNK_BYTES, decode_content=True)
