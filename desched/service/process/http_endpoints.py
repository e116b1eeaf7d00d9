"""HTTP listeners for probes and Prometheus, and for people, that strangers cannot block.

Each has one thread, which answers one request after another: many clients at once take no more of
the processor from planning than one does.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from email.utils import formatdate
from http import HTTPStatus
from threading import Lock, Thread
from typing import NamedTuple
from urllib.parse import parse_qsl

import structlog
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from desched.errors import ConfigurationError
from desched.service.process.health import Health

_log = structlog.get_logger(__name__)

MOST_CONNECTIONS = 64
MOST_PARAMETERS = 10
SLOWEST_REQUEST_SECONDS = 10.0
"""For a whole request, from the connection to the last byte of the answer."""

LONGEST_HEAD_BYTES = 2**13
METRICS_KEPT_SECONDS = 1.0
_RECEIVED_BYTES = 2**12
_SENT_BYTES = 2**16
"""What the kernel holds of an answer that nobody reads; beyond, all connections share one copy."""

_BACKLOG = 128
_PAUSE_SECONDS = 0.1
_LONGEST_END_SECONDS = 5.0
_HIGHEST_PORT = 65_535
_END_OF_HEAD = b"\r\n\r\n"
TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
HTML = "text/html; charset=utf-8"


class ListenAddress(NamedTuple):
    """The address to listen on; an empty host means all addresses, IPv4 and IPv6."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine, or this pod, reaches it."""
        return self.host in {"localhost", "::1"} or self.host.startswith("127.")


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


def listen_address(text: str, flag: str = "--listen-address") -> ListenAddress:
    """The address from `host:port`, `:port` or `[ipv6]:port`; `flag` is where it was given.

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
            f'{flag}: "{text}" is not of the form host:port, '
            "such as :10258 for all addresses or 127.0.0.1:10258 for this machine only."
        )
    return ListenAddress(host.strip("[]"), int(port))


def probe_answers(
    health: Health, exposition: Callable[[], bytes], monotonic: Callable[[], float]
) -> Answers:
    """What is answered to the kubelet and to Prometheus; `exposition` is the text of /metrics."""

    def metrics(_: Query) -> Answer:
        return Answer(HTTPStatus.OK, CONTENT_TYPE_LATEST, exposition())

    return {
        "/healthz": lambda _: _probe(health.why_not_alive()),
        "/readyz": lambda _: _probe(health.why_not_ready()),
        **kept({"/metrics": metrics}, METRICS_KEPT_SECONDS, monotonic),
    }


def _probe(problem: str | None) -> Answer:
    status = HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK
    return Answer(status, TEXT, f"{problem or 'ok'}\n".encode())


def kept(answers: Answers, seconds: float, monotonic: Callable[[], float]) -> Answers:
    """The same answers, each made once and kept for some seconds, whatever the query."""
    return {path: _Kept(answer, seconds, monotonic).get for path, answer in answers.items()}


class _Kept:
    def __init__(
        self, make: Callable[[Query], Answer], seconds: float, monotonic: Callable[[], float]
    ) -> None:
        self._make = make
        self._seconds = seconds
        self._monotonic = monotonic
        self._answer: Answer | None = None
        self._until = 0.0
        self._one_at_a_time = Lock()  # two listeners may have it

    def get(self, query: Query) -> Answer:
        with self._one_at_a_time:
            if self._answer is None or self._monotonic() >= self._until:
                self._answer = self._make(query)
                self._until = self._monotonic() + self._seconds
            return self._answer


@contextmanager
def serve(
    address: ListenAddress, answers: Answers, flag: str = "--listen-address", hint: str = ""
) -> Iterator[ListenAddress]:
    """Serve the address during the context; yields it with the bound port.

    `flag` is where the address was given, `hint` a sentence for who asks for another path.

    Raises:
        ConfigurationError: the address cannot be bound.
    """
    try:
        listening = _listening(address)
    except OSError as error:
        raise ConfigurationError(
            f"Cannot listen on {address.host}:{address.port} ({error.strerror or error}); choose "
            f"another address or port with {flag}, or stop the process that listens there."
        ) from error
    with listening:
        listener = _Listener(listening, answers, hint)
        thread = Thread(target=listener.run, name="endpoints", daemon=True)
        thread.start()
        try:
            yield ListenAddress(address.host, listening.getsockname()[1])
        finally:
            listener.end()
            thread.join(_LONGEST_END_SECONDS)  # an answer in the making may take longer


def _listening(address: ListenAddress) -> socket.socket:
    every_address = not address.host and socket.has_dualstack_ipv6()
    listening = socket.create_server(
        ("::" if every_address else address.host, address.port),
        family=socket.AF_INET6 if every_address or ":" in address.host else socket.AF_INET,
        backlog=_BACKLOG,
        dualstack_ipv6=every_address,
    )
    # Connections inherit both.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SENT_BYTES)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listening.settimeout(0)
    return listening


class _Listener:
    """Takes every connection; if there are too many, one of the host with the most of them goes.

    A probe or a scrape, which is complete within milliseconds, so gets its answer however many
    connections others hold open.
    """

    def __init__(self, listening: socket.socket, answers: Answers, hint: str) -> None:
        self._listening = listening
        self._answers = answers
        self._hint = hint
        self._open: dict[asyncio.Task[None], str] = {}  # with its host, the oldest first
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()

    def run(self) -> None:
        """Serve until the end."""
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    def end(self) -> None:
        """Close all connections soon; another thread may call it."""
        self._loop.call_soon_threadsafe(self._ended.set)

    async def _serve(self) -> None:
        self._listen()
        await self._ended.wait()
        self._loop.remove_reader(self._listening)

    def _listen(self) -> None:
        self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        try:
            connection, peer = self._listening.accept()
        except OSError:  # it is gone already, or the process has too many open files
            self._loop.remove_reader(self._listening)
            self._loop.call_later(_PAUSE_SECONDS, self._listen)
            return
        connection.settimeout(0)
        self._admit(connection, peer[0])

    def _admit(self, connection: socket.socket, host: str) -> None:
        if len(self._open) >= MOST_CONNECTIONS:
            ((crowd, _),) = Counter(self._open.values()).most_common(1)
            oldest = next(task for task, host in self._open.items() if host == crowd)
            del self._open[oldest]
            oldest.cancel()
        task = self._loop.create_task(self._converse(connection))
        self._open[task] = host

        def ended(task: asyncio.Task[None]) -> None:
            self._open.pop(task, None)
            connection.close()

        task.add_done_callback(ended)

    async def _converse(self, connection: socket.socket) -> None:
        with suppress(OSError):  # a client that is slow or disconnects is not worth a line
            async with asyncio.timeout(SLOWEST_REQUEST_SECONDS):
                head = await self._head(connection)
                for part in self._response(head):
                    await self._loop.sock_sendall(connection, part)

    async def _head(self, connection: socket.socket) -> bytes:
        """The request line and the headers; what follows is not read."""
        head = bytearray()
        while _END_OF_HEAD not in head[-_RECEIVED_BYTES - len(_END_OF_HEAD) :]:
            received = await self._loop.sock_recv(connection, _RECEIVED_BYTES)
            head += received
            if not received or len(head) > LONGEST_HEAD_BYTES:
                raise ConnectionError
        return bytes(head)

    def _response(self, head: bytes) -> Iterator[bytes]:
        line = head.partition(b"\r\n")[0].decode("latin-1")
        method, _, rest = line.partition(" ")
        answer = self._answer(rest.partition(" ")[0])
        if method not in {"GET", "HEAD"}:
            answer = Answer(HTTPStatus.NOT_IMPLEMENTED, TEXT, b"only GET and HEAD\n")
        headers = {
            "Server": "desched",
            "Date": formatdate(usegmt=True),
            "Content-Type": answer.content_type,
            "Content-Length": str(len(answer.body)),
            "X-Content-Type-Options": "nosniff",
            "Connection": "close",
            **answer.headers,
        }
        fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        status = f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
        yield f"{status}{fields}\r\n".encode("latin-1")
        if method != "HEAD":
            yield answer.body

    def _answer(self, target: str) -> Answer:
        path, _, query = target.partition("?")
        if path in self._answers:
            try:
                return self._answers[path](dict(parse_qsl(query)[:MOST_PARAMETERS]))
            except Exception:  # noqa: BLE001  (who asks gets an answer, and the others theirs)
                meaning = "this is a bug in desched; please report it"
                _log.exception("endpoint.crashed", path=path, meaning=meaning)
                body = b"desched has a bug here; its log has endpoint.crashed with the details\n"
                return Answer(HTTPStatus.INTERNAL_SERVER_ERROR, TEXT, body)
        text = f"there are {', '.join(self._answers)}\n{self._hint}"
        return Answer(HTTPStatus.NOT_FOUND, TEXT, text.encode())
