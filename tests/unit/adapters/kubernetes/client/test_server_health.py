"""Which requests show that the API server fails or is slow, and for how long they count."""

import pytest

from desched.adapters.kubernetes.client import server_health
from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.adapters.kubernetes.client.server_health import MOST_KEPT, RequestLog
from desched.errors import ObservationError
from desched.model.cluster import ServerHealth
from tests.unit.adapters.kubernetes.fake_api_server import (
    FakeApiServer,
    Reply,
    account,
    connection_to,
)

POD = "/api/v1/namespaces/apps/pods/web-1"


class Now:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.seconds = 10_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Now:
    clock = Now()
    monkeypatch.setattr(server_health, "monotonic", clock)
    return clock


def add(log: RequestLog, now: Now, took: float = 0.1, status: int | None = 200) -> None:
    log.add(POD, now.seconds - took, status, 100)


def test_without_requests_nothing_is_known() -> None:
    assert RequestLog().health() == ServerHealth()


@pytest.mark.parametrize(
    ("status", "failed"), [(200, 0), (404, 0), (409, 0), (429, 0), (500, 1), (503, 1), (None, 1)]
)
def test_a_request_fails_without_an_answer_or_with_5xx(
    status: int | None, failed: int, now: Now
) -> None:
    log = RequestLog()
    add(log, now, status=status)
    assert log.health() == ServerHealth(1, failed)


@pytest.mark.parametrize(
    ("url", "requests"),
    [
        ("/version", 1),
        ("/api/v1/nodes?limit=500", 1),
        ("/apis/apps/v1/deployments", 1),
        ("/apis/coordination.k8s.io/v1/namespaces/x/leases/y", 1),
        ("/apis/metrics.k8s.io/v1beta1/nodes", 0),  # an adapter answers it
        ("/apis/scheduling.volcano.sh/v1beta1/podgroups", 0),  # a webhook may convert these
    ],
)
def test_only_what_the_api_server_answers_by_itself_counts(url: str, requests: int) -> None:
    log = RequestLog()
    log.add(url, 0.0, 503)
    assert log.health() == ServerHealth(requests, requests)


def test_a_failure_counts_for_two_minutes(now: Now) -> None:
    log = RequestLog()
    add(log, now, status=503)
    now.seconds += 119
    assert log.health().failed == 1
    now.seconds += 2
    assert log.health() == ServerHealth()


def test_small_requests_show_how_long_it_takes_now_and_usually(now: Now) -> None:
    log = RequestLog()
    for _ in range(3):
        add(log, now, took=0.5)
    log.add("/api/v1/pods", now.seconds - 60, 200, 2**20)  # a list takes as long as it is large
    now.seconds += 400
    assert log.health() == ServerHealth(0, 0, None, 0.5)
    for _ in range(3):
        add(log, now, took=2.0)
    health = log.health()
    assert (health.latest_seconds, health.usual_seconds) == (2.0, 0.5)


def test_the_number_of_requests_that_are_kept_is_bounded(now: Now) -> None:
    log = RequestLog()
    for _ in range(MOST_KEPT + 10):
        add(log, now)
    assert log.health().requests == MOST_KEPT


def test_a_connection_counts_its_reads_with_all_attempts(server: FakeApiServer) -> None:
    left = [Reply(503), Reply(200, {})]
    server.answer = lambda _: left.pop(0) if len(left) > 1 else left[0]
    connection = connection_to(server)

    connection.get(POD)
    connection.post(POD, {})
    connection.stream("/api/v1/pods", {"watch": "true"}, silence_seconds=1.0)

    health = connection.reads.health()
    assert (health.requests, health.failed) == (3, 1)


def test_a_refused_stream_and_no_answer_at_all_are_failures(server: FakeApiServer) -> None:
    server.answer = lambda _: Reply(500)
    refused = connection_to(server)
    refused.stream("/api/v1/pods", {"watch": "true"}, silence_seconds=1.0)
    assert refused.reads.health() == ServerHealth(1, 1)

    away = KubernetesConnection(lambda: account("http://127.0.0.1:9"))  # nobody listens there
    with pytest.raises(ObservationError):
        away.stream("/api/v1/pods", {"watch": "true"}, silence_seconds=1.0)
    with pytest.raises(ObservationError):
        away.get(POD, deadline_seconds=0.1)
    assert away.reads.health() == ServerHealth(2, 2)
