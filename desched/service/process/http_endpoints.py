"""The HTTP server for probes, Prometheus and people: /healthz, /readyz, /metrics, and others."""

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from prometheus_client.exposition import CONTENT_TYPE_LATEST

from desched.errors import ConfigurationError
from desched.service.process.health import Health

MOST_REQUESTS_AT_ONCE = 16
MOST_PARAMETERS = 10
SLOWEST_REQUEST_SECONDS = 10.0
_STOP_POLL_SECONDS = 0.05
_HIGHEST_PORT = 65_535
TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
HTML = "text/html; charset=utf-8"


class ListenAddress(NamedTuple):
    """The address to listen on; an empty host means all addresses, IPv4 and IPv6."""

    host: str
    port: int


class Answer(NamedTuple):
    """An HTTP response."""

    status: HTTPStatus
    content_type: str
    body: bytes
    headers: Mapping[str, str] = {}


Query = Mapping[str, str]
"""The parameters after the question mark."""

Answers = Mapping[str, Callable[[Query], Answer]]
"""What answers each path."""


def listen_address(text: str) -> ListenAddress:
    """The address from `host:port`, `:port` or `[ipv6]:port`.

    Raises:
        ConfigurationError: the text has none of these forms.
    """
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if (
        not colon
        or not port.isdecimal()
        or int(port) > _HIGHEST_PORT
        or (":" in host and not bracketed)
    ):
        raise ConfigurationError(
            f'--listen-address (DESCHED_LISTEN_ADDRESS): "{text}" is not of the form host:port, '
            "such as :10258 for all addresses or 127.0.0.1:10258 for this machine only."
        )
    return ListenAddress(host.strip("[]"), int(port))


@contextmanager
def serve(
    address: ListenAddress,
    health: Health,
    exposition: Callable[[], bytes],
    others: Answers = MappingProxyType({}),
) -> Iterator[ListenAddress]:
    """Serve the address during the context; yields it with the bound port.

    `exposition` returns the text of /metrics, `others` has the answers of other paths.

    Raises:
        ConfigurationError: the address cannot be bound.
    """
    try:
        server = _Server(address, {**_answers(health, exposition), **others})
    except OSError as error:
        where = f"{address.host}:{address.port}"
        raise ConfigurationError(
            f"Cannot listen on {where} ({error.strerror or error}); choose another address or port "
            "with --listen-address, or stop the process that listens there."
        ) from error
    thread = threading.Thread(
        target=server.serve_forever, args=(_STOP_POLL_SECONDS,), name="endpoints", daemon=True
    )
    thread.start()
    try:
        yield ListenAddress(address.host, server.server_address[1])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _answers(health: Health, exposition: Callable[[], bytes]) -> Answers:
    return {
        "/healthz": lambda _: _probe(health.why_not_alive()),
        "/readyz": lambda _: _probe(health.why_not_ready()),
        "/metrics": lambda _: Answer(HTTPStatus.OK, CONTENT_TYPE_LATEST, exposition()),
    }


def _probe(problem: str | None) -> Answer:
    status = HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK
    return Answer(status, TEXT, f"{problem or 'ok'}\n".encode())


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = MOST_REQUESTS_AT_ONCE
    block_on_close = False  # a slow client must not delay the end

    def __init__(self, address: ListenAddress, answers: Answers) -> None:
        self._answers = answers
        self._slots = threading.BoundedSemaphore(MOST_REQUESTS_AT_ONCE)
        every_address = not address.host and socket.has_dualstack_ipv6()
        self.address_family = (
            socket.AF_INET6 if every_address or ":" in address.host else socket.AF_INET
        )
        super().__init__(("::" if every_address else address.host, address.port), _Handler)

    def answer(self, target: str) -> Answer:
        """The response for a path with its query."""
        path, _, query = target.partition("?")
        if path in self._answers:
            return self._answers[path](dict(parse_qsl(query)[:MOST_PARAMETERS]))
        text = f"there are {', '.join(self._answers)}\n"
        return Answer(HTTPStatus.NOT_FOUND, TEXT, text.encode())

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._slots.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a client that disconnects is not worth a line in the log."""


class _Handler(BaseHTTPRequestHandler):
    timeout = SLOWEST_REQUEST_SECONDS
    server: _Server

    def do_GET(self) -> None:
        answer = self.server.answer(self.path)
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    do_HEAD = do_GET  # noqa: N815  (the library's name)

    def version_string(self) -> str:
        return "desched"

    def log_message(self, *_: Any) -> None:
        """Nothing: probes and scrapes would flood the log."""
