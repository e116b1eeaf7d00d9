from unittest.mock import create_autospec

import msgspec
import pytest

from desched.adapters.kubernetes.events import EventWriter
from desched.model.plan import HoldReason
from desched.model.report import Mode, NotActing
from desched.model.state import LastCycle, MoveResult, Pause, PauseScope, State
from desched.service.telemetry.kubernetes_events import EventPublisher, move_note
from tests.unit.service.example_reports import (
    BACK,
    FOLLOWED_UP,
    HOUR,
    LANDED,
    POOL_PAUSE,
    REPORT,
    STARTED_AT,
    record,
)


@pytest.fixture
def writer():
    return create_autospec(EventWriter, instance=True)


@pytest.fixture
def publisher(writer):
    return EventPublisher(writer)


def moves(writer):
    return [call.args[0].pod.name for call in writer.settled.call_args_list]


def pauses(writer):
    return [call.args for call in writer.warn_on_self.call_args_list]


def paused(*pauses):
    return msgspec.structs.replace(REPORT, state=State(pauses=pauses))


def settled(*records):
    return msgspec.structs.replace(REPORT, settled=records)


def test_each_settled_move_is_published_once_failures_first(publisher, writer):
    publisher.publish(FOLLOWED_UP)
    publisher.publish(REPORT)
    assert moves(writer) == ["web-2", "web-1"]


def test_a_move_that_is_judged_again_is_not_published_again(publisher, writer):
    publisher.publish(settled(LANDED))
    publisher.publish(settled(LANDED, BACK))
    assert moves(writer) == ["web-1", "web-2"]


def test_inconclusive_results_are_not_published(publisher, writer):
    publisher.publish(settled(record("web-4", MoveResult.NOT_WANTED)))
    assert moves(writer) == []


@pytest.mark.parametrize("fields", [{"mode": Mode.DRY_RUN}, {"not_acting": NotActing.NOT_LEADING}])
def test_only_the_acting_replica_publishes(publisher, writer, fields):
    publisher.publish(msgspec.structs.replace(FOLLOWED_UP, **fields))
    assert moves(writer) == []
    assert pauses(writer) == []


def test_an_automatic_pause_is_published_once_on_its_own_pod(publisher, writer):
    publisher.publish(REPORT)
    publisher.publish(paused(POOL_PAUSE))
    publisher.publish(paused(POOL_PAUSE))
    assert pauses(writer) == [
        (
            "Paused",
            "Pool gpu is paused until 2026-03-04 13:00 UTC: moves of 2 workloads failed within 1h.",
        )
    ]


def test_a_renewed_pause_is_published_again(publisher, writer):
    publisher.publish(paused(POOL_PAUSE))
    renewed = msgspec.structs.replace(POOL_PAUSE, until=STARTED_AT + 2 * HOUR, level=1)
    publisher.publish(paused(renewed))
    assert len(pauses(writer)) == 2


def test_a_pause_from_before_the_start_or_by_a_person_is_not_published(publisher, writer):
    before = msgspec.structs.replace(POOL_PAUSE, since=STARTED_AT - HOUR)
    person = Pause(PauseScope.EVERYTHING, STARTED_AT, None, by="alice")
    publisher.publish(paused(before, person))
    assert pauses(writer) == []


def test_after_an_event_that_could_not_be_written_no_other_is_tried(publisher, writer):
    writer.settled.return_value = False
    publisher.publish(FOLLOWED_UP)
    assert moves(writer) == ["web-2"]


def test_a_note_is_one_sentence_with_the_names_in_it():
    assert move_note(BACK) == (
        "Evicted web-2 from te3 at 11:00 UTC: its replacement is on the node that it left "
        "(web-12 on te3)."
    )
    assert move_note(record("web-4", MoveResult.STILL_PENDING)) == (
        "Evicted web-4 from te3 at 11:00 UTC: no node accepted its replacement in time."
    )
    broken = record("web-4", MoveResult.NOT_READY, landed_on="te5", waiting_for="CrashLoopBackOff")
    assert move_note(broken).endswith(" (it on te5, CrashLoopBackOff).")


@pytest.mark.parametrize("result", MoveResult)
def test_there_is_a_note_for_each_result(result):
    note = move_note(record("web-4", result, landed_on="te5"))
    assert note.count(".") == 1
    assert note.endswith(" (it on te5).")


def held(reason, since):
    last = LastCycle(STARTED_AT, "desched-0", "evict", "held", hold=reason.value, held_since=since)
    plan = msgspec.structs.replace(REPORT.plan, hold=reason, hold_detail="3 of 20 nodes")
    return msgspec.structs.replace(REPORT, plan=plan, state=State(last_cycle=last))


def test_an_incident_is_published_when_it_begins(publisher, writer):
    publisher.publish(held(HoldReason.CLUSTER_IN_TROUBLE, STARTED_AT))
    publisher.publish(held(HoldReason.CLUSTER_IN_TROUBLE, STARTED_AT - HOUR))
    publisher.publish(held(HoldReason.CLUSTER_SATURATED, STARTED_AT))
    assert pauses(writer) == [
        ("ClusterInTrouble", "Evicts nothing until it is over: 3 of 20 nodes.")
    ]
