"""The API server's own judgement of a right; anything unclear is no."""

import pytest

from desched.adapters.kubernetes.client.access import PATCH_NODE
from desched.adapters.kubernetes.permission import has_right
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
