"""An API server on loopback that answers as a test tells it to."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from kubernetes.client import Configuration

from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.adapters.kubernetes.client.kubeconfig import ClusterAccount


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any
    peer: tuple[str, int] = ("", 0)


@dataclass(frozen=True)
class Reply:
    status: int = 200
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)
    chunks: tuple[bytes, ...] = ()
    drip: Callable[[], object] | None = None
    cut_off: bool = False

    def encoded(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


def status(code: int, message: str, *, causes: list[dict[str, str]] | None = None) -> Reply:
    """The server's own form of saying no."""
    details = {"causes": causes} if causes is not None else {}
    return Reply(
        code,
        {"kind": "Status", "status": "Failure", "message": message, "details": details},
    )


def api_groups(*names: str) -> Reply:
    """The server's own list of its API groups."""
    return Reply(body={"kind": "APIGroupList", "groups": [{"name": name} for name in names]})


NO_SUCH_PATH = Reply(404, b"404 page not found\n")
"""How a server answers that lacks the whole API group, and many a proxy."""


class FakeApiServer:
    """Replies come from `answer`, else from the lists; all requests are kept.

    `date` is what each of them has in its header, the present time if it is None.
    """

    def __init__(self) -> None:
        self.date: str | None = None
        self.requests: list[Request] = []
        self.lists: dict[str, list[dict[str, Any]]] = {}
        self.answer: Callable[[Request], Reply | None] = lambda _: None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, self))
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def reply_to(self, request: Request) -> Reply:
        self.requests.append(request)
        return self.answer(request) or self._listed(request)

    def _listed(self, request: Request) -> Reply:
        if request.path == "/version":
            return Reply(body={"gitVersion": "v1.36.3"})
        return Reply(body={"metadata": {}, "items": self.lists.get(request.path)})

    def paths(self) -> list[str]:
        return [request.path for request in self.requests]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # it would hold back each body until the headers are confirmed

    def __init__(self, fake: FakeApiServer, *arguments: Any) -> None:
        self._fake = fake
        super().__init__(*arguments)

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PATCH(self) -> None:
        self._serve()

    def log_message(self, *_: object) -> None:
        """Keeps the tests quiet."""

    def date_time_string(self, timestamp: float | None = None) -> str:
        now = super().date_time_string(timestamp)
        return now if self._fake.date is None else self._fake.date

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request = Request(
            self.command,
            parts.path,
            {key: values[0] for key, values in parse_qs(parts.query).items()},
            dict(self.headers.items()),
            json.loads(body) if body else None,
            self.client_address,
        )
        with suppress(ConnectionError):  # the client gave up: that is what is tested
            self._send(self._fake.reply_to(request))

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", "application/json")
        for name, value in reply.headers.items():
            self.send_header(name, value)
        content = b"".join(reply.chunks) or reply.encoded()
        self.send_header("Content-Length", str(len(content) + 10 * reply.cut_off))
        self.end_headers()
        for chunk in reply.chunks or (content,):
            self.wfile.write(chunk)
            if reply.drip is not None:
                reply.drip()
        if reply.cut_off:
            self.close_connection = True


def account(url: str, authorization: str = "Bearer secret-token") -> ClusterAccount:
    configuration = Configuration()
    configuration.host = url
    configuration.retries = False
    configuration.api_key["BearerToken"] = authorization
    return ClusterAccount(configuration, f"fake ({url})", in_cluster=False, namespace="default")


def connection_to(
    server: FakeApiServer, wait: Callable[[float], bool] = lambda _: False
) -> KubernetesConnection:
    """A connection that does not really wait between attempts."""
    return KubernetesConnection(lambda: account(server.url), wait)
