"""What a Service answers, and what the API server answers in its place."""

import pytest

from desched.adapters.kubernetes.service_proxy import ServiceProxy
from desched.errors import ConfigurationError, ObservationError
from tests.unit.adapters.kubernetes.fake_api_server import (
    FakeApiServer,
    Reply,
    connection_to,
    status,
)


def proxy(server: FakeApiServer) -> ServiceProxy:
    return ServiceProxy(connection_to(server), "lab", "desched", 10258)


def test_the_answer_is_that_of_the_service(server: FakeApiServer) -> None:
    server.answer = lambda _: Reply(404, body={"problem": "There is no node a."})
    found = proxy(server).get("/explain", {"kind": "node", "name": "a"})
    assert (found.status, found.body) == (404, b'{"problem": "There is no node a."}')
    (request,) = server.requests
    assert request.path == "/api/v1/namespaces/lab/services/http:desched:10258/proxy/explain"
    assert request.query == {"kind": "node", "name": "a"}


def test_a_service_that_does_not_exist_is_the_callers_mistake(server: FakeApiServer) -> None:
    server.answer = lambda _: status(404, 'services "desched" not found')
    with pytest.raises(ConfigurationError, match=r'lab/desched .* services "desched" not found'):
        proxy(server).get("/explain", {})


@pytest.mark.parametrize(
    ("code", "why"),
    [(403, "cannot get resource services/proxy"), (503, "no endpoints available")],
)
def test_a_refusal_of_the_api_server_is_told_from_an_answer(
    server: FakeApiServer, code: int, why: str
) -> None:
    server.answer = lambda _: status(code, why)
    with pytest.raises(ObservationError, match=f"lab/desched cannot be asked: {why}"):
        proxy(server).get("/explain", {})
