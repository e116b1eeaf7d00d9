"""Events say what happened, fit the API's limits, and never get in the way."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Barrier

import msgspec
import pytest
import structlog

from desched.adapters.kubernetes.events import LONGEST_NOTE_BYTES, MOST_AT_ONCE, EventWriter
from desched.eviction.requests import MOST_UNANNOUNCED
from desched.model.cluster import PodRef
from desched.model.state import EvictionRecord, MoveResult
from desched.ports import Announcement
from tests.builders import certain, planned_eviction
from tests.unit.adapters.kubernetes import manifests
from tests.unit.adapters.kubernetes.fake_api_server import (
    FakeApiServer,
    Reply,
    Request,
    connection_to,
    status,
)
from tests.unit.adapters.kubernetes.test_evictor import StoppedClock

EVICTION = planned_eviction(PodRef("shop", "web-1", "uid-1"), "te3", "te5")
RECORD = EvictionRecord(
    pod=PodRef("shop", "web-1", "uid-1"),
    node="te3",
    workload_uid="uid-web",
    evicted_at=datetime(2026, 1, 10, 7, tzinfo=UTC),
    landing=certain("te5"),
    workload="Deployment shop/web",
    result=MoveResult.LANDED_AS_FORECAST,
)
PATIENCE_SECONDS = 20
EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"


def accepting(request: Request) -> Reply:
    if request.method == "GET":
        return Reply(body={"metadata": manifests.metadata("desched-0", "ops")})
    return Reply(201, {})


def always(reply: Reply) -> Callable[[Request], Reply]:
    return lambda _: reply


def announce(writer: EventWriter, note: str) -> None:
    writer.announce([Announcement(EVICTION, note, StoppedClock().now())])


def writer_of(server: FakeApiServer) -> EventWriter:
    server.answer = accepting
    return EventWriter(connection_to(server), StoppedClock(), PodRef("ops", "desched-0"))


def test_an_eviction_is_recorded_on_the_pod_and_on_its_node(server: FakeApiServer) -> None:
    announce(writer_of(server), "Evicted because te3 is hot")

    assert sorted(server.paths()) == [EVENTS.format("default"), EVENTS.format("shop")]
    on_node, on_pod = sorted(
        (r.body for r in server.requests), key=lambda it: it["regarding"]["kind"]
    )
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
    announce(writer_of(server), note)

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
        announce(writer, "note")
        announce(writer, "note")

    assert [(entry["event"], entry["log_level"], entry["kind"]) for entry in logs] == [
        ("event.not_written", "warning", "Pod"),
        ("event.not_written", "debug", "Node"),
        ("event.not_written", "debug", "Pod"),
        ("event.not_written", "debug", "Node"),
    ]


def test_after_an_event_that_is_written_the_next_failure_is_a_warning_again(
    server: FakeApiServer,
) -> None:
    writer = writer_of(server)

    with structlog.testing.capture_logs() as logs:
        for reply in (status(403, "events is forbidden"), Reply(201, {}), status(403, "again")):
            server.answer = always(reply)
            announce(writer, "note")

    assert [entry["error"] for entry in logs if entry["log_level"] == "warning"] == [
        "The API server answered 403: events is forbidden.",
        "The API server answered 403: again.",
    ]


def test_the_events_of_a_burst_of_evictions_are_written_side_by_side(server: FakeApiServer) -> None:
    writer = writer_of(server)
    together = Barrier(MOST_AT_ONCE)

    def accept(_: Request) -> Reply:
        together.wait(PATIENCE_SECONDS)
        return Reply(201, {})

    server.answer = accept
    now = StoppedClock().now()
    times = [now + timedelta(seconds=number) for number in range(MOST_UNANNOUNCED)]

    with structlog.testing.capture_logs() as logs:
        writer.announce([Announcement(EVICTION, "note", at) for at in times])

    assert logs == []
    seconds = sorted(request.body["eventTime"][17:19] for request in server.requests)
    assert seconds == ["00", "00", "01", "01", "02", "02", "03", "03", "04", "04"]


def test_a_warning_on_desched_itself_names_its_own_pod(server: FakeApiServer) -> None:
    writer_of(server).warn_on_self("PolicyRefused", "line 3: no such key")

    event = server.requests[-1].body
    assert (event["type"], event["reason"], event["note"]) == (
        "Warning",
        "PolicyRefused",
        "line 3: no such key",
    )
    assert event["regarding"]["uid"] == "uid-desched-0"
    assert server.requests[-1].path == EVENTS.format("ops")


def test_outside_a_pod_a_warning_on_desched_itself_is_not_written(server: FakeApiServer) -> None:
    assert EventWriter(connection_to(server), StoppedClock()).warn_on_self("Paused", "note")
    assert server.requests == []


def test_a_warning_is_written_even_if_its_own_pod_cannot_be_read(server: FakeApiServer) -> None:
    writer = writer_of(server)
    server.answer = lambda request: (
        status(404, "not found") if request.method == "GET" else Reply(201, {})
    )
    writer.warn_on_self("PolicyRefused", "line 3")

    assert server.requests[-1].body["regarding"]["uid"] == ""


def test_a_successful_move_is_recorded_on_its_workload_only(server: FakeApiServer) -> None:
    assert writer_of(server).settled(RECORD, "it landed")

    assert server.paths() == [EVENTS.format("shop")]
    event = server.requests[0].body
    assert (event["type"], event["reason"], event["action"], event["note"]) == (
        "Normal",
        "Moved",
        "FollowUp",
        "it landed",
    )
    assert event["regarding"] == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "namespace": "shop",
        "name": "web",
        "uid": "uid-web",
    }


def test_a_move_that_failed_warns_on_its_workload_and_its_node(server: FakeApiServer) -> None:
    failed = msgspec.structs.replace(RECORD, result=MoveResult.BACK_ON_SOURCE)
    assert writer_of(server).settled(failed, "it came back")

    assert server.paths() == [EVENTS.format("shop"), EVENTS.format("default")]
    assert {request.body["type"] for request in server.requests} == {"Warning"}
    assert {request.body["reason"] for request in server.requests} == {"MoveFailed"}
    assert server.requests[1].body["regarding"]["name"] == "te3"


@pytest.mark.parametrize(
    ("workload", "regarding"),
    [
        ("StatefulSet shop/db", {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"}),
        ("Job shop/load", {"apiVersion": "batch/v1", "kind": "Job", "name": "load"}),
        ("Rollout shop/web", {"apiVersion": "v1", "kind": "Pod", "name": "web-1"}),
        ("", {"apiVersion": "v1", "kind": "Pod", "name": "web-1"}),
    ],
)
def test_where_the_kind_of_the_workload_is_not_known_the_pod_is_named(
    server: FakeApiServer, workload: str, regarding: dict[str, str]
) -> None:
    writer_of(server).settled(msgspec.structs.replace(RECORD, workload=workload), "note")

    assert regarding.items() <= server.requests[0].body["regarding"].items()


def test_an_event_that_cannot_be_written_returns_false_and_no_other_is_tried(
    server: FakeApiServer,
) -> None:
    writer = writer_of(server)
    server.answer = lambda _: status(403, "no")
    failed = msgspec.structs.replace(RECORD, result=MoveResult.NEVER_CAME)

    assert not writer.settled(failed, "note")
    assert len(server.requests) == 1
    assert not writer.warn_on_self("Paused", "note", action="Pause")
    assert server.requests[-1].body["action"] == "Pause"
