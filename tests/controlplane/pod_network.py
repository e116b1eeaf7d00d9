"""The network between the API server and pods, which KWOK's pods do not have.

The API server reaches the pods of a Service as any program of Go does plain HTTP: by the proxy that
`HTTP_PROXY` names. Here that is a SOCKS proxy on loopback (RFC 1928), which leads to the servers
that stand for pods.
"""

import socket
import struct
import threading
from collections.abc import Mapping
from contextlib import suppress
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Self
from urllib.parse import urlsplit

_CHUNK_BYTES = 2**16
_POLL_SECONDS = 0.05
_VERSION, _NO_AUTHENTICATION, _IPV4 = 5, 0, 1
_CONNECTED, _UNREACHABLE = 0, 4


class PodNetwork:
    """While it is entered, leads to these servers, by the `ADDRESS:PORT` of their pods."""

    def __init__(self, port: int, servers: Mapping[str, str]) -> None:
        """`servers` are URLs on loopback."""
        self._server = _Proxy(("127.0.0.1", port), _Handler)
        self._server.servers = servers
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Proxy(ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False  # the API server keeps connections for its next question
    allow_reuse_address = True
    servers: Mapping[str, str]


class _Handler(StreamRequestHandler):
    server: _Proxy

    def handle(self) -> None:
        """Connect as the client asks, and pass bytes on until either side ends."""
        _, methods = self.rfile.read(2)
        self.rfile.read(methods)
        self.wfile.write(bytes([_VERSION, _NO_AUTHENTICATION]))
        *_, address, port = struct.unpack("!4B4sH", self.rfile.read(10))
        url = self.server.servers.get(f"{socket.inet_ntoa(address)}:{port}")
        self.wfile.write(bytes([_VERSION, _CONNECTED if url else _UNREACHABLE, 0, _IPV4, *[0] * 6]))
        if url is None:
            return
        parts = urlsplit(url)
        with socket.create_connection((parts.hostname, parts.port)) as pod:
            back = threading.Thread(target=_pass_on, args=(pod, self.connection), daemon=True)
            back.start()
            _pass_on(self.connection, pod)
            back.join()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):  # either side has gone
        while chunk := source.recv(_CHUNK_BYTES):
            sink.sendall(chunk)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
