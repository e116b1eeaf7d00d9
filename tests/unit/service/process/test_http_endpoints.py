import contextlib
import http.client
import socket
from http import HTTPStatus
from threading import Event, Thread

import pytest
import structlog.testing

from desched.errors import ConfigurationError
from desched.lab.clock import VirtualClock
from desched.service.process import http_endpoints
from desched.service.process.health import Health
from desched.service.process.http_endpoints import (
    JSON,
    METRICS_KEPT_SECONDS,
    MOST_CONNECTIONS,
    TEXT,
    Answer,
    ListenAddress,
    kept,
    listen_address,
    probe_answers,
    serve,
)

LOOPBACK = ListenAddress("127.0.0.1", 0)
METRICS = b"desched_build_info 1\n" * 200_000
"""More than the kernel takes off desched's hands for a client that does not read."""

PATIENCE_SECONDS = 120
SLOW = {
    "headers": b"GET /metrics HTTP/1.1\r\nHost: d",
    "body": b"POST /healthz HTTP/1.1\r\nHost: d\r\nContent-Length: 999\r\n\r\n",
    "reading": b"GET /metrics HTTP/1.1\r\nHost: d\r\n\r\n",
}


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def health(clock):
    return Health(clock.monotonic, 600)


@pytest.fixture
def port(health, clock):
    with serve(LOOPBACK, probe_answers(health, lambda: METRICS, clock.monotonic)) as bound:
        yield bound.port


def ask(port, path, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    with contextlib.closing(connection):
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read().decode()


def connected(port, sent=b""):
    client = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
    client.sendall(sent)
    return client


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


def test_metrics_are_served_and_made_once_in_a_while(health, clock):
    made = iter((b"first\n", b"second\n"))
    answers = probe_answers(health, lambda: next(made), clock.monotonic)
    with serve(LOOPBACK, answers) as bound:
        assert [ask(bound.port, "/metrics")[1] for _ in range(3)] == ["first\n"] * 3
        clock.advance(METRICS_KEPT_SECONDS)
        assert ask(bound.port, "/metrics") == (200, "second\n")


def test_other_answers_are_served_with_their_headers():
    headers = {"Cache-Control": "no-store"}
    answer = Answer(HTTPStatus.OK, JSON, b'{"leading": true}', headers)
    with serve(LOOPBACK, {"/status": lambda _: answer}) as bound:
        connection = http.client.HTTPConnection("127.0.0.1", bound.port, timeout=PATIENCE_SECONDS)
        with contextlib.closing(connection):
            connection.request("GET", "/status")
            response = connection.getresponse()
            assert response.getheader("Content-Type") == "application/json"
            assert response.getheader("X-Content-Type-Options") == "nosniff"
            assert response.getheader("Cache-Control") == "no-store"
            assert response.headers["Date"].endswith(" GMT")
            assert response.read() == b'{"leading": true}'


def test_who_asks_for_another_path_learns_what_there_is(health):
    with serve(LOOPBACK, probe_answers(health, bytes, lambda: 0.0), hint="see there\n") as bound:
        found = ask(bound.port, "/status")
    assert found == (404, "there are /healthz, /readyz, /metrics\nsee there\n")


def test_a_head_request_gets_no_body(port):
    assert ask(port, "/metrics", "HEAD") == (200, "")


def test_other_methods_are_not_supported(port):
    assert ask(port, "/healthz", "POST")[0] == 501


@pytest.mark.parametrize("slow", SLOW)
def test_probes_and_metrics_are_answered_beside_many_slow_clients(port, slow):
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            for _ in range(MOST_CONNECTIONS):
                stack.enter_context(connected(port, SLOW[slow]))
            assert ask(port, "/healthz")[0] == 200
            assert ask(port, "/readyz")[0] == 503
            assert ask(port, "/metrics")[1].encode() == METRICS


def test_probes_are_answered_beside_slow_clients_that_come_again_at_once(health, clock):
    ended, came_again = Event(), Event()

    def occupy(port, sent):
        while not ended.is_set():
            with contextlib.suppress(OSError), connected(port, sent) as client:
                client.recv(1)  # until it is turned away
                came_again.set()

    with serve(LOOPBACK, probe_answers(health, lambda: METRICS, clock.monotonic)) as bound:
        clients = [
            Thread(target=occupy, args=(bound.port, sent))
            for sent in SLOW.values()
            for _ in "a" * 40
        ]
        for client in clients:
            client.start()
        try:
            assert came_again.wait(PATIENCE_SECONDS)
            assert [ask(bound.port, "/healthz") for _ in range(13)] == [(200, "ok\n")] * 13
            assert ask(bound.port, "/metrics")[1].encode() == METRICS
        finally:
            ended.set()
    for client in clients:
        client.join()


def test_the_host_with_the_most_connections_loses_its_oldest(port):
    with contextlib.ExitStack() as stack:
        alone = socket.create_connection(
            ("127.0.0.1", port), PATIENCE_SECONDS, source_address=("127.0.0.2", 0)
        )
        stack.enter_context(alone)
        crowd = [stack.enter_context(connected(port)) for _ in range(MOST_CONNECTIONS)]
        assert crowd[0].recv(1) == b""
        for client in (alone, crowd[1]):
            client.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
            assert client.recv(12) == b"HTTP/1.1 200"


def test_a_request_has_one_deadline_however_steadily_it_arrives(port, monkeypatch):
    monkeypatch.setattr(http_endpoints, "SLOWEST_REQUEST_SECONDS", 0.2)
    # What arrives just before the end of the connection resets it.
    with connected(port) as client, contextlib.suppress(ConnectionError):
        client.settimeout(0.01)
        for _ in range(http_endpoints.LONGEST_HEAD_BYTES):
            client.sendall(b"x")
            with contextlib.suppress(TimeoutError):
                assert client.recv(1) == b""
                break
        else:
            pytest.fail("It was never turned away.")


def test_an_answer_that_nobody_reads_has_the_same_deadline(port, monkeypatch):
    monkeypatch.setattr(http_endpoints, "SLOWEST_REQUEST_SECONDS", 0.2)
    with connected(port, SLOW["reading"]) as reader, connected(port) as later:
        assert later.recv(1) == b""  # began later, with the same deadline
        received = 0
        with contextlib.suppress(ConnectionError):
            while part := reader.recv(2**20):
                received += len(part)
    assert received < len(METRICS)


def test_a_request_without_end_is_turned_away(port):
    with connected(port, b"x" * http_endpoints.LONGEST_HEAD_BYTES) as client:
        client.sendall(b"x" * 100)
        with contextlib.suppress(ConnectionError):
            assert client.recv(1) == b""
    assert ask(port, "/healthz")[0] == 200


def test_many_clients_cost_one_page(clock):
    made = []

    def page(query):
        made.append(query)
        return Answer(HTTPStatus.OK, TEXT, b"page\n")

    with serve(LOOPBACK, kept({"/": page}, 5.0, clock.monotonic)) as bound:
        clients = [Thread(target=ask, args=(bound.port, f"/?{number}")) for number in range(16)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        assert len(made) == 1
        clock.advance(5.0)
        ask(bound.port, "/")
        assert len(made) == 2


def test_the_port_is_free_again_afterwards():
    with serve(LOOPBACK, {}) as bound, connected(bound.port):
        pass
    with serve(ListenAddress("127.0.0.1", bound.port), {}) as again:
        assert again.port == bound.port


def test_a_port_in_use_is_a_sentence_with_a_way_out(port):
    taken = ListenAddress("127.0.0.1", port)
    with (
        pytest.raises(ConfigurationError, match="another address or port with --there"),
        serve(taken, {}, "--there"),
    ):
        pass


def test_an_empty_host_listens_on_every_address(health):
    with serve(ListenAddress("", 0), probe_answers(health, bytes, lambda: 0.0)) as bound:
        assert ask(bound.port, "/healthz")[0] == 200


@pytest.mark.parametrize(
    ("text", "address", "is_loopback"),
    [
        (":10258", ("", 10258), False),
        ("127.0.0.1:1", ("127.0.0.1", 1), True),
        ("[::1]:80", ("::1", 80), True),
        ("localhost:0", ("localhost", 0), True),
        ("10.1.2.3:80", ("10.1.2.3", 80), False),
    ],
)
def test_listen_addresses_are_host_and_port(text, address, is_loopback):
    assert listen_address(text) == address
    assert listen_address(text).is_loopback == is_loopback


@pytest.mark.parametrize("text", ["", "10258", "host:", "host:http", "::1:80", ":65536", ":-1"])
def test_what_is_no_listen_address_is_refused(text):
    with pytest.raises(ConfigurationError, match="is not of the form host:port"):
        listen_address(text)


def test_an_answer_that_cannot_be_made_is_an_error_with_where_to_look():
    def broken(_):
        raise KeyError("node")

    with serve(
        LOOPBACK, {"/broken": broken, "/fine": lambda _: Answer(HTTPStatus.OK, TEXT, b"x")}
    ) as bound:
        with structlog.testing.capture_logs() as logs:
            status, text = ask(bound.port, "/broken")
        assert (status, "endpoint.crashed" in text) == (500, True)
        assert [(line["event"], line["path"]) for line in logs] == [("endpoint.crashed", "/broken")]
        assert ask(bound.port, "/fine") == (200, "x")
