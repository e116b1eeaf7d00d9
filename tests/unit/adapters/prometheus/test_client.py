"""What the client makes of a server's answers, over real HTTP."""

import gzip
import json
import socket
import time
import tracemalloc
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import quote

import pytest
from pydantic import SecretStr
from pytest_mock import MockerFixture
from urllib3 import HTTPResponse

from desched.adapters.prometheus import session
from desched.adapters.prometheus.client import PrometheusClient, Series
from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.session import PrometheusSession
from desched.errors import (
    AnswerTooLarge,
    AnswerTooSlow,
    ObservationError,
    ObservationSource,
)
from tests.unit.adapters.dripping_server import HEADS, LONGEST_SECONDS, dripping
from tests.unit.adapters.prometheus.fake_server import (
    EVALUATED_AT,
    Asked,
    FakePrometheus,
    Reply,
    refusal,
    vector,
)

pauses: list[float] = []


def pause(seconds: float) -> bool:
    """Takes no time; one of zero only asks whether to stop."""
    if seconds:
        pauses.append(seconds)
    return False


def client(fake: FakePrometheus, **settings: Any) -> PrometheusClient:
    pauses.clear()
    connection = PrometheusConnection(**({"url": fake.url} | settings))
    return PrometheusClient(connection, pause)


def failure(fake: FakePrometheus, **settings: Any) -> str:
    with pytest.raises(ObservationError) as raised:
        client(fake, **settings).query("up")
    assert raised.value.source is ObservationSource.PROMETHEUS
    return str(raised.value)


def test_an_instant_vector_becomes_series(fake: FakePrometheus) -> None:
    fake.replies(vector(({"node": "a"}, 0.5)))

    answer = client(fake).query("up")

    assert answer.series == (Series({"node": "a"}, 0.5, EVALUATED_AT),)
    assert fake.asked[0].path == "/api/v1/query"
    assert fake.asked[0].query == "up"


def test_a_url_with_a_path_such_as_the_service_proxy_is_kept(fake: FakePrometheus) -> None:
    path = "/api/v1/namespaces/mon/services/http:prom:80/proxy"

    client(fake, url=f"{fake.url}{path}/").query("up")

    assert fake.asked[0].path == f"{path}/api/v1/query"


def test_one_connection_serves_all_queries(fake: FakePrometheus) -> None:
    asking = client(fake)
    for _ in range(3):
        asking.query("up")

    assert len({asked.peer for asked in fake.asked}) == 1


def test_compressed_answers_are_read(fake: FakePrometheus) -> None:
    plain = vector(({}, 1.0))
    fake.replies(
        Reply(gzip.compress(plain.body), headers={**plain.headers, "Content-Encoding": "gzip"})
    )

    assert len(client(fake).query("up").series) == 1


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"bearer_token": SecretStr("t0ken\n")}, "Bearer t0ken"),
        ({"token_provider": lambda: "fresh"}, "Bearer fresh"),
        ({"username": "me", "password": SecretStr("pw")}, "Basic bWU6cHc="),
        ({}, None),
    ],
)
def test_credentials_are_sent(
    fake: FakePrometheus, settings: dict[str, Any], expected: str | None
) -> None:
    client(fake, headers={"X-Scope-OrgID": "team"}, **settings).query("up")

    assert fake.asked[0].headers.get("Authorization") == expected
    assert fake.asked[0].headers["X-Scope-OrgID"] == "team"


def test_a_user_in_the_url_is_sent_as_basic_credentials(fake: FakePrometheus) -> None:
    client(fake, url=fake.url.replace("//", "//me:pw@")).query("up")

    assert fake.asked[0].headers["Authorization"] == "Basic bWU6cHc="


def test_a_rotated_token_file_is_read_again(fake: FakePrometheus, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    asking = client(fake, bearer_token_file=token)
    asking.query("up")
    token.write_text("new\n")
    asking.query("up")

    assert [a.headers["Authorization"] for a in fake.asked] == ["Bearer old", "Bearer new"]


def test_a_token_file_that_is_gone_is_an_error(fake: FakePrometheus, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    asking = client(fake, bearer_token_file=token)
    token.unlink()

    with pytest.raises(ObservationError, match="cannot be read from"):
        asking.query("up")


@pytest.mark.parametrize("token", ["two\nlines", "tökén"])
def test_what_cannot_be_a_token_is_not_sent_and_not_printed(
    fake: FakePrometheus, token: str
) -> None:
    sentence = failure(fake, token_provider=lambda: token)

    assert "characters that no token can have" in sentence
    assert token not in sentence
    assert fake.asked == []


def test_an_empty_token_file_is_an_error(fake: FakePrometheus, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("\n")

    assert "is empty" in failure(fake, bearer_token_file=token)


def test_certificates_and_their_check_are_handed_to_the_transport(tmp_path: Path) -> None:
    ca, cert, key = (tmp_path / name for name in ("ca.pem", "cert.pem", "key.pem"))
    for path in (ca, cert, key):
        path.touch()
    secured = PrometheusConnection(
        url="https://prometheus.example", ca_file=ca, client_cert_file=cert, client_key_file=key
    )
    unchecked = PrometheusConnection(url="https://prometheus.example", insecure_skip_verify=True)

    with PrometheusSession(secured, lambda _: False, print) as strict:
        assert strict.verify == str(ca)
        assert strict.cert == (str(cert), str(key))
    with PrometheusSession(unchecked, lambda _: False, print) as lenient:
        assert lenient.verify is False


def test_a_certificate_file_that_is_gone_is_named(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.touch()
    connection = PrometheusConnection(url="https://127.0.0.1:1", ca_file=ca)
    ca.unlink()

    with pytest.raises(ObservationError, match=str(ca)):
        PrometheusClient(connection, lambda _: False).query("up")


def test_warnings_and_marks_of_partial_data_are_kept(fake: FakePrometheus) -> None:
    fake.replies(
        vector(
            warnings=["store-1 is down"],
            infos=["PromQL info: metric might not be a counter", "one shard missing"],
            isPartial=True,
        )
    )

    assert client(fake).query("up").warnings == (
        "store-1 is down",
        "one shard missing",
        "the answer is marked as partial",
    )


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        (
            Reply(b"\nBad Request. The request is malformed.\nmore", 400),
            "HTTP 400.*: Bad Request. The request is malformed[.][.]$",
        ),
        (Reply(b"<html>none</html>", 404), "HTTP 404.; correct its path[.]$"),
        (refusal(403, message="services is forbidden"), "HTTP 403.*: services is forbidden"),
        (refusal(404), "HTTP 404.; correct its path"),
        (refusal(400, error="1:5: parse error"), "check metrics.queries: 1:5: parse error"),
        (refusal(200, error="query timed out"), "error instead of data: query timed out"),
        (
            Reply(b"<html>Sign in</html>", headers={"Content-Type": "text/html"}),
            "something other than query results .text/html., perhaps a login page",
        ),
        (Reply(b'{"status": "success", "data": {"resul'), "something other than query results"),
        (Reply(b'["no", "object"]'), "something other than query results"),
        (Reply(b'{"status": "success"}'), "error instead of data"),
        (
            Reply(b'{"status":"success","data":{"resultType":"matrix","result":[]}}'),
            "answered with a matrix; a query must return an instant vector",
        ),
        (
            Reply(b'{"status":"success","data":{"resultType":"vector","result":[7]}}'),
            "samples that are not understood",
        ),
        (
            Reply(
                b'{"status":"success","data":{"resultType":"vector",'
                b'"result":[{"metric":{},"value":[1e300,"1"]}]}}'
            ),
            "samples that are not understood",
        ),
        (
            Reply(
                b'{"status":"success","data":{"resultType":"vector",'
                b'"result":[{"metric":{},"value":[NaN,"1"]}]}}'
            ),
            "something other than query results",
        ),
        (
            Reply(b'{"status":"success","data":{"result":' + b"[" * 100_000),
            "something other than query results",
        ),
    ],
)
def test_the_error_of_an_answer_without_data_names_what_to_check(
    fake: FakePrometheus, reply: Reply, sentence: str
) -> None:
    fake.replies(reply)

    with pytest.raises(ObservationError, match=sentence) as raised:
        client(fake).query("up")

    assert str(raised.value).startswith(f"Prometheus at {fake.url} ")
    assert len(fake.asked) == 1


SECRET = "s3cr3t/pass+word=="  # noqa: S105  (what must not show up anywhere)


@pytest.mark.parametrize(
    "settings",
    [
        {"bearer_token": SecretStr(SECRET)},
        {"username": "me", "password": SecretStr(SECRET)},
        {"headers": {"X-Api-Key": SECRET}},
        {"headers": {"Cookie": f"session={SECRET}"}},
    ],
)
def test_what_a_server_repeats_of_the_credentials_is_not_passed_on(
    fake: FakePrometheus, settings: dict[str, Any]
) -> None:
    def echo(status: int) -> Callable[[Asked], Reply]:
        def answer(asked: Asked) -> Reply:
            sent = " ".join(asked.headers.values())
            words = f"who is {sent} or {SECRET} or {quote(SECRET, safe='')}?"
            kind = {"Content-Type": f"text/html; {sent}"}
            if status == 204:
                return Reply(b"", 200, kind)
            return Reply(json.dumps({"status": "error", "error": words}).encode(), status, kind)

        return answer

    encoded = b64encode(SECRET.encode()).decode()
    for status in (200, 204, 400, 401, 500):
        fake.answer = echo(status)
        sentence = failure(fake, **settings)
        assert "***" in sentence
        for form in (
            SECRET,
            quote(SECRET, safe=""),
            encoded,
            b64encode(b"me:" + SECRET.encode()).decode(),
        ):
            assert form not in sentence, sentence


def test_warnings_do_not_repeat_the_credentials(fake: FakePrometheus) -> None:
    fake.replies(vector(warnings=[f"store of {SECRET} is down"]))

    warnings = client(fake, bearer_token=SecretStr(SECRET)).query("up").warnings
    assert warnings == ("store of *** is down",)


def test_redirects_do_not_take_credentials_elsewhere(fake: FakePrometheus) -> None:
    with FakePrometheus() as elsewhere:
        fake.replies(Reply(b"", 307, {"Location": f"{elsewhere.url}/api/v1/query"}))

        assert "redirects elsewhere" in failure(fake, bearer_token=SecretStr("x"))
        assert elsewhere.asked == []


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_passing_failure_is_asked_again(fake: FakePrometheus, status: int) -> None:
    fake.replies(refusal(status), refusal(status), vector(({}, 1.0)))

    assert len(client(fake).query("up").series) == 1
    assert pauses == [0.5, 1.0]


def test_a_lasting_failure_is_given_up(fake: FakePrometheus) -> None:
    unavailable = refusal(503, error="starting up")
    fake.replies(unavailable._replace(headers={"Retry-After": "3600", **unavailable.headers}))

    assert failure(fake).endswith("failed (HTTP 503), after retries too: starting up.")
    assert len(fake.asked) == 4
    assert pauses == [0.5, 1.0, 2.0]


def drip(body: bytes) -> Iterator[bytes]:
    """A body that comes in bytes so slowly that it never ends."""
    pause = Event()
    for byte in repeat(body[:1]):
        pause.wait(0.02)
        yield byte


STALL_SECONDS = 30.0


def stall() -> Iterator[bytes]:
    yield b"{"
    Event().wait(STALL_SECONDS)


@pytest.mark.parametrize("chunks", [drip(b" "), stall()])
def test_a_slow_answer_ends_at_the_deadline(fake: FakePrometheus, chunks: Iterator[bytes]) -> None:
    fake.replies(Reply(b"", chunks=chunks))
    began = time.monotonic()

    assert "sent no complete answer within 1 s" in failure(fake, total_timeout_seconds=1)
    assert time.monotonic() - began < STALL_SECONDS / 2
    assert len(fake.asked) == 1


@pytest.mark.parametrize("endless", HEADS)
@pytest.mark.parametrize("proxied", [False, True])
def test_an_answer_that_never_has_its_head_or_its_size_ends_at_the_deadline(
    endless: str, monkeypatch: pytest.MonkeyPatch, *, proxied: bool
) -> None:
    began = time.monotonic()
    with dripping(HEADS[endless]) as server:
        url = server
        if proxied:
            monkeypatch.setenv("HTTP_PROXY", server)
            monkeypatch.delenv("NO_PROXY", raising=False)
            monkeypatch.delenv("no_proxy", raising=False)
            url = "http://prometheus.example"
        connection = PrometheusConnection(url=url, total_timeout_seconds=1)
        with pytest.raises(AnswerTooSlow, match="sent no complete answer within 1 s"):
            PrometheusClient(connection, pause).query("up")
    assert time.monotonic() - began < LONGEST_SECONDS / 2


def test_a_small_answer_that_inflates_to_half_a_gigabyte_takes_little_memory(
    fake: FakePrometheus,
) -> None:
    """Gzip within gzip, of less than a kilobyte."""
    squeezed = zlib.compressobj(9, zlib.DEFLATED, 31)
    once = b"".join(squeezed.compress(bytes(2**20)) for _ in range(2**9)) + squeezed.flush()
    fake.replies(Reply(gzip.compress(once), headers={"Content-Encoding": "gzip, gzip"}))
    tracemalloc.start()
    try:
        assert "larger than 64 MiB" in failure(fake)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 4 * session.LONGEST_BODY_BYTES


def test_an_answer_that_breaks_off_is_asked_for_again(fake: FakePrometheus) -> None:
    broken = Reply(b"", headers={"Content-Length": "1000"}, chunks=[b'{"status"'])
    fake.replies(broken, vector(({}, 1.0)))

    assert len(client(fake).query("up").series) == 1


def test_an_answer_beyond_all_measure_is_not_taken_in(
    fake: FakePrometheus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "LONGEST_BODY_BYTES", 2**20)
    fake.replies(Reply(b"", chunks=repeat(b" " * 2**16)))

    assert "larger than 1 MiB" in failure(fake)


def test_a_connection_that_the_kernel_gives_up_is_asked_again(
    fake: FakePrometheus, mocker: MockerFixture
) -> None:
    """A TimeoutError long before the deadline, as after ETIMEDOUT."""
    original = HTTPResponse.read1
    failures = [TimeoutError()]

    def read1(response: HTTPResponse, *args: Any, **kwargs: Any) -> bytes:
        if failures:
            raise failures.pop()
        return original(response, *args, **kwargs)

    mocker.patch.object(HTTPResponse, "read1", autospec=True, side_effect=read1)

    client(fake).query("up")
    assert len(fake.asked) == 2


def test_a_server_without_tls_is_not_asked_again(fake: FakePrometheus) -> None:
    sentence = failure(fake, url=fake.url.replace("http:", "https:"))

    assert "write http:// in the URL" in sentence
    assert pauses == []


def test_an_address_without_a_server_cannot_be_reached(fake: FakePrometheus) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://me:s3cret@127.0.0.1:{unused.getsockname()[1]}"
        sentence = failure(fake, url=url)

    assert "cannot be reached; check the address" in sentence
    assert "s3cret" not in sentence


def test_the_error_of_an_in_cluster_name_has_the_way_to_reach_it(
    fake: FakePrometheus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_such_name(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", no_such_name)

    assert "port-forward service/prom 9090:80" in failure(fake, url="http://prom.mon.svc:80")


def test_a_query_too_long_for_a_url_is_refused_before_it_is_sent(fake: FakePrometheus) -> None:
    with pytest.raises(ObservationError, match="recording rule"):
        client(fake).query("up" + " or up" * 1000)
    assert fake.asked == []


def test_error_texts_of_others_are_cut_to_one_short_line(fake: FakePrometheus) -> None:
    fake.replies(refusal(422, error="too\nmany\x1b[31m samples " + "x" * 1000))

    assert "too many [31m samples xxx" in failure(fake)
    assert len(failure(fake)) < 400


def test_the_query_is_the_only_thing_sent(fake: FakePrometheus) -> None:
    fake.answer = lambda asked: vector(({"asked": asked.query}, 1.0))

    assert client(fake).query('a{b="ü & +"}').series[0].labels == {"asked": 'a{b="ü & +"}'}


def samples(fake: FakePrometheus, values: str) -> list[tuple[list[float], list[float]]]:
    result = f'[{{"metric": {{"pod": "a"}}, "values": {values}}}]'
    body = '{"status": "success", "data": {"resultType": "matrix", "result": ' + result + "}}"
    fake.replies(Reply(body.encode()))
    series = client(fake).query_samples("up", 1000, 1600, 300).series
    return [(each.times.tolist(), each.values.tolist()) for each in series]


def test_samples_of_a_range_are_numbers(fake: FakePrometheus) -> None:
    text = '[[1000, "0.5"], [1300.5,"-1e-5"],\n [1600, "+Inf"]]'
    assert samples(fake, text) == [([1000, 1300.5, 1600], [0.5, -1e-5, float("inf")])]
    assert fake.asked[0].path == "/api/v1/query_range"
    assert list(fake.asked[0].times) == [1000, 1300, 1600]


def test_a_series_may_have_no_samples(fake: FakePrometheus) -> None:
    assert samples(fake, "[]") == [([], [])]


@pytest.mark.parametrize(
    "values",
    ['[[1, "x"]]', "[[1]]", '[[1, "2", 3]]', '[[1, ""]]', '[{"a": 1}]', "[[1,,2]]", "null"],
)
def test_samples_that_are_no_pairs_of_numbers_are_an_error(
    fake: FakePrometheus, values: str
) -> None:
    with pytest.raises(ObservationError, match=r"not understood|other than query results"):
        samples(fake, values)


def test_samples_of_a_native_histogram_are_none(fake: FakePrometheus) -> None:
    body = '{"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {}}]}}'
    fake.replies(Reply(body.encode()))
    (series,) = client(fake).query_samples("up", 1000, 1600, 300).series
    assert series.values.tolist() == []


@pytest.mark.parametrize("status", [413, 422])
def test_a_query_that_asks_for_too_much_is_told_apart(fake: FakePrometheus, status: int) -> None:
    fake.replies(refusal(status, error="exceeded the limit"))
    with pytest.raises(AnswerTooLarge, match="exceeded the limit"):
        client(fake).query_samples("up", 1000, 1600, 300)
