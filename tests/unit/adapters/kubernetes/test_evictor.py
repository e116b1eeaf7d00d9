"""Each answer of the Eviction API, and what it means."""

from datetime import UTC, datetime
from threading import Event
from typing import Any

import pytest

from desched.adapters.kubernetes.events import EventWriter
from desched.adapters.kubernetes.evictor import KubernetesEvictor
from desched.errors import ObservationError, StopActing
from desched.model.cluster import PodRef
from desched.model.report import EvictionVerdict
from desched.ports import EvictionAnswer
from tests.unit.adapters.kubernetes.fake_api_server import (
    FakeApiServer,
    Reply,
    connection_to,
    status,
)

WEB = PodRef("shop", "web-1", "uid-1")
BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."
NUMBERS = "The disruption budget web needs 3 healthy pods and has 3 currently"
DENIED = 'admission webhook "w.example" denied the request: the operator rolls this pod'
CAUSE = [{"reason": "DisruptionBudget", "message": NUMBERS}]


class StoppedClock:
    def now(self) -> datetime:
        return datetime(2026, 1, 10, 8, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0

    def wait(self, seconds: float) -> bool:
        raise AssertionError(seconds)

    def stopping(self) -> bool:
        return False


def evictor_of(server: FakeApiServer, **settings: Any) -> KubernetesEvictor:
    connection = connection_to(server)
    return KubernetesEvictor(connection, EventWriter(connection, StoppedClock()), **settings)


def answer_to(server: FakeApiServer, reply: Reply) -> EvictionAnswer:
    server.answer = lambda _: reply
    return evictor_of(server).evict(WEB, "te3 is hot")


def success(code: int) -> Reply:
    return Reply(code, {"kind": "Status", "status": "Success", "code": code})


def with_retry_after(reply: Reply, seconds: str) -> Reply:
    return Reply(reply.status, reply.body, {"Retry-After": seconds})


def test_the_request_names_exactly_this_pod_by_its_uid(server: FakeApiServer) -> None:
    answer_to(server, success(201))

    (request,) = server.requests
    assert (request.method, request.path) == (
        "POST",
        "/api/v1/namespaces/shop/pods/web-1/eviction",
    )
    assert request.body == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {
            "namespace": "shop",
            "name": "web-1",
            "annotations": {"desched.io/reason": "te3 is hot"},
        },
        "deleteOptions": {"preconditions": {"uid": "uid-1"}},
    }


def test_a_dry_run_is_asked_for_in_the_query(server: FakeApiServer) -> None:
    """There, and not in the body, admission webhooks with side effects are told of it."""
    server.answer = lambda _: success(201)
    answer = evictor_of(server).would_evict(WEB, "te3 is hot")
    assert answer.verdict is EvictionVerdict.EVICTED
    answer_to(server, success(201))
    tried, real = server.requests
    assert (tried.method, tried.path, tried.body) == (real.method, real.path, real.body)
    assert (tried.query, real.query) == ({"dryRun": "All"}, {})


@pytest.mark.parametrize("reply", [status(503, "unavailable"), Reply(201, {}, cut_off=True)])
def test_a_dry_run_without_a_clear_answer_is_known_to_have_evicted_nothing(
    server: FakeApiServer, reply: Reply
) -> None:
    server.answer = lambda _: reply
    with pytest.raises(ObservationError):
        evictor_of(server).would_evict(WEB, "te3 is hot")


def test_a_pod_without_a_uid_is_never_evicted(server: FakeApiServer) -> None:
    with pytest.raises(ValueError, match="shop/web-1 has no uid"):
        evictor_of(server).evict(PodRef("shop", "web-1"), "te3 is hot")
    assert server.requests == []


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (success(201), EvictionAnswer(EvictionVerdict.EVICTED)),
        (success(200), EvictionAnswer(EvictionVerdict.EVICTED)),
        (
            status(429, BUDGET, causes=CAUSE),
            EvictionAnswer(EvictionVerdict.BLOCKED_BY_BUDGET, NUMBERS),
        ),
        (
            # The budget's controller has not seen it yet: the same cause, with Retry-After.
            with_retry_after(status(429, BUDGET, causes=CAUSE), "10"),
            EvictionAnswer(EvictionVerdict.BLOCKED_BY_BUDGET, NUMBERS),
        ),
        (
            status(429, BUDGET, causes=[{"reason": "DisruptionBudget"}]),
            EvictionAnswer(EvictionVerdict.BLOCKED_BY_BUDGET, BUDGET),
        ),
        (
            with_retry_after(status(429, "slow down"), "3"),
            EvictionAnswer(EvictionVerdict.THROTTLED, "slow down", 3.0),
        ),
        (
            # Priority and fairness answers in plain text.
            with_retry_after(Reply(429, b"Too many requests, please try again later.\n"), "1"),
            EvictionAnswer(EvictionVerdict.THROTTLED, "the API server is throttling requests", 1.0),
        ),
        (
            status(429, "admission webhook denied the request: Eviction triggered evacuation of x"),
            EvictionAnswer(
                EvictionVerdict.TAKEN_OVER,
                "admission webhook denied the request: Eviction triggered evacuation of x",
            ),
        ),
        (
            status(429, "Eviction Triggered Migration of VMI x"),
            EvictionAnswer(EvictionVerdict.TAKEN_OVER, "Eviction Triggered Migration of VMI x"),
        ),
        (
            status(429, "triggered evacuation", causes=CAUSE),
            EvictionAnswer(EvictionVerdict.BLOCKED_BY_BUDGET, NUMBERS),
        ),
        (status(403, "no"), EvictionAnswer(EvictionVerdict.FORBIDDEN, "no")),
        (status(400, "denied"), EvictionAnswer(EvictionVerdict.FORBIDDEN, "denied")),
        (status(422, "denied"), EvictionAnswer(EvictionVerdict.FORBIDDEN, "denied")),
        (
            status(429, "a webhook's no"),
            EvictionAnswer(EvictionVerdict.FORBIDDEN, "a webhook's no"),
        ),
        *(
            (status(code, each), EvictionAnswer(EvictionVerdict.FORBIDDEN, each))
            for code, each in (
                (500, DENIED),
                (503, DENIED),
                (413, "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"),
            )
        ),
        (
            status(504, 'couldn\'t update PodDisruptionBudget "x" due to conflicts'),
            EvictionAnswer(
                EvictionVerdict.BLOCKED_BY_BUDGET,
                'couldn\'t update PodDisruptionBudget "x" due to conflicts',
            ),
        ),
        (status(404, "not found"), EvictionAnswer(EvictionVerdict.GONE, "not found")),
        (
            status(409, "the UID in the precondition"),
            EvictionAnswer(EvictionVerdict.REPLACED, "the UID in the precondition"),
        ),
        (
            status(500, "This pod has more than one PodDisruptionBudget, which …"),
            EvictionAnswer(
                EvictionVerdict.SEVERAL_BUDGETS,
                "This pod has more than one PodDisruptionBudget, which …",
            ),
        ),
    ],
)
def test_an_answer_becomes_its_verdict(
    server: FakeApiServer, reply: Reply, expected: EvictionAnswer
) -> None:
    assert answer_to(server, reply) == expected
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "reply",
    [
        status(500, "conflict while updating the budget: timeout"),
        status(401, "Unauthorized"),
        status(503, "unavailable"),
        Reply(202, {"kind": "Status"}),
        Reply(422, b"<html>"),
        Reply(302, b"", {"Location": "/elsewhere"}),
        Reply(200, b"<html>"),  # a proxy's page is no acceptance
        Reply(201, {"kind": "Pod"}),
        Reply(404, b"<html>"),  # nor does it know that the pod is gone
        Reply(403, b"<html>"),
        Reply(409, b"[]"),
        Reply(201, b""),
    ],
)
def test_an_answer_that_is_not_understood_stops_acting(server: FakeApiServer, reply: Reply) -> None:
    with pytest.raises(StopActing, match=r"shop/web-1 with \d{3}.*evicts nothing more"):
        answer_to(server, reply)
    with_renewed_credentials = reply.status == 401
    assert len(server.requests) == 1 + with_renewed_credentials


def test_a_webhook_that_cannot_be_called_stops_acting_by_its_name(server: FakeApiServer) -> None:
    said = (
        'Internal error occurred: failed calling webhook "w.example": failed to call webhook: EOF'
    )
    with pytest.raises(
        StopActing, match=r"could not call the admission webhook w\.example"
    ) as raised:
        answer_to(server, status(500, said))
    assert "Repair that webhook" in str(raised.value)
    assert "API server answered" not in str(raised.value)


def test_a_broken_connection_leaves_it_unknown_and_is_not_tried_again(
    server: FakeApiServer,
) -> None:
    with pytest.raises(StopActing, match="Whether shop/web-1 is evicted is not known"):
        answer_to(server, Reply(201, {}, cut_off=True))
    assert len(server.requests) == 1


@pytest.mark.parametrize("limit", [{"deadline_seconds": 1.0}, {"seconds_left": lambda: 1.0}])
def test_an_eviction_without_an_answer_in_time_leaves_it_unknown(
    server: FakeApiServer, limit: dict[str, Any]
) -> None:
    gate = Event()
    server.answer = lambda _: Reply(201, chunks=(b" ",) * 500, drip=lambda: gate.wait(0.02))
    with pytest.raises(StopActing, match="the deadline passed"):
        evictor_of(server, **limit).evict(WEB, "te3 is hot")
    gate.set()
    assert len(server.requests) == 1
