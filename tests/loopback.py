"""HTTP servers on loopback that stand for others, for as long as a test needs them."""

import ssl
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Self

_POLL_SECONDS = 0.02


class Handler(BaseHTTPRequestHandler):
    """Responds to every method alike, in whole bodies, and logs nothing."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # it would hold back each body until the headers are confirmed

    def respond(self) -> None:
        """Answer the request."""
        raise NotImplementedError

    def _respond(self) -> None:
        self.respond()

    do_GET = do_POST = do_PATCH = _respond  # noqa: N815  (the library's names)

    def body(self) -> bytes:
        """What the client has sent."""
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def reply(
        self, body: bytes, status: int = HTTPStatus.OK, content_type: str = "application/json"
    ) -> None:
        """Send a body."""
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Requests are no output of a test."""


class Server(ThreadingHTTPServer):
    """Answers while it is entered, and is closed then."""

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self._thread = Thread(target=self.serve_forever, args=(_POLL_SECONDS,), daemon=True)

    def use_tls(self, certificate: Path, key: Path) -> None:
        """Speak TLS from now on."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.socket = context.wrap_socket(self.socket, server_side=True)

    @property
    def url(self) -> str:
        """Without a path."""
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()
