"""What pods answer on a forwarded port, and what the API server answers in their place."""

from datetime import UTC, datetime
from threading import Event

import pytest

from desched.adapters.kubernetes import forwarded_port
from desched.adapters.kubernetes.forwarded_port import ForwardedPort
from desched.errors import AnswerTooLarge, ConfigurationError, ObservationError
from tests.unit.adapters.kubernetes.fake_api_server import (
    FakeApiServer,
    Reply,
    Request,
    connection_to,
    status,
)

FORWARD = "/api/v1/namespaces/lab/pods/one/portforward"


def port(server: FakeApiServer) -> ForwardedPort:
    return ForwardedPort(connection_to(server), "lab", "desched", 10280, deadline_seconds=60)


def test_the_answer_is_that_of_the_pod(server: FakeApiServer) -> None:
    asked = []

    def answer(request: Request) -> Reply:
        asked.append(request)
        return Reply(404, {"problem": "x" * 100_000})

    server.run("lab/desched", one=answer)
    found = port(server).get("/explain", {"kind": "node", "name": "a b"})

    assert (found.status, found.body) == (404, b'{"problem": "' + b"x" * 100_000 + b'"}')
    assert found.date == datetime(1970, 1, 1, tzinfo=UTC)
    (request,) = asked
    assert (request.path, request.query) == ("/explain", {"kind": "node", "name": "a b"})
    service, pods, forward = server.requests
    assert pods.query["labelSelector"] == "app=desched"
    assert (forward.path, forward.query) == (FORWARD, {"ports": "10280"})
    assert forward.headers["Authorization"] == "Bearer secret-token"
    assert service.path == "/api/v1/namespaces/lab/services/desched"


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [(200, 200, 200), (503, 404, 404), (404, 503, 404), (503, 200, 200)],
)
def test_each_pod_is_asked_until_one_knows(
    server: FakeApiServer, first: int, second: int, expected: int
) -> None:
    server.run("lab/desched", one=lambda _: Reply(first), two=lambda _: Reply(second))
    assert port(server).get("/explain", {}).status == expected
    assert len(server.requests) == 2 + (1 if first == 200 else 2)


def test_a_pod_where_nothing_listens_is_no_answer(server: FakeApiServer) -> None:
    server.run("lab/desched", one=lambda _: "connection refused", two=lambda _: Reply(503))
    assert port(server).get("/explain", {}).status == 503
    server.run("lab/desched", one=lambda _: "connection\nrefused")
    why = "lab/desched cannot be asked: port 10280 of pod one is not reached: .*refused"
    with pytest.raises(ObservationError, match=why) as caught:
        port(server).get("/explain", {})
    assert "\n" not in str(caught.value)


def test_a_service_that_does_not_exist_is_the_callers_mistake(server: FakeApiServer) -> None:
    server.answer = lambda _: status(404, 'services "desched" not found')
    with pytest.raises(ConfigurationError, match=r'lab/desched .* services "desched" not found'):
        port(server).get("/explain", {})


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/services/", 403),
        ("/pods", 403),
        ("/portforward", 403),
        ("/portforward", 404),
        ("/pods", 503),
    ],
)
def test_a_refusal_of_the_api_server_is_told_from_an_answer(
    server: FakeApiServer, path: str, code: int
) -> None:
    server.run("lab/desched", one=lambda _: Reply())
    server.answer = lambda request: status(code, "it may not") if path in request.path else None
    with pytest.raises(ObservationError, match="lab/desched cannot be asked: it may not"):
        port(server).get("/explain", {})


def test_a_service_without_running_pods_is_named(server: FakeApiServer) -> None:
    server.run("lab/desched")
    with pytest.raises(ObservationError, match="it has no running pod"):
        port(server).get("/explain", {})


def test_an_answer_that_breaks_off_is_none(server: FakeApiServer) -> None:
    server.run("lab/desched", one=lambda _: Reply(body=b"half", cut_off=True))
    with pytest.raises(ObservationError, match="its answer broke off"):
        port(server).get("/explain", {})


def test_an_answer_without_end_is_too_large(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarded_port, "LONGEST_BODY_BYTES", 2**20)
    server.run("lab/desched", one=lambda _: Reply(body=b"x" * 2**21))
    with pytest.raises(AnswerTooLarge, match="larger than 1 MiB"):
        port(server).get("/explain", {})


def test_a_pod_that_never_answers_is_waited_for_until_the_deadline(server: FakeApiServer) -> None:
    ended = Event()

    def silent(_: Request) -> Reply:
        ended.wait(120)
        return Reply()

    server.run("lab/desched", one=silent)
    short = ForwardedPort(connection_to(server), "lab", "desched", 10280, deadline_seconds=3.0)
    with pytest.raises(
        ObservationError, match=r"did not pass on a port completely \(WebSocketTime"
    ):
        short.get("/explain", {})
    ended.set()
