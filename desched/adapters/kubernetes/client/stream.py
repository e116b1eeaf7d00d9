"""An answer of the API server that lasts, such as that to a watch, line by line."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from time import monotonic

from urllib3 import BaseHTTPResponse
from urllib3.exceptions import HTTPError, ReadTimeoutError

from desched.adapters.bounded_http import Deadline
from desched.errors import ObservationError, ObservationSource

LONGEST_LINE_BYTES = 32 * 2**20  # larger than any object
_CHUNK_BYTES = 2**18


class StreamSilent(ObservationError):  # noqa: N818  (named for what the caller reads)
    """No line came for too long, so whatever is at the other end may be gone."""


class LineStream:
    """The lines of an answer that has begun; iterate over it once.

    Iterating raises StreamSilent after `silence_seconds` without a whole line, and ObservationError
    if the connection breaks off, in the middle of a line too, or if the other end is gone.
    """

    def __init__(self, response: BaseHTTPResponse, silence_seconds: float) -> None:
        self._response = response
        self._silence_seconds = silence_seconds
        # After the last byte the response no longer has its connection.
        self._socket: socket.socket | None = getattr(response.connection, "sock", None)

    def __iter__(self) -> Iterator[bytes]:
        rest = bytearray()
        last_line_at = monotonic()
        while chunk := self._next_chunk():
            first, *others = chunk.split(b"\n")
            rest += first
            for other in others:
                yield bytes(rest)
                rest = bytearray(other)
                last_line_at = monotonic()
            if monotonic() - last_line_at > self._silence_seconds:
                raise self._silent()
            if len(rest) > LONGEST_LINE_BYTES:
                raise broken("a line is too long")
        if rest:
            raise broken("it ended in the middle of a line")

    def _next_chunk(self) -> bytes:
        began = monotonic()
        try:
            with Deadline(self._silence_seconds).applied():
                return self._response.read1(_CHUNK_BYTES, decode_content=True)
        except (TimeoutError, ReadTimeoutError) as error:
            if monotonic() - began < self._silence_seconds / 2:
                raise broken("the other end of the connection does not answer") from error
            raise self._silent() from error
        except (HTTPError, OSError) as error:
            raise broken(f"the connection broke off ({type(error).__name__})") from error

    def close(self) -> None:
        """End the connection at once; another thread may be reading."""
        if self._socket is not None:
            with suppress(OSError):  # the other end was faster
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # of TLS the transport

    def release(self) -> None:
        """Give the connection back, or close it if the answer has not ended; for the reader."""
        self._response.close()

    def _silent(self) -> StreamSilent:
        return StreamSilent(
            ObservationSource.CLUSTER,
            f"the API server has sent nothing for {self._silence_seconds:.0f} s",
        )


def broken(reason: str) -> ObservationError:
    """A stream that ends for this reason."""
    return ObservationError(ObservationSource.CLUSTER, reason)
