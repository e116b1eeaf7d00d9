"""The requests behind a state, and what each answer of the API server means."""

import json
from collections.abc import Callable
from threading import Event
from typing import Any

import pytest

from desched.adapters.kubernetes.client.access import OWN_NAMESPACE_ACCESS, REQUIRED_ACCESS
from desched.adapters.kubernetes.state_store import KubernetesStateStore
from desched.errors import ObservationError, StateConflict, StateRefused, StopActing
from desched.model.state import State
from tests.builders import NOW
from tests.unit.adapters.kubernetes.fake_api_server import (
    FakeApiServer,
    Reply,
    Request,
    connection_to,
    status,
)

MEMORY = State(since=NOW)
TEXT = '{"version":1,"state":{"since":"2026-05-01T12:00:00Z"}}'
PATH = "/api/v1/namespaces/desched-system/configmaps/desched-state"


def config_map(version: str, **data: str) -> Reply:
    body: dict[str, Any] = {"kind": "ConfigMap", "metadata": {"resourceVersion": version}}
    return Reply(body=body | {"data": {key.replace("_", "."): text for key, text in data.items()}})


def answering(**replies: Reply) -> Callable[[Request], Reply]:
    """Replies by method."""
    return lambda request: replies[request.method]


def store_of(server: FakeApiServer, **settings: Any) -> KubernetesStateStore:
    return KubernetesStateStore(connection_to(server), "desched-system", **settings)


def loaded_store(server: FakeApiServer, **replies: Reply) -> KubernetesStateStore:
    """A store that has loaded version 7, and gets these replies from then on."""
    server.answer = answering(GET=config_map("7", state_json=TEXT), **replies)
    store = store_of(server)
    assert store.load() == (MEMORY, "")
    return store


# --- requests --------------------------------------------------------------------------------


def test_the_first_memory_is_created_with_a_label(server: FakeApiServer) -> None:
    server.answer = answering(GET=status(404, "not found"), POST=config_map("1"))
    store = store_of(server)
    assert store.load() == (None, "")
    store.save(MEMORY)
    read, written = server.requests
    assert (read.method, read.path) == ("GET", PATH)
    assert (written.method, written.path) == ("POST", PATH.rpartition("/")[0])
    assert written.body == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "namespace": "desched-system",
            "name": "desched-state",
            "labels": {"app.kubernetes.io/name": "desched"},
        },
        "data": {"state.json": TEXT},
    }


def test_a_later_memory_changes_one_key_of_the_version_that_was_seen_last(
    server: FakeApiServer,
) -> None:
    store = loaded_store(server, PATCH=config_map("8"))
    store.save(MEMORY)
    store.save(MEMORY)
    writes = [r for r in server.requests if r.method == "PATCH"]
    assert [w.path for w in writes] == [PATH, PATH]
    assert [w.body for w in writes] == [
        {"metadata": {"resourceVersion": version}, "data": {"state.json": TEXT}}
        for version in ("7", "8")
    ]


def test_an_unusable_memory_is_kept_with_the_write_that_replaces_it(server: FakeApiServer) -> None:
    server.answer = answering(GET=config_map("3", state_json="{"), PATCH=config_map("4"))
    store = store_of(server)
    found = store.load()
    assert found.state is None
    assert "ConfigMap desched-system/desched-state cannot be used: it is damaged" in found.problem
    assert "kubectl -n desched-system get configmap desched-state" in found.problem
    store.save(MEMORY)
    assert server.requests[-1].body["data"] == {"state.json": TEXT, "set-aside.json": "{"}


def test_an_object_without_a_memory_is_filled_and_not_created(server: FakeApiServer) -> None:
    server.answer = answering(GET=config_map("3", notes="ours"), PATCH=config_map("4"))
    store = store_of(server)
    assert store.load() == (None, "")
    store.save(MEMORY)
    assert server.requests[-1].method == "PATCH"


def test_configmaps_are_touched_in_one_namespace_only() -> None:
    assert not [access for access in REQUIRED_ACCESS if access.resource == "configmaps"]
    granted = {a.verb for a in OWN_NAMESPACE_ACCESS if a.resource == "configmaps"}
    assert granted == {"get", "create", "patch"}


# --- answers to a load -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (status(403, "no"), "may not get configmaps in namespace desched-system.*Role in deploy/"),
        (status(401, "no"), "renew them"),
        (status(500, "etcd is away"), "etcd is away"),
        (Reply(404, b"<html>"), "a proxy answered"),  # a proxy does not know that there is none
        (Reply(200, b"<html>"), "no ConfigMap"),
        (Reply(200, {"kind": "ConfigMap", "metadata": {}}), "no ConfigMap"),
        (Reply(200, {"kind": "Pod", "metadata": {"resourceVersion": "1"}}), "no ConfigMap"),
        (Reply(200, {}, cut_off=True), "broke off"),
    ],
)
def test_the_error_of_a_failed_load_has_the_cause(
    server: FakeApiServer, reply: Reply, said: str
) -> None:
    server.answer = lambda _: reply
    with pytest.raises(ObservationError, match=said):
        store_of(server).load()


# --- answers to a save -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "error", "said"),
    [
        (status(409, "the object has been modified"), StateConflict, "Somebody else changed"),
        (status(404, "not found"), StateConflict, "Somebody else changed"),
        (status(403, "by policy"), StateRefused, "may not patch configmaps.*message: by policy"),
        (status(422, "field is immutable."), StateRefused, r"422: field is immutable\.$"),
        (status(400, "denied by a webhook"), StateRefused, "denied by a webhook"),
        (status(413, "too large"), StateRefused, "too large"),
        (status(500, "timeout"), StopActing, "not known.*500: timeout"),
        (status(429, "slow down"), StopActing, "429: slow down"),
        (Reply(409, b"<html>"), StopActing, "not known"),
        (Reply(403, b"<html>"), StopActing, "not known"),
        (Reply(200, b"<html>"), StopActing, "not known"),
        (Reply(200, {}, cut_off=True), StopActing, "not known.*broke off"),
    ],
)
def test_a_change_that_is_not_stored_for_certain_stops_acting(
    server: FakeApiServer, reply: Reply, error: type[StopActing], said: str
) -> None:
    store = loaded_store(server, PATCH=reply)
    with pytest.raises(StopActing, match=said) as raised:
        store.save(MEMORY)
    assert type(raised.value) is error
    assert len(server.requests) == 2  # a write is tried once


@pytest.mark.parametrize(
    ("reply", "error", "said"),
    [
        (status(409, "already exists"), StateConflict, "Somebody else"),
        (status(404, 'namespaces "x" not found'), StateRefused, "--state-namespace"),
        (status(403, "no"), StateRefused, "may not create configmaps"),
    ],
)
def test_a_first_memory_may_be_refused(
    server: FakeApiServer, reply: Reply, error: type[StopActing], said: str
) -> None:
    server.answer = answering(POST=reply)
    with pytest.raises(error, match=said):
        store_of(server).save(MEMORY)


def test_after_a_lost_answer_the_next_save_does_not_overwrite_what_it_may_have_written(
    server: FakeApiServer,
) -> None:
    store = loaded_store(server, PATCH=Reply(200, {}, cut_off=True))
    for _ in range(2):
        with pytest.raises(StopActing):
            store.save(MEMORY)
    versions = {json.dumps(r.body["metadata"]) for r in server.requests if r.method == "PATCH"}
    assert versions == {'{"resourceVersion": "7"}'}


def test_a_save_without_an_answer_in_time_ends(server: FakeApiServer) -> None:
    gate = Event()
    server.answer = lambda _: Reply(201, chunks=(b" ",) * 500, drip=lambda: gate.wait(0.02))
    with pytest.raises(StopActing, match="the deadline passed"):
        store_of(server, deadline_seconds=1.0).save(MEMORY)
    gate.set()
