"""The requests behind a soft taint, and what each answer of the API server means."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest

from desched.adapters.kubernetes.taints import ATTEMPTS, MOST_AT_ONCE, KubernetesSteerer
from tests.contracts.steerer_contract import UNTIL
from tests.unit.adapters.kubernetes.fake_api_server import (
    FakeApiServer,
    Reply,
    Request,
    connection_to,
    status,
)

PATIENCE_SECONDS = 20
KEY = "desched.io/overloaded"
ANNOTATION = "desched.io/overloaded-until"
OWN = {"key": KEY, "effect": "PreferNoSchedule"}
THEIRS = {"key": "drain", "effect": "NoExecute", "timeAdded": "2026-01-10T08:00:00Z", "new": 7}


def node(
    version: str, taints: Iterable[dict[str, Any]] | None = (), until: str | None = None
) -> Reply:
    annotations = {"note": "of others"} | ({ANNOTATION: until} if until else {})
    found = {
        "metadata": {"name": "te1", "resourceVersion": version, "annotations": annotations},
        "spec": {"taints": taints and list(taints)},
    }
    return Reply(body={"metadata": {}, "items": [found]})


def answering(server: FakeApiServer, looks: Iterator[Reply], writes: Iterator[Reply]) -> None:
    server.answer = lambda request: next(looks if request.method == "GET" else writes)


def steerer_of(server: FakeApiServer, **settings: Any) -> KubernetesSteerer:
    return KubernetesSteerer(connection_to(server), **settings)


def test_one_write_sets_taint_and_end_for_the_version_that_was_read(server: FakeApiServer) -> None:
    answering(server, iter([node("7", [THEIRS])]), iter([Reply(body={})]))
    assert steerer_of(server).taint("te1", UNTIL).done
    look, write = server.requests
    assert (look.path, look.query) == ("/api/v1/nodes", {"fieldSelector": "metadata.name=te1"})
    assert (write.method, write.path) == ("PATCH", "/api/v1/nodes/te1")
    assert write.headers["Content-Type"] == "application/merge-patch+json"
    assert write.body == {
        "metadata": {"resourceVersion": "7", "annotations": {ANNOTATION: "2026-05-01T12:10:00Z"}},
        "spec": {"taints": [THEIRS, OWN]},
    }


def test_many_nodes_are_changed_side_by_side_with_an_answer_for_each(
    server: FakeApiServer,
) -> None:
    together = Barrier(MOST_AT_ONCE)

    def answer(request: Request) -> Reply:
        if request.method == "GET":
            together.wait(PATIENCE_SECONDS)
            return node("7")
        refused = request.path.endswith("n1")
        return status(403, "no") if refused else Reply(body={})

    server.answer = answer
    answers = steerer_of(server).taint_all([f"n{i}" for i in range(MOST_AT_ONCE)], UNTIL)
    assert [each.done for each in answers] == [i != 1 for i in range(MOST_AT_ONCE)]


def test_one_write_takes_both_away(server: FakeApiServer) -> None:
    answering(
        server, iter([node("8", [OWN, THEIRS], "2026-05-01T12:10:00Z")]), iter([Reply(body={})])
    )
    assert steerer_of(server).untaint("te1").done
    assert server.requests[-1].body == {
        "metadata": {"resourceVersion": "8", "annotations": {ANNOTATION: None}},
        "spec": {"taints": [THEIRS]},
    }


@pytest.mark.parametrize(
    ("minutes", "methods"), [(-1, ["GET"]), (0, ["GET", "PATCH"]), (1, ["GET", "PATCH"])]
)
def test_a_taint_that_was_renewed_meanwhile_has_not_expired(
    server: FakeApiServer, minutes: int, methods: list[str]
) -> None:
    look = node("8", [OWN], UNTIL.isoformat())
    answering(server, iter([look]), iter([Reply(body={})]))
    assert steerer_of(server).untaint("te1", UNTIL + timedelta(minutes=minutes)).done
    assert [request.method for request in server.requests] == methods


def test_a_taint_that_is_renewed_at_the_same_moment_stays(server: FakeApiServer) -> None:
    before = node("8", [OWN], UNTIL.isoformat())
    renewed = node("9", [OWN], (UNTIL + timedelta(minutes=10)).isoformat())
    answering(server, iter([before, renewed]), iter([status(409, "modified")]))
    assert steerer_of(server).untaint("te1", UNTIL).done
    assert [request.method for request in server.requests] == ["GET", "PATCH", "GET"]


def test_standing_taints_are_found_by_metadata_alone_page_by_page(server: FakeApiServer) -> None:
    def metadata(name: str, **annotations: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "annotations": annotations}}

    pages = iter(
        [
            [metadata("te1", **{ANNOTATION: UNTIL.isoformat()}), metadata("te2")],
            [metadata("te3", **{ANNOTATION: "no time"})],
        ]
    )
    tokens = iter(["more", ""])
    server.answer = lambda _: Reply(
        body={"metadata": {"continue": next(tokens)}, "items": next(pages)}
    )
    found = steerer_of(server).standing()
    assert found.until["te1"] == UNTIL
    assert found.until["te3"] < UNTIL - timedelta(days=365)
    assert set(found.until) == {"te1", "te3"}
    assert found.now is not None
    first, second = server.requests
    assert first.headers["Accept"].startswith("application/json;as=PartialObjectMetadataList;")
    assert (first.query, second.query) == (
        {"limit": "500"},
        {"limit": "500", "continue": "more"},
    )


def test_the_last_taint_leaves_no_empty_list(server: FakeApiServer) -> None:
    answering(server, iter([node("8", [OWN], "2026-05-01T12:10:00Z")]), iter([Reply(body={})]))
    assert steerer_of(server).untaint("te1").done
    assert server.requests[-1].body["spec"] == {"taints": None}


def test_a_taint_that_lasts_long_enough_is_not_written_again(server: FakeApiServer) -> None:
    answering(server, iter([node("8", [OWN], "2026-05-01T14:10:00+02:00")]), iter([]))
    assert steerer_of(server).taint("te1", UNTIL).done
    assert [request.method for request in server.requests] == ["GET"]


@pytest.mark.parametrize("until", ["soon", "2026-05-01T13:00:00"])
def test_an_end_that_cannot_be_read_is_written_anew(server: FakeApiServer, until: str) -> None:
    answering(server, iter([node("8", [OWN], until)]), iter([Reply(body={})]))
    assert steerer_of(server).taint("te1", UNTIL).done
    written = server.requests[-1].body["metadata"]["annotations"]
    assert written == {ANNOTATION: "2026-05-01T12:10:00Z"}


def test_after_a_conflict_it_looks_again_and_keeps_what_others_wrote(
    server: FakeApiServer,
) -> None:
    looks = iter([node("7", None), node("9", [THEIRS])])
    answering(server, looks, iter([status(409, "the object has been modified"), Reply(body={})]))
    assert steerer_of(server).taint("te1", UNTIL).done
    last = server.requests[-1].body
    assert last["metadata"]["resourceVersion"] == "9"
    assert last["spec"] == {"taints": [THEIRS, OWN]}


def test_a_node_that_never_stands_still_is_given_up(server: FakeApiServer) -> None:
    conflicts = (status(409, "the object has been modified") for _ in range(ATTEMPTS))
    answering(server, (node(str(i)) for i in range(ATTEMPTS)), conflicts)
    answer = steerer_of(server).taint("te1", UNTIL)
    assert not answer.done
    assert f"{ATTEMPTS} times" in answer.detail


def test_a_missing_right_is_named(server: FakeApiServer) -> None:
    answering(server, iter([node("7")]), iter([status(403, 'cannot patch resource "nodes"')]))
    denied: list[bool] = []
    answer = steerer_of(server, when_denied=lambda: denied.append(True)).taint("te1", UNTIL)
    assert not answer.done
    assert "right to patch nodes" in answer.detail
    assert denied == [True]


@pytest.mark.parametrize(
    ("look", "said"),
    [
        (Reply(502, b"<html>"), "no API server gives"),
        (status(401, "Unauthorized"), "renew them"),
        (Reply(body={"items": [{"metadata": {"name": "te1"}}]}), "cannot be read"),
    ],
)
def test_a_node_that_cannot_be_read_is_not_steered(
    server: FakeApiServer, look: Reply, said: str
) -> None:
    server.answer = lambda _: look
    answer = steerer_of(server).taint("te1", UNTIL)
    assert not answer.done
    assert said in answer.detail
    assert all(request.method == "GET" for request in server.requests)


def test_a_write_without_an_answer_counts_as_not_done(server: FakeApiServer) -> None:
    answering(server, iter([node("7")]), iter([Reply(body={}, cut_off=True)]))
    answer = steerer_of(server).taint("te1", UNTIL)
    assert not answer.done
    assert "PATCH" in answer.detail


def test_nothing_is_written_once_the_time_to_act_is_over(server: FakeApiServer) -> None:
    answering(server, iter([node("7")]), iter([]))
    left = iter([10.0, 0.0])
    answer = steerer_of(server, seconds_left=lambda: next(left)).taint("te1", UNTIL)
    assert (answer.done, answer.detail) == (False, "the time to act is over")
    assert [request.method for request in server.requests] == ["GET"]
