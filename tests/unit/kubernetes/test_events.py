"""Events say what happened, fit the API's limits, and never get in the way."""

import pytest
import structlog

from desched.adapters.kubernetes.events import LONGEST_NOTE_BYTES, EventWriter
from desched.model.cluster import PodRef
from desched.model.plan import PlannedEviction
from tests.unit.kubernetes import manifests
from tests.unit.kubernetes.fake_api_server import (
    FakeApiServer,
    Reply,
    Request,
    connection_to,
    status,
)
from tests.unit.kubernetes.test_evictor import StoppedClock

EVICTION = PlannedEviction(
    pod=PodRef("shop", "web-1", "uid-1"),
    node="te3",
    workload="Deployment shop/web",
    workload_uid="uid-web",
    priority=0,
    cpu_millicores=500.0,
    memory_bytes=0.0,
    relief=(),
    expected_node="te5",
    places=1,
    reason="cpu 87 % above 80 %",
)
EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"


def accepting(request: Request) -> Reply:
    if request.method == "GET":
        return Reply(body={"metadata": manifests.metadata("desched-0", "ops")})
    return Reply(201, {})


def writer_of(server: FakeApiServer) -> EventWriter:
    server.answer = accepting
    return EventWriter(connection_to(server), StoppedClock(), "desched-0")


def test_an_eviction_is_told_on_the_pod_and_on_its_node(server: FakeApiServer) -> None:
    writer_of(server).announce(EVICTION, "Evicted because te3 is hot")

    assert server.paths() == [EVENTS.format("shop"), EVENTS.format("default")]
    on_pod, on_node = (request.body for request in server.requests)
    assert on_pod == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"generateName": "web-1-", "namespace": "shop"},
        "eventTime": "2026-01-10T08:00:00.000000Z",
        "type": "Normal",
        "reason": "Descheduled",
        "action": "Eviction",
        "note": "Evicted because te3 is hot",
        "reportingController": "desched",
        "reportingInstance": "desched-0",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "shop",
            "name": "web-1",
            "uid": "uid-1",
        },
    }
    assert on_node["regarding"] == {
        "apiVersion": "v1",
        "kind": "Node",
        "name": "te3",
        "uid": "te3",
    }
    assert on_node["metadata"]["namespace"] == "default"


@pytest.mark.parametrize("letter", ["x", "é", "节", "🔥"])
@pytest.mark.parametrize("length", [250, 341, 342, 1024, 1025, 5000])
def test_a_note_fits_the_limit_in_bytes(server: FakeApiServer, letter: str, length: int) -> None:
    note = letter * length
    writer_of(server).announce(EVICTION, note)

    sent = server.requests[0].body["note"]
    assert len(sent.encode()) <= LONGEST_NOTE_BYTES
    assert sent == note if len(note.encode()) <= LONGEST_NOTE_BYTES else sent.endswith("…")
    assert note.startswith(sent.rstrip("…"))


@pytest.mark.parametrize(
    "reply", [status(403, "no"), status(422, "bad"), Reply(500), Reply(201, {}, cut_off=True)]
)
def test_an_event_that_cannot_be_written_is_logged_and_forgotten(
    server: FakeApiServer, reply: Reply
) -> None:
    writer = writer_of(server)
    server.answer = lambda _: reply

    with structlog.testing.capture_logs() as logs:
        writer.announce(EVICTION, "note")

    assert [(entry["event"], entry["log_level"], entry["kind"]) for entry in logs] == [
        ("event.not_written", "warning", "Pod"),
        ("event.not_written", "warning", "Node"),
    ]


def test_a_warning_on_desched_itself_names_its_own_pod(server: FakeApiServer) -> None:
    writer_of(server).warn_on_self("desched-0", "ops", "PolicyRefused", "line 3: no such key")

    event = server.requests[-1].body
    assert (event["type"], event["reason"], event["note"]) == (
        "Warning",
        "PolicyRefused",
        "line 3: no such key",
    )
    assert event["regarding"]["uid"] == "uid-desched-0"
    assert server.requests[-1].path == EVENTS.format("ops")


def test_a_warning_is_written_even_if_its_own_pod_cannot_be_read(server: FakeApiServer) -> None:
    writer = writer_of(server)
    server.answer = lambda request: (
        status(404, "not found") if request.method == "GET" else Reply(201, {})
    )
    writer.warn_on_self("desched-0", "ops", "PolicyRefused", "line 3")

    assert server.requests[-1].body["regarding"]["uid"] == ""
