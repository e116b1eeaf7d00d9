"""An API server on loopback that answers as a test tells it to."""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha1
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kubernetes.client import Configuration

from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.adapters.kubernetes.client.kubeconfig import ClusterAccount
from tests.loopback import Handler, Server


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


class FakeApiServer(Server):
    """Replies come from `answer`, else from the lists; all requests are kept.

    `date` is what each of them has in its header, the present time if it is None.
    """

    def __init__(self) -> None:
        self.date: str | None = None
        self.requests: list[Request] = []
        self.lists: dict[str, list[dict[str, Any]]] = {}
        self.services: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, Callable[[Request], Reply | str]] = {}
        self.answer: Callable[[Request], Reply | None] = lambda _: None
        super().__init__(_Handler)

    def reply_to(self, request: Request) -> Reply:
        self.requests.append(request)
        return self.answer(request) or self._listed(request)

    def _listed(self, request: Request) -> Reply:
        if request.path == "/version":
            return Reply(body={"gitVersion": "v1.36.3"})
        if request.path in self.services:
            return Reply(body=self.services[request.path])
        return Reply(body={"metadata": {}, "items": self.lists.get(request.path)})

    def run(self, service: str, **pods: Callable[[Request], Reply | str]) -> None:
        """Let pods of a Service `NAMESPACE/NAME` run, which answer when their port is forwarded.

        A text in place of a reply is why nothing listens there.
        """
        namespace, _, name = service.partition("/")
        self.pods = {
            f"/api/v1/namespaces/{namespace}/pods/{pod}/portforward": answer
            for pod, answer in pods.items()
        }
        self.services[f"/api/v1/namespaces/{namespace}/services/{name}"] = {
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"selector": {"app": name}},
        }
        self.lists[f"/api/v1/namespaces/{namespace}/pods"] = [
            {"metadata": {"name": pod, "namespace": namespace}} for pod in pods
        ]

    def paths(self) -> list[str]:
        return [request.path for request in self.requests]


class _Handler(Handler):
    server: FakeApiServer

    def date_time_string(self, timestamp: float | None = None) -> str:
        now = super().date_time_string(timestamp)
        return now if self.server.date is None else self.server.date

    def respond(self) -> None:
        parts = urlsplit(self.path)
        body = self.body()
        request = Request(
            self.command,
            parts.path,
            {key: values[0] for key, values in parse_qs(parts.query).items()},
            dict(self.headers.items()),
            json.loads(body) if body else None,
            self.client_address,
        )
        with suppress(ConnectionError):  # the client gave up: that is what is tested
            reply = self.server.reply_to(request)
            if request.path in self.server.pods and reply.status == HTTPStatus.OK:
                self._forward(request, self.server.pods[request.path])
            else:
                self._send(reply)

    def _forward(self, asked: Request, answer: Callable[[Request], Reply | str]) -> None:
        """One request over a WebSocket, as a kubelet passes it on (v4.channel.k8s.io)."""
        key = asked.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(HTTPStatus.SWITCHING_PROTOCOLS)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        accepted = sha1(key.encode(), usedforsecurity=False).digest()
        self.send_header("Sec-WebSocket-Accept", b64encode(accepted).decode())
        self.send_header("Sec-WebSocket-Protocol", asked.headers["Sec-WebSocket-Protocol"])
        self.end_headers()
        port = int(asked.query["ports"]).to_bytes(2, "little")
        self._send_frame(b"\x00" + port)
        self._send_frame(b"\x01" + port)
        line = self._received_frame().removeprefix(b"\x00").partition(b"\r\n")[0].decode()
        method, target, _ = line.split(" ")
        parts = urlsplit(target)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        reply = answer(Request(method, parts.path, query, {}, None))
        if isinstance(reply, str):
            self._send_frame(b"\x01" + reply.encode())
        else:
            body = reply.encoded()
            length = len(body) + 10 * reply.cut_off
            head = f"HTTP/1.1 {reply.status} S\r\nDate: {self.date_time_string(0)}\r\n"
            self._send_frame(f"\x00{head}Content-Length: {length}\r\n\r\n".encode())
            self._send_frame(b"\x00" + body)
        if not (isinstance(reply, Reply) and reply.cut_off):
            self.rfile.read(1)  # a kubelet does not end it by itself at once
        self.close_connection = True

    def _send_frame(self, content: bytes) -> None:
        self.wfile.write(b"\x82\x7f" + len(content).to_bytes(8, "big") + content)

    def _received_frame(self) -> bytes:
        _, size = self.rfile.read(2)
        size &= 0x7F
        if size == 0x7E:
            size = int.from_bytes(self.rfile.read(2), "big")
        mask = self.rfile.read(4)
        return bytes(each ^ mask[at % 4] for at, each in enumerate(self.rfile.read(size)))

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
