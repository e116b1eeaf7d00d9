import contextlib
import http.client
import socket
from http import HTTPStatus

import pytest

from desched.errors import ConfigurationError
from desched.service.process.health import Health
from desched.service.process.http_endpoints import (
    JSON,
    MOST_REQUESTS_AT_ONCE,
    Answer,
    ListenAddress,
    listen_address,
    serve,
)
from desched.whatif.clock import VirtualClock

LOOPBACK = ListenAddress("127.0.0.1", 0)


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def health(clock):
    return Health(clock.monotonic, 600)


@pytest.fixture
def port(health):
    with serve(LOOPBACK, health, lambda: b"desched_build_info 1\n") as bound:
        yield bound.port


def ask(port, path, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    with contextlib.closing(connection):
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read().decode()


def test_healthz_names_what_is_stuck(port, health, clock):
    assert ask(port, "/healthz") == (200, "ok\n")
    health.cycle_began()
    clock.advance(601)
    status, body = ask(port, "/healthz")
    assert status == 503
    assert "the current cycle started 601 s ago" in body


def test_readyz_names_what_is_missing(port, health):
    status, body = ask(port, "/readyz")
    assert status == 503
    assert "no cycle has read the cluster" in body
    health.cycle_ended(observed=True)
    assert ask(port, "/readyz?verbose") == (200, "ok\n")


def test_metrics_are_served(port):
    assert ask(port, "/metrics") == (200, "desched_build_info 1\n")


def test_other_answers_are_served_with_their_headers(health):
    headers = {"Cache-Control": "no-store"}
    answer = Answer(HTTPStatus.OK, JSON, b'{"leading": true}', headers)
    with serve(LOOPBACK, health, bytes, {"/status": lambda _: answer}) as bound:
        connection = http.client.HTTPConnection("127.0.0.1", bound.port, timeout=120)
        with contextlib.closing(connection):
            connection.request("GET", "/status")
            response = connection.getresponse()
            assert response.getheader("Content-Type") == "application/json"
            assert response.getheader("X-Content-Type-Options") == "nosniff"
            assert response.getheader("Cache-Control") == "no-store"
            assert response.read() == b'{"leading": true}'


def test_without_a_status_there_is_no_such_path(port):
    assert ask(port, "/status") == (404, "there are /healthz, /readyz, /metrics\n")


def test_a_head_request_gets_no_body(port):
    assert ask(port, "/metrics", "HEAD") == (200, "")


def test_other_paths_are_not_found_and_other_methods_not_supported(port):
    assert ask(port, "/debug")[0] == 404
    assert ask(port, "/healthz", "POST")[0] == 501


def test_too_many_requests_at_once_are_turned_away_and_the_others_answered(port):
    with contextlib.ExitStack() as stack:
        for _ in range(MOST_REQUESTS_AT_ONCE):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=120))
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            ask(port, "/healthz")


def test_the_port_is_free_again_afterwards(health):
    with serve(LOOPBACK, health, bytes) as bound:
        pass
    with serve(ListenAddress("127.0.0.1", bound.port), health, bytes) as again:
        assert again.port == bound.port


def test_a_port_in_use_is_a_sentence_with_a_way_out(port, health):
    taken = ListenAddress("127.0.0.1", port)
    with (
        pytest.raises(ConfigurationError, match="choose another address or port"),
        serve(taken, health, bytes),
    ):
        pass


def test_an_empty_host_listens_on_every_address(health):
    with serve(ListenAddress("", 0), health, bytes) as bound:
        assert ask(bound.port, "/healthz")[0] == 200


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":10258", ("", 10258)),
        ("127.0.0.1:1", ("127.0.0.1", 1)),
        ("[::1]:80", ("::1", 80)),
        ("localhost:0", ("localhost", 0)),
    ],
)
def test_listen_addresses_are_host_and_port(text, address):
    assert listen_address(text) == address


@pytest.mark.parametrize("text", ["", "10258", "host:", "host:http", "::1:80", ":65536", ":-1"])
def test_what_is_no_listen_address_is_refused(text):
    with pytest.raises(ConfigurationError, match="is not of the form host:port"):
        listen_address(text)
