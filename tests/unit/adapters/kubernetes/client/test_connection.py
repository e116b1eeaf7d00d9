"""Requests end in time, are repeated only where that may help, and tell no secrets."""

import gzip
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from time import monotonic

import pytest

from desched.adapters import bounded_http
from desched.adapters.kubernetes.client import connection as connection_module
from desched.adapters.kubernetes.client import stream as stream_module
from desched.adapters.kubernetes.client.answers import Answer
from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.adapters.kubernetes.client.kubeconfig import ClusterAccount
from desched.adapters.kubernetes.client.stream import LineStream, StreamSilent
from desched.errors import AnswerTooLarge, ConfigurationError, ObservationError
from tests.unit.adapters.dripping_server import HEADS, LONGEST_SECONDS, dripping
from tests.unit.adapters.kubernetes.fake_api_server import (
    FakeApiServer,
    Reply,
    account,
    connection_to,
    status,
)


def replies(*sequence: Reply):
    """Each in turn, the last one for ever."""
    left = list(sequence)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def test_an_answer_brings_status_body_and_the_token_was_sent(server: FakeApiServer) -> None:
    server.answer = replies(Reply(200, {"a": 1}))

    answer = connection_to(server).get("/api/v1/pods", {"limit": "5"})

    assert (answer.status, answer.body) == (200, b'{"a": 1}')
    assert server.requests[0].headers["Authorization"] == "Bearer secret-token"
    assert server.requests[0].query == {"limit": "5"}


def test_answers_may_come_compressed(server: FakeApiServer) -> None:
    compressed = gzip.compress(b'{"a": 1}')
    server.answer = replies(Reply(200, compressed, headers={"Content-Encoding": "gzip"}))

    answer = connection_to(server).get("/api/v1/pods")

    assert answer.body == b'{"a": 1}'
    assert server.requests[0].headers["Accept-Encoding"] == "gzip"


def test_a_small_answer_that_inflates_without_end_is_too_large(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "LONGEST_BODY_BYTES", 2**20)
    compressed = gzip.compress(bytes(2**24))
    server.answer = replies(Reply(200, compressed, headers={"Content-Encoding": "gzip"}))

    with pytest.raises(AnswerTooLarge):
        connection_to(server).get("/api/v1/pods")


def test_a_stream_has_the_lines_of_an_answer(server: FakeApiServer) -> None:
    server.answer = replies(Reply(body=b"", chunks=(b"a\nb", b"c\n")))

    stream = connection_to(server).stream("/api/v1/pods", {"watch": "true"}, silence_seconds=5.0)

    assert isinstance(stream, LineStream)
    assert list(stream) == [b"a", b"bc"]
    stream.release()


def test_a_stream_that_is_refused_is_asked_for_again_as_the_renewed_account(
    server: FakeApiServer,
) -> None:
    server.answer = replies(status(401, "expired"), Reply(200, b"a\n"))
    tokens = iter(("Bearer old", "Bearer new"))
    connection = KubernetesConnection(lambda: account(server.url, next(tokens)))

    stream = connection.stream("/api/v1/pods", {"watch": "true"}, silence_seconds=5.0)

    assert isinstance(stream, LineStream)
    stream.release()
    sent = [request.headers["Authorization"] for request in server.requests]
    assert sent == ["Bearer old", "Bearer new"]


def test_a_stream_that_is_refused_for_good_is_an_answer(server: FakeApiServer) -> None:
    server.answer = replies(status(403, "no"))

    answer = connection_to(server).stream("/api/v1/pods", {"watch": "true"}, silence_seconds=5.0)

    assert isinstance(answer, Answer)
    assert (answer.status, answer.explanation) == (403, "no")


def test_a_line_without_end_breaks_a_stream_off(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_module, "LONGEST_LINE_BYTES", 1000)
    server.answer = replies(Reply(200, b"x" * 2000))
    stream = connection_to(server).stream("/api/v1/pods", {"watch": "true"}, silence_seconds=5.0)
    assert isinstance(stream, LineStream)

    with pytest.raises(ObservationError, match="a line is too long"):
        list(stream)
    stream.release()


def recording(waited: list[float]) -> Callable[[float], bool]:
    """Pauses that take no time; one of zero only asks whether to stop."""

    def wait(seconds: float) -> bool:
        if seconds:
            waited.append(seconds)
        return False

    return wait


def test_a_retry_waits_for_as_long_as_retry_after(server: FakeApiServer) -> None:
    server.answer = replies(Reply(429, headers={"Retry-After": "7"}), Reply(200, {}))
    waited: list[float] = []

    answer = connection_to(server, recording(waited)).get("/x")

    assert answer.status == 200
    assert waited == [7.0]


@pytest.mark.parametrize("text", ["Wed, 21 Oct 2026 07:28:00 GMT", "-5", "nan", "", "1e9"])
def test_a_retry_after_that_is_no_number_of_seconds_is_not_followed(
    server: FakeApiServer, text: str
) -> None:
    server.answer = replies(Reply(429, headers={"Retry-After": text}), Reply(200, {}))
    waited: list[float] = []

    connection_to(server, recording(waited)).get("/x")

    assert waited == [connection_module.PAUSES_SECONDS[0]]


@pytest.mark.parametrize("code", [500, 502, 503, 504])
def test_a_server_error_is_tried_a_few_times_and_then_returned(
    server: FakeApiServer, code: int
) -> None:
    server.answer = replies(Reply(code))

    assert connection_to(server).get("/x").status == code
    assert len(server.requests) == 1 + len(connection_module.PAUSES_SECONDS)


@pytest.mark.parametrize("code", [302, 400, 403, 404, 410])
def test_an_answer_that_will_not_change_is_not_asked_for_again(
    server: FakeApiServer, code: int
) -> None:
    server.answer = replies(Reply(code, headers={"Location": "/elsewhere"}))

    assert connection_to(server).get("/x").status == code
    assert server.paths() == ["/x"]


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH"])
@pytest.mark.parametrize("code", [301, 302, 307, 308])
def test_no_redirect_takes_the_credentials_along(
    server: FakeApiServer, method: str, code: int
) -> None:
    with FakeApiServer() as elsewhere:
        server.answer = replies(Reply(code, headers={"Location": f"{elsewhere.url}/x"}))
        own = account(server.url)
        own.configuration.retries = 3  # with False urllib3 returns each redirect anyway
        connection = KubernetesConnection(lambda: own, lambda _: False)

        assert REQUESTS[method](connection).status == code
        assert elsewhere.requests == []
    assert server.paths() == ["/x"]


def test_one_tcp_connection_serves_all_requests(server: FakeApiServer) -> None:
    server.answer = replies(Reply(200, {"a": 1}), Reply(404, {}), Reply(200, chunks=(b"x",) * 3))
    connection = connection_to(server)
    for _ in range(3):
        connection.get("/x")

    assert len({request.peer for request in server.requests}) == 1


def test_a_retry_renews_credentials_too(server: FakeApiServer) -> None:
    server.answer = replies(Reply(503), status(401, "no"), Reply(200, {}))

    assert connection_to(server).get("/x").status == 200


def test_an_answer_that_breaks_off_is_asked_for_again(server: FakeApiServer) -> None:
    server.answer = replies(Reply(200, {}, cut_off=True), Reply(200, {"whole": True}))

    assert connection_to(server).get("/x").body == b'{"whole": true}'


def test_a_write_is_sent_once_whatever_comes_back(server: FakeApiServer) -> None:
    server.answer = replies(Reply(503))
    assert connection_to(server).post("/x", {"a": 1}).status == 503

    server.answer = replies(Reply(200, {}, cut_off=True))
    with pytest.raises(ObservationError, match="broke off"):
        connection_to(server).post("/x", {"a": 1})
    assert [request.body for request in server.requests] == [{"a": 1}, {"a": 1}]


def test_a_slow_drip_ends_at_the_deadline_although_every_read_is_quick(
    server: FakeApiServer,
) -> None:
    gate, sent = Event(), []

    def drip() -> None:
        sent.append(1)
        gate.wait(0.02)

    server.answer = replies(Reply(chunks=(b"x",) * 500, drip=drip))
    began = monotonic()

    with pytest.raises(ObservationError, match="the deadline passed"):
        connection_to(server).get("/x", deadline_seconds=0.3)

    assert monotonic() - began > 0.2
    assert len(sent) < 500
    gate.set()


@pytest.mark.parametrize("endless", HEADS)
def test_an_answer_that_never_has_its_head_or_its_size_ends_at_the_deadline(endless: str) -> None:
    began = monotonic()
    with dripping(HEADS[endless]) as url:
        connection = KubernetesConnection(lambda: account(url), lambda _: False)
        with pytest.raises(ObservationError, match="the deadline passed"):
            connection.get("/x", deadline_seconds=0.3)
    assert monotonic() - began < LONGEST_SECONDS / 2


def test_a_stream_whose_line_never_ends_is_silent() -> None:
    with dripping(HEADS["the size of a chunk"]) as url:
        connection = KubernetesConnection(lambda: account(url), lambda _: False)
        stream = connection.stream("/x", {}, silence_seconds=0.3)
        assert isinstance(stream, LineStream)
        with pytest.raises(StreamSilent):
            next(iter(stream))
        stream.release()


def test_a_stream_that_does_not_begin_ends_at_the_deadline(server: FakeApiServer) -> None:
    gate = Event()
    server.answer = lambda _: Reply(200, {} if gate.wait(60) else None)
    with pytest.raises(ObservationError, match="the deadline passed"):
        connection_to(server).stream("/x", {}, silence_seconds=60.0, deadline_seconds=0.3)
    gate.set()


def test_an_answer_without_end_is_given_up(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "LONGEST_BODY_BYTES", 1 << 20)
    server.answer = replies(Reply(chunks=(b"x" * (1 << 20),)))
    assert len(connection_to(server).get("/x").body) == 1 << 20

    server.requests.clear()
    server.answer = replies(Reply(chunks=(b"x" * (1 << 20), b"x")))

    with pytest.raises(ObservationError, match="larger than 1 MiB"):
        connection_to(server).get("/x")
    assert len(server.requests) == 1


def test_a_server_without_tls_is_not_asked_again(server: FakeApiServer) -> None:
    own = account(server.url.replace("http:", "https:"))
    waited: list[float] = []

    with pytest.raises(ObservationError, match="the TLS connection failed"):
        KubernetesConnection(lambda: own, recording(waited)).get("/x")
    assert waited == []


def test_the_error_of_a_refused_connection_names_what_to_check() -> None:
    with FakeApiServer() as server:
        gone = connection_to(server)

    with pytest.raises(ObservationError, match=r"GET /x completely.*kubectl get --raw /readyz"):
        gone.get("/x")


@pytest.mark.parametrize("code", [400, 401, 403, 422, 502])
def test_what_a_server_repeats_of_the_token_is_not_passed_on(
    server: FakeApiServer, code: int
) -> None:
    server.answer = lambda request: status(code, f"who is {request.headers['Authorization']}?")

    answer = connection_to(server).post("/x", {})
    assert b"who is ***?" in answer.body


def test_the_error_of_a_token_that_no_header_can_hold_hides_the_token() -> None:
    connection = KubernetesConnection(lambda: account("http://127.0.0.1:1", "Bearer secret\ntoken"))

    with pytest.raises(ObservationError, match="characters that no token can have") as caught:
        connection.get("/x")
    assert "secret" not in str(caught.value)


def test_no_error_contains_the_token(server: FakeApiServer) -> None:
    server.answer = replies(Reply(200, {}, cut_off=True))

    with pytest.raises(ObservationError) as caught:
        connection_to(server).post("/x", {})

    error: BaseException | None = caught.value
    while error is not None:
        assert "secret-token" not in f"{error} {error!r}"
        error = error.__cause__


WRITE = {"a": 1}
REQUESTS = {
    "GET": lambda connection: connection.get("/x"),
    "POST": lambda connection: connection.post("/x", WRITE),
    "PATCH": lambda connection: connection.patch("/x", WRITE),
}


@pytest.mark.parametrize("method", REQUESTS)
def test_credentials_are_read_again_when_they_are_no_longer_accepted(
    server: FakeApiServer, method: str
) -> None:
    tokens = iter(["Bearer old", "Bearer new"])
    server.answer = lambda request: (
        Reply(200, {}) if request.headers["Authorization"] == "Bearer new" else status(401, "no")
    )
    connection = KubernetesConnection(lambda: account(server.url, next(tokens)), lambda _: False)

    assert REQUESTS[method](connection).status == 200
    assert connection.token() == "new"
    assert [(r.method, r.body) for r in server.requests] == [
        (method, None if method == "GET" else WRITE)
    ] * 2


@pytest.mark.parametrize("method", REQUESTS)
def test_a_401_that_stays_is_returned_after_one_renewal(server: FakeApiServer, method: str) -> None:
    server.answer = replies(status(401, "no"))

    assert REQUESTS[method](connection_to(server)).status == 401
    assert len(server.requests) == 2


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_a_write_with_renewed_credentials_is_sent_once_too(
    server: FakeApiServer, method: str
) -> None:
    server.answer = replies(status(401, "no"), Reply(503), Reply(200, {}))

    assert REQUESTS[method](connection_to(server)).status == 503
    assert len(server.requests) == 2


def test_a_write_does_not_begin_again_when_renewing_took_all_of_its_time(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer = replies(status(401, "no"), Reply(200, {}))
    seconds = 0.0

    def find() -> ClusterAccount:
        nonlocal seconds
        seconds += 60
        return account(server.url)

    monkeypatch.setattr(bounded_http, "monotonic", lambda: seconds)
    connection = KubernetesConnection(find, lambda _: False)
    assert connection.post("/x", WRITE, deadline_seconds=30).status == 401
    assert len(server.requests) == 1


def test_credentials_that_cannot_be_renewed_skip_the_cycle_only(server: FakeApiServer) -> None:
    server.answer = replies(status(401, "no"))
    accounts = iter([account(server.url)])

    def find():
        for found in accounts:
            return found
        raise ConfigurationError("The credential plugin failed.")

    connection = KubernetesConnection(find, lambda _: False)
    with pytest.raises(ObservationError, match="The credential plugin failed"):
        connection.get("/x")


class Renewing:
    """Requests that are all refused, while the credentials are renewed for as long as it takes."""

    def __init__(self, server: FakeApiServer) -> None:
        server.answer = replies(status(401, "no"))
        self.renewals = 0
        self.begun, self.over = Event(), Event()
        found = iter([account(server.url)])

        def find() -> ClusterAccount:
            for each in found:
                return each
            self.renewals += 1
            self.begun.set()
            assert self.over.wait(60)
            raise ConfigurationError("The credential plugin hangs.")

        self.connection = KubernetesConnection(find, lambda _: False)

    def failure(self, seconds: float) -> str:
        with pytest.raises(ObservationError) as raised:
            self.connection.post("/x", WRITE, deadline_seconds=seconds)
        return str(raised.value)


def test_requests_do_not_wait_beyond_their_deadline_while_another_renews_credentials(
    server: FakeApiServer,
) -> None:
    renewing = Renewing(server)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(renewing.failure, 60)
        assert renewing.begun.wait(60)
        assert "another request is waiting for them" in renewing.failure(0.5)
        renewing.over.set()
        assert "The credential plugin hangs" in first.result()


def test_requests_that_wait_for_credentials_do_not_renew_them_once_more_after_a_failure(
    server: FakeApiServer,
) -> None:
    renewing = Renewing(server)
    with ThreadPoolExecutor() as pool:
        failures = [pool.submit(renewing.failure, 60) for _ in range(5)]
        while len(server.requests) < len(failures):
            assert not Event().wait(0.02)
        renewing.over.set()
        assert all("The credential plugin hangs" in each.result() for each in failures)
    assert renewing.renewals < len(failures)

    assert "The credential plugin hangs" in renewing.failure(60)  # a later one tries again


def test_the_librarys_hook_for_rotated_tokens_is_asked_before_each_request(
    server: FakeApiServer,
) -> None:
    server.answer = replies(Reply(200, {}))
    rotating = account(server.url)
    tokens = iter(["bearer one\n", "bearer two\n"])

    def rotate(configuration) -> None:
        configuration.api_key["BearerToken"] = next(tokens)

    rotating.configuration.refresh_api_key_hook = rotate  # type: ignore[assignment]  # untyped library
    connection = KubernetesConnection(lambda: rotating, lambda _: False)
    connection.get("/x")
    connection.get("/x")

    sent = [request.headers["Authorization"] for request in server.requests]
    assert sent == ["bearer one", "bearer two"]
