"""A WebSocket to the API server, with the account and the deadline of any other request."""

from ssl import CERT_NONE
from typing import Any, Self

from kubernetes.client import Configuration
from kubernetes.stream.ws_client import websocket_proxycare
from websocket import (
    ABNF,
    WebSocket,
    WebSocketBadStatusException,
    WebSocketConnectionClosedException,
    WebSocketException,
)

from desched.adapters.bounded_http import Deadline
from desched.adapters.kubernetes.client.answers import Answer
from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.errors import ObservationError, ObservationSource

_SHORTEST_SECONDS = 0.001


class Messages:
    """An open WebSocket. Each method raises ObservationError after the deadline."""

    def __init__(self, socket: WebSocket, deadline: Deadline) -> None:
        self._socket = socket
        self._deadline = deadline

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown()  # type: ignore[no-untyped-call]  # library

    def send(self, message: bytes) -> None:
        """Send a binary message."""
        try:
            self._socket.settimeout(_left_seconds(self._deadline))
            self._socket.send_binary(message)
        except (WebSocketException, OSError) as error:
            raise _broken(error) from error

    def receive(self) -> bytes | None:
        """The next binary message, None after the last one."""
        while True:
            try:
                self._socket.settimeout(_left_seconds(self._deadline))
                kind, message = self._socket.recv_data()
            except WebSocketConnectionClosedException:
                return None
            except (WebSocketException, OSError) as error:
                raise _broken(error) from error
            if kind == ABNF.OPCODE_CLOSE:
                return None
            if kind == ABNF.OPCODE_BINARY:
                return bytes(message)


def open_websocket(
    connection: KubernetesConnection, path: str, protocol: str, deadline: Deadline
) -> Messages | Answer:
    """The WebSocket at a path, or the answer of an API server that refuses it.

    Raises:
        ObservationError: the API server does not answer in time.
    """
    configuration = connection.account.configuration
    url = f"ws{configuration.host.removeprefix('http')}{path}"
    authorization = connection.authorization()
    options: dict[str, Any] = {
        "header": [f"Authorization: {authorization}"] if authorization else [],
        "subprotocols": [protocol],
        "timeout": _left_seconds(deadline),
        "redirect_limit": 0,  # a redirect would take the credentials along
        "suppress_origin": True,
    }
    socket = WebSocket(sslopt=_tls(configuration))
    try:
        options = websocket_proxycare(options, configuration, url, {})  # type: ignore[no-untyped-call]  # library
        socket.connect(url, **options)  # type: ignore[no-untyped-call]  # library
    except WebSocketBadStatusException as error:
        return Answer(error.status_code, error.resp_body or b"")
    except (WebSocketException, OSError) as error:
        raise _broken(error) from error
    return Messages(socket, deadline)


def _tls(configuration: Configuration) -> dict[str, Any]:
    options = {
        "ca_certs": configuration.ssl_ca_cert,
        "certfile": configuration.cert_file,
        "keyfile": configuration.key_file,
        "server_hostname": configuration.tls_server_name,
        "check_hostname": configuration.assert_hostname,
        "cert_reqs": None if configuration.verify_ssl else CERT_NONE,
    }
    return {name: value for name, value in options.items() if value is not None}


def _left_seconds(deadline: Deadline) -> float:
    return max(deadline.left_seconds, _SHORTEST_SECONDS)


def _broken(error: Exception) -> ObservationError:
    return ObservationError(
        ObservationSource.CLUSTER,
        f"The API server did not pass on a port completely ({type(error).__name__}); check with "
        "`kubectl port-forward` whether it does.",
    )
