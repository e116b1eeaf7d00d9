"""A proxy before a real server, which does to requests what networks and servers do at times.

`with FaultProxy(url) as proxy:` passes everything on; `with proxy.faulty(fault, …):` lets a fault
strike the requests of a method and path meanwhile. Faults are in `faults.py`; a further one is a
function of the `Exchange`.
"""

import re
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Self
from urllib.parse import urlsplit

import urllib3

from tests.controlplane.cluster import ControlPlane

UPSTREAM_SECONDS = 60.0
_STREAM_BYTES = 2**16
_POLL_SECONDS = 0.1
_ABORT = struct.pack("ii", 1, 0)  # SO_LINGER: a close then sends RST
_OF_ONE_HOP = {
    *("connection", "content-length", "host", "keep-alive", "transfer-encoding"),
    "accept-encoding",  # so that answers come as text, which faults can edit
}


class Request(NamedTuple):
    """What the client asked; the path is with its query."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Answer(NamedTuple):
    """A complete answer."""

    status: int
    headers: Mapping[str, str] = {}
    body: bytes = b""


@dataclass
class Seen:
    """A request as the proxy saw it, and what the client got.

    `at_seconds` is of the monotonic clock, `fault` empty where it was passed on, and `status` None
    as long as no answer has begun. `body` is what the client sent.
    """

    method: str
    path: str
    at_seconds: float
    body: bytes
    fault: str = ""
    status: int | None = None


class _OverError(Exception):
    """The client or the test has gone, or the connection was reset."""


class Exchange:
    """One request at the proxy, and what a fault can do about it."""

    def __init__(self, proxy: "FaultProxy", handler: "_Handler", request: Request) -> None:
        self.request = request
        self.proxy = proxy
        self._handler = handler

    @property
    def connection(self) -> socket.socket:
        """To the client."""
        found: socket.socket = self._handler.connection
        return found

    def forwarded(self, request: Request | None = None) -> Answer:
        """What the real server answers, to another request if one is given.

        From then on a write has taken effect.
        """
        return self.proxy.ask(request or self.request)

    def pass_on(self) -> None:
        """Answer as the real server does."""
        if "watch=true" in self.request.path:
            self.proxy.pass_on(self)
        else:
            self.reply(self.forwarded())

    def reply(self, answer: Answer) -> None:
        """Answer completely."""
        self.begin(answer)
        self.send(answer.body)

    def begin(self, answer: Answer, *, lasts: bool = False) -> None:
        """Send the head of an answer, which promises all of its body, or chunks if it lasts."""
        self._handler.begin(answer, lasts=lasts)

    def send(self, part: bytes) -> None:
        """Send a part of the body."""
        self._handler.wfile.write(part)
        self._handler.wfile.flush()

    def reset(self) -> NoReturn:
        """End the connection as a crash does."""
        self._handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
        raise _OverError

    def hold(self, seconds: float) -> None:
        """Let the client wait; ends the exchange if it gives up, or when the proxy closes."""
        until = time.monotonic() + seconds
        ends = select.poll()  # unlike select.select for any number of open files
        ends.register(self._handler.connection, select.POLLIN)
        while (left := until - time.monotonic()) > 0:
            # Who waits for an answer sends nothing but the end of the connection.
            if ends.poll(1000 * min(left, _POLL_SECONDS)) or self.proxy.closed:
                raise _OverError


class Fault(NamedTuple):
    """Something that goes wrong, by its name in the tables of faults.md."""

    name: str
    act: Callable[[Exchange], None]


def _refused(exchange: Exchange) -> None:
    exchange.reset()  # was connected before the listener closed


REFUSED = Fault("connection refused", _refused)
"""Nobody listens; it strikes all requests, whatever their method and path."""


class ActiveFault:
    """A fault that strikes requests until it is removed; `struck` are those so far."""

    def __init__(self, fault: Fault, method: str, path: str, times: int | None) -> None:
        self.fault = fault
        self.struck: list[Seen] = []
        self._method = re.compile(method)
        self._path = re.compile(path)
        self._times = times

    def concerns(self, request: Seen) -> bool:
        """Whether it would strike this request."""
        left = self._times is None or len(self.struck) < self._times
        return bool(
            left and self._method.fullmatch(request.method) and self._path.match(request.path)
        )


class FaultProxy:
    """Passes requests on from a port of its own, one connection of a client in a thread each.

    `certificate` and `key` are those of a server that speaks TLS: the proxy trusts and shows the
    same, so that clients trust the proxy. `url` is where it listens. `requests` are those so far;
    `connections` counts the accepted ones, and `most_open` those at a time.
    """

    def __init__(
        self, upstream_url: str, certificate: Path | None = None, key: Path | None = None
    ) -> None:
        parts = urlsplit(upstream_url)
        self._upstream = f"{parts.scheme}://{parts.netloc}"
        self._tls: ssl.SSLContext | None = None
        if certificate is not None:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(certificate, key)
        self._http = urllib3.PoolManager(
            maxsize=32,
            ca_certs=None if certificate is None else str(certificate),
            retries=False,
            timeout=UPSTREAM_SECONDS,
        )
        self.requests: list[Seen] = []
        self.connections = self.most_open = 0
        self.closed = False
        self._lock = threading.RLock()
        self._active: tuple[ActiveFault, ...] = ()
        self._open: set[socket.socket] = set()
        self._watches: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self._holder = _bound(0)  # keeps the port while nobody listens
        self._port = self._holder.getsockname()[1]
        self.url = f"{parts.scheme}://127.0.0.1:{self._port}"
        self._listen_or_not()

    @classmethod
    def before(cls, plane: ControlPlane) -> Self:
        """One before the API server."""
        return cls(plane.url, plane.ca_file, plane.key_file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.closed = True
            self._listen_or_not()
            self._holder.close()
        self._http.clear()

    # Faults

    @contextmanager
    def faulty(
        self, fault: Fault, method: str = ".*", path: str = "", times: int | None = None
    ) -> Iterator[ActiveFault]:
        """Let the fault strike meanwhile: see `inject`."""
        active = self.inject(fault, method, path, times)
        try:
            yield active
        finally:
            self.remove(active)

    def inject(
        self, fault: Fault, method: str = ".*", path: str = "", times: int | None = None
    ) -> ActiveFault:
        """Let the fault strike until it is removed, at most so many times.

        `method` is a regular expression for all of the method, `path` for the beginning of the path
        with its query. Of several faults for a request the one injected last strikes.
        """
        active = ActiveFault(fault, method, path, times)
        with self._lock:
            self._active = (active, *self._active)
            self._listen_or_not()
        return active

    def remove(self, *faults: ActiveFault) -> None:
        """End these faults, or all if none is named; requests that they hold stay held."""
        with self._lock:
            self._active = tuple(a for a in self._active if faults and a not in faults)
            self._listen_or_not()

    def strike(self, request: Seen) -> Fault | None:
        """Notes the request, and which fault strikes it."""
        with self._lock:
            self.requests.append(request)
            active = next((a for a in self._active if a.concerns(request)), None)
            if active is None:
                return None
            active.struck.append(request)
            request.fault = active.fault.name
            return active.fault

    def ask(self, request: Request) -> Answer:
        """What the real server answers."""
        try:
            response = self._http.request(
                request.method,
                self._upstream + request.path,
                body=request.body or None,
                headers=_end_to_end(request.headers),
                redirect=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            return Answer(502, {"Content-Type": "text/plain"}, type(error).__name__.encode())
        return Answer(response.status, _end_to_end(response.headers), response.data)

    def end_watches(self) -> None:
        """Break off all watches that are under way."""
        with self._lock:
            for connection in self._watches:
                _shut(connection)

    def pass_on(self, exchange: Exchange) -> None:
        """Pass on a watch as it comes; if the server breaks it off, so does the proxy."""
        with self._lock:
            self._watches.add(exchange.connection)
        try:
            self._pass_on(exchange)
        finally:
            with self._lock:
                self._watches.discard(exchange.connection)

    def _pass_on(self, exchange: Exchange) -> None:
        request = exchange.request
        try:
            response = self._http.request(
                request.method,
                self._upstream + request.path,
                headers=_end_to_end(request.headers),
                preload_content=False,
                timeout=urllib3.Timeout(connect=UPSTREAM_SECONDS, read=None),
            )
            exchange.begin(Answer(response.status, _end_to_end(response.headers)), lasts=True)
            while part := response.read1(_STREAM_BYTES):
                exchange.send(b"%x\r\n%b\r\n" % (len(part), part))
            exchange.send(b"0\r\n\r\n")
        except urllib3.exceptions.HTTPError:
            exchange.reset()

    # Connections

    def _listen_or_not(self) -> None:
        refuses = self.closed or any(a.fault is REFUSED for a in self._active)
        if refuses and self._listener is not None:
            _shut(self._listener)  # wakes the thread that accepts, which closes it
            self._listener = None
            for connection in self._open:
                _shut(connection)
        elif not refuses and self._listener is None:
            self._listener = _bound(self._port)
            self._listener.listen(128)
            threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        with listener:
            while True:
                try:
                    accepted, address = listener.accept()
                except OSError:  # nobody listens any more
                    return
                threading.Thread(target=self._serve, args=(accepted, address), daemon=True).start()

    def _serve(self, accepted: socket.socket, address: Any) -> None:
        with (
            suppress(OSError, _OverError),  # the client has gone, or so a fault wants it
            accepted,
            self._counted(self._secured(accepted)) as connection,
        ):
            if isinstance(connection, ssl.SSLSocket):
                connection.do_handshake()
            _Handler(connection, address, self)

    def _secured(self, accepted: socket.socket) -> socket.socket:
        if self._tls is None:
            return accepted
        return self._tls.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)

    @contextmanager
    def _counted(self, connection: socket.socket) -> Iterator[socket.socket]:
        """Knows the connection among the open ones meanwhile, and closes it."""
        with connection:
            with self._lock:
                self.connections += 1
                self._open.add(connection)
                self.most_open = max(self.most_open, sum(map(_is_held, self._open)))
                if self._listener is None:
                    _shut(connection)
            try:
                yield connection
            finally:
                with self._lock:
                    self._open.discard(connection)


class _Handler(BaseHTTPRequestHandler):
    """Serves one connection as long as it lasts."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, connection: socket.socket, address: Any, proxy: FaultProxy) -> None:
        self._proxy = proxy
        super().__init__(connection, address, proxy)  # type: ignore[arg-type]  # no server needed

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else b""
        request = Request(self.command, self.path, dict(self.headers.items()), body)
        self._seen = Seen(request.method, request.path, time.monotonic(), body)
        fault = self._proxy.strike(self._seen)
        exchange = Exchange(self._proxy, self, request)
        if fault is None:
            exchange.pass_on()
        else:
            fault.act(exchange)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815  (the library's names)

    def begin(self, answer: Answer, *, lasts: bool) -> None:
        """Send the head of an answer."""
        self._seen.status = answer.status
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if lasts:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


def _bound(port: int) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind(("127.0.0.1", port))
    return bound


def _is_held(connection: socket.socket) -> bool:
    """Whether its client has not closed it; the server's answer may come long after that."""
    try:
        seen = socket.socket.recv(connection, 1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return bool(seen)


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):  # its other end was faster
        socket.socket.shutdown(connection, socket.SHUT_RDWR)  # of TLS the transport, at once


def _end_to_end(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _OF_ONE_HOP}
