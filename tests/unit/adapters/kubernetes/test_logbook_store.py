"""The requests behind a logbook, and what each answer of the API server means."""

import base64
from collections.abc import Callable
from typing import Any

import pytest

from desched.adapters.kubernetes.client.access import LOGBOOK_ACCESS
from desched.adapters.kubernetes.logbook_store import KubernetesLogbookStore
from desched.errors import ObservationError
from desched.history.stored import StoredLogbook, encode_logbook
from tests.unit.adapters.kubernetes.fake_api_server import (
    FakeApiServer,
    Reply,
    Request,
    connection_to,
    status,
)
from tests.unit.example_logbook import dry_run, logbook

PATH = "/api/v1/namespaces/desched-system/configmaps/desched-logbook"
BOOK = logbook(dry_run(0), dry_run(1))
PACKED, _ = encode_logbook(BOOK)


def config_map(version: str, logbook: str | None = None) -> Reply:
    body: dict[str, Any] = {"kind": "ConfigMap", "metadata": {"resourceVersion": version}}
    return Reply(body=body | ({} if logbook is None else {"binaryData": {"logbook": logbook}}))


def answering(**replies: Reply) -> Callable[[Request], Reply]:
    return lambda request: replies[request.method]


def store_of(server: FakeApiServer) -> KubernetesLogbookStore:
    return KubernetesLogbookStore(connection_to(server), "desched-system")


def test_an_empty_config_map_has_no_logbook_yet(server: FakeApiServer) -> None:
    server.answer = answering(GET=config_map("1"))

    assert store_of(server).load() == StoredLogbook()


def test_what_is_saved_replaces_what_was_loaded_and_nothing_else(server: FakeApiServer) -> None:
    text = base64.b64encode(PACKED).decode()
    server.answer = answering(GET=config_map("7", text), PATCH=config_map("8"))
    store = store_of(server)

    assert store.load() == StoredLogbook(BOOK)
    store.save(PACKED)
    store.save(PACKED)

    read, first, second = server.requests
    assert {read.path, first.path, second.path} == {PATH}
    assert first.body == {"metadata": {"resourceVersion": "7"}, "binaryData": {"logbook": text}}
    assert second.body["metadata"]["resourceVersion"] == "8"
    assert {request.method.lower() for request in server.requests} == {
        access.verb for access in LOGBOOK_ACCESS
    }


@pytest.mark.parametrize("text", ["no base64 !", base64.b64encode(b"no logbook").decode()])
def test_what_cannot_be_used_is_a_problem(server: FakeApiServer, text: str) -> None:
    server.answer = answering(GET=config_map("1", text))

    assert store_of(server).load().problem.startswith("it is damaged")


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (status(404, "not found"), "a cluster then writes it only with --logbook"),
        (status(403, "forbidden"), "the account may not get configmaps"),
        (Reply(200, {"kind": "Secret"}), "the answer is no ConfigMap"),
        (Reply(200, b"<html>"), "the answer is no ConfigMap"),
    ],
)
def test_an_answer_without_a_logbook_is_no_logbook(
    server: FakeApiServer, reply: Reply, why: str
) -> None:
    server.answer = lambda _: reply

    with pytest.raises(ObservationError, match="was not read") as raised:
        store_of(server).load()
    assert why in str(raised.value)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (status(409, "conflict"), "somebody else changed it meanwhile"),
        (status(404, "not found"), "it does not exist"),
        (status(403, "forbidden"), "the account may not patch configmaps"),
        (status(422, "too long"), "status 422"),
    ],
)
def test_a_write_that_is_refused_says_why(server: FakeApiServer, reply: Reply, why: str) -> None:
    server.answer = answering(GET=config_map("7"), PATCH=reply)
    store = store_of(server)
    store.load()

    with pytest.raises(ObservationError, match="was not written") as raised:
        store.save(PACKED)
    assert why in str(raised.value)
