"""What is sent for a lease, and what each answer means."""

from datetime import UTC, datetime
from threading import Event
from typing import Any

import pytest

from desched.adapters.kubernetes.client.access import OWN_NAMESPACE_ACCESS
from desched.adapters.kubernetes.lease import KubernetesLease
from desched.errors import LeaseError, LeaseRefused
from desched.ports import LeaseRecord
from tests.unit.adapters.kubernetes.fake_api_server import (
    FakeApiServer,
    Reply,
    connection_to,
    status,
)

COLLECTION = "/apis/coordination.k8s.io/v1/namespaces/desched-system/leases"
PATH = f"{COLLECTION}/desched"
SINCE = datetime(2026, 1, 10, 8, tzinfo=UTC)
LATER = datetime(2026, 1, 10, 9, 0, 2, 120, tzinfo=UTC)
RECORD = LeaseRecord("web-1_ab", 15, 3, SINCE, LATER, "77")
SPEC = {
    "holderIdentity": "web-1_ab",
    "leaseDurationSeconds": 15,
    "leaseTransitions": 3,
    "acquireTime": "2026-01-10T08:00:00.000000Z",
    "renewTime": "2026-01-10T09:00:02.000120Z",
}
OBJECT: dict[str, Any] = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "desched", "resourceVersion": "77", "labels": None},
    "spec": SPEC,
}


def lease_at(server: FakeApiServer, **settings: Any) -> KubernetesLease:
    return KubernetesLease(connection_to(server), "desched-system", **settings)


def answering(server: FakeApiServer, reply: Reply) -> KubernetesLease:
    server.answer = lambda _: reply
    return lease_at(server)


def test_a_lease_is_read_with_its_version(server: FakeApiServer) -> None:
    assert answering(server, Reply(200, OBJECT)).read() == RECORD
    (request,) = server.requests
    assert (request.method, request.path) == ("GET", PATH)


@pytest.mark.parametrize("spec", [None, {}, {"holderIdentity": None, "renewTime": None}])
def test_a_lease_without_a_spec_has_no_holder(server: FakeApiServer, spec: object) -> None:
    found = answering(server, Reply(200, OBJECT | {"spec": spec})).read()
    assert found == LeaseRecord("", 0, version="77")


def test_a_lease_that_does_not_exist_is_none(server: FakeApiServer) -> None:
    assert answering(server, status(404, 'leases "desched" not found')).read() is None


def test_a_lease_is_created_with_the_whole_record(server: FakeApiServer) -> None:
    assert answering(server, Reply(201, OBJECT)).create(RECORD) == RECORD
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", COLLECTION)
    assert request.body == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": "desched-system", "name": "desched"},
        "spec": SPEC,
    }


def test_a_replacement_names_its_version_and_leaves_alone_what_is_not_its_own(
    server: FakeApiServer,
) -> None:
    assert answering(server, Reply(200, OBJECT)).replace(RECORD) == RECORD
    (request,) = server.requests
    assert (request.method, request.path) == ("PATCH", PATH)
    assert request.headers["Content-Type"] == "application/merge-patch+json"
    assert request.body == {"metadata": {"resourceVersion": "77"}, "spec": SPEC}


def test_a_replacement_without_a_version_is_never_sent(server: FakeApiServer) -> None:
    with pytest.raises(ValueError, match="without a version"):
        lease_at(server).replace(LeaseRecord("a", 15))
    assert server.requests == []


@pytest.mark.parametrize("code", [404, 409])
def test_a_replacement_of_what_is_no_longer_there_is_none(server: FakeApiServer, code: int) -> None:
    assert answering(server, status(code, "modified")).replace(RECORD) is None
    assert len(server.requests) == 1


def test_a_creation_after_another_is_none(server: FakeApiServer) -> None:
    assert answering(server, status(409, "already exists")).create(RECORD) is None
    assert len(server.requests) == 1


CALLS = {
    "read": lambda lease: lease.read(),
    "create": lambda lease: lease.create(RECORD),
    "replace": lambda lease: lease.replace(RECORD),
}
each_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())


@each_call
@pytest.mark.parametrize(
    "reply",
    [
        status(401, "Unauthorized"),
        status(403, "leases is forbidden"),
        status(500, "etcd"),
        status(503, "unavailable"),
        status(422, "invalid"),
        Reply(429, b"Too many requests"),
        Reply(404, b"<html>"),
        Reply(409, b"<html>"),
        Reply(200, b"<html>"),
        Reply(200, b""),
        Reply(200, b"\xff"),
        Reply(200, {"kind": "Status"}),
        Reply(200, OBJECT | {"kind": "Pod"}),
        Reply(200, OBJECT | {"metadata": {"name": "desched"}}),
        Reply(200, OBJECT | {"metadata": {"resourceVersion": ""}}),
        Reply(200, OBJECT | {"spec": {"renewTime": "yesterday"}}),
        Reply(202, OBJECT),
        Reply(302, b"", {"Location": "/elsewhere"}),
        Reply(200, OBJECT, cut_off=True),
    ],
)
def test_whatever_else_comes_back_is_one_kind_of_error(
    server: FakeApiServer, call: Any, reply: Reply
) -> None:
    with pytest.raises(LeaseError) as raised:
        call(answering(server, reply))
    assert isinstance(raised.value, LeaseRefused) is (reply.status == 403)


@each_call
def test_a_server_that_is_not_there_is_that_error_too(call: Any) -> None:
    with FakeApiServer() as gone:
        lease = lease_at(gone)
    with pytest.raises(LeaseError, match="no connection"):
        call(lease)


@each_call
def test_a_server_that_does_not_answer_is_given_up_in_time(
    server: FakeApiServer, call: Any
) -> None:
    gate, sent = Event(), []

    def drip() -> None:
        sent.append(1)
        gate.wait(0.02)

    server.answer = lambda _: Reply(chunks=(b" ",) * 500, drip=drip)
    with pytest.raises(LeaseError, match="the deadline passed"):
        call(lease_at(server, deadline_seconds=0.3))
    assert len(sent) < 500
    gate.set()


def test_the_error_of_a_refusal_names_the_lease_and_the_cause(server: FakeApiServer) -> None:
    with pytest.raises(LeaseRefused, match=r"desched-system/desched could .* 403: leases is forb"):
        answering(server, status(403, "leases is forbidden")).create(RECORD)


def test_every_right_has_a_reason() -> None:
    leases = [a for a in OWN_NAMESPACE_ACCESS if a.resource == "leases"]
    assert [(a.verb, a.resource) for a in leases] == [
        ("get", "leases"),
        ("create", "leases"),
        ("patch", "leases"),
    ]
    assert all(len(a.reason.split()) >= 3 for a in leases)
