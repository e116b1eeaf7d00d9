"""The API server's own judgement of a right; anything unclear is no."""

import pytest

from desched.adapters.kubernetes.client.access import EVICT_POD, GET_STATE, PATCH_NODE
from desched.adapters.kubernetes.permission import account_name, has_right, reviewed
from desched.api_objects.access import Access
from tests.unit.adapters.kubernetes.fake_api_server import (
    FakeApiServer,
    Reply,
    connection_to,
    status,
)


@pytest.mark.parametrize("allowed", [True, False])
def test_the_review_is_about_the_right_in_the_whole_cluster(
    server: FakeApiServer, *, allowed: bool
) -> None:
    server.answer = lambda _: Reply(201, body={"status": {"allowed": allowed}})
    assert has_right(connection_to(server), PATCH_NODE) is allowed
    (request,) = server.requests
    assert (request.method, request.path) == (
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    )
    assert request.body == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "patch", "group": "", "resource": "nodes"}},
    }


@pytest.mark.parametrize(
    ("access", "where", "attributes"),
    [
        (
            EVICT_POD,
            (),
            {"verb": "create", "group": "", "resource": "pods", "subresource": "eviction"},
        ),
        (
            GET_STATE,
            ("ns", "desched-state"),
            {
                "verb": "get",
                "group": "",
                "resource": "configmaps",
                "namespace": "ns",
                "name": "desched-state",
            },
        ),
    ],
)
def test_a_review_may_be_about_a_subresource_or_one_object(
    server: FakeApiServer, access: Access, where: tuple[str, ...], attributes: dict[str, str]
) -> None:
    server.answer = lambda _: Reply(201, body={"status": {"allowed": True}})
    assert reviewed(connection_to(server), access, *where) is True
    (request,) = server.requests
    assert request.body["spec"] == {"resourceAttributes": attributes}


@pytest.mark.parametrize(
    "reply",
    [
        status(403, "selfsubjectaccessreviews is forbidden"),
        status(500, "etcd is away"),
        Reply(201, body={"status": {}}),
        Reply(201, b"<html>"),
        Reply(201, body={"status": {"allowed": True}}, cut_off=True),
    ],
)
def test_a_result_that_cannot_be_had_is_no_right(server: FakeApiServer, reply: Reply) -> None:
    server.answer = lambda _: reply
    assert not has_right(connection_to(server), PATCH_NODE)
    assert reviewed(connection_to(server), PATCH_NODE) is None


def test_an_account_has_the_name_that_the_api_server_gives_it(server: FakeApiServer) -> None:
    reply = Reply(201, body={"status": {"userInfo": {"username": "alice", "groups": []}}})
    server.answer = lambda _: reply
    assert account_name(connection_to(server)) == "alice"
    (request,) = server.requests
    assert (request.method, request.path) == (
        "POST",
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
    )
    assert request.body == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "SelfSubjectReview",
    }


@pytest.mark.parametrize("reply", [status(404, "not found"), Reply(201, body={"status": {}})])
def test_an_account_whose_name_cannot_be_had_has_none(server: FakeApiServer, reply: Reply) -> None:
    server.answer = lambda _: reply
    assert account_name(connection_to(server)) == ""
