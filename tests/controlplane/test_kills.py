"""Desched is killed at each step of a cycle; the processes after it know what was under way."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

import pytest

from desched.adapters.kubernetes.state_store import STATE_KEY
from desched.plugins.states import decode_state
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.fault_table import FaultTable
from tests.controlplane.installation import LEASE_SECONDS
from tests.controlplane.kills import (
    FIRST_CYCLE,
    NEXT_CYCLE,
    WITH_LEASE,
    Chapter,
    Status,
    Story,
)
from tests.controlplane.manifests import Object
from tests.controlplane.pairs import PAIRS, Pairs
from tests.controlplane.sites import app_of


@pytest.fixture(scope="module")
def sites(
    running_control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pairs]:
    directory = tmp_path_factory.mktemp("kills")
    with running_control_plane.prometheus() as prometheus:
        built = Pairs(running_control_plane, prometheus, directory)
        try:
            built.build_pairs()
            yield built
        finally:
            running_control_plane.reset()


class Told(NamedTuple):
    """The whole story: each kill, the calls of undisturbed processes, and how it ended."""

    chapters: Sequence[Chapter]
    undisturbed: Sequence[Sequence[str]]
    began: Status
    end: Status


@pytest.fixture(scope="module")
def told(sites: Pairs) -> Told:
    story = Story(sites)
    began = story.standing()
    points = (*WITH_LEASE, *FIRST_CYCLE, *NEXT_CYCLE)
    chapters = [story.kill(point, moment) for point in points for moment in point.moments]
    return Told(chapters, story.undisturbed, began, story.end())


def test_no_call_of_a_cycle_is_left_out(told: Told) -> None:
    for calls in told.undisturbed:
        ports = [call for call in calls if call != "events.announce"]  # which the evictor makes
        assert ports == [point.call for point in FIRST_CYCLE]
    known = {point.call for point in (*FIRST_CYCLE, *NEXT_CYCLE, *WITH_LEASE)}
    made = {call for chapter in told.chapters for call in chapter.calls}
    assert made == known | {"events.announce"}


def test_each_hot_node_loses_one_pod_and_each_move_is_followed_up(told: Told) -> None:
    hot = {pod: node for pod, node in told.began.pods.items() if "hot" in node}
    gone = {pod: node for pod, node in hot.items() if pod not in told.end.pods}
    assert sorted(gone.values()) == sorted(f"hot{number}" for number in range(PAIRS))
    where = {app_of({"name": pod}): node for pod, node in told.end.pods.items()}
    for pod, node in gone.items():
        assert where[app_of({"name": pod})] == node.replace("hot", "cold")

    assert len({move.workload_uid for move in told.end.state.moves}) == len(gone)
    assert not told.end.state.cool_downs  # which a failure would have begun
    assert told.end.is_quiet


@pytest.fixture(scope="module")
def requests(told: Told, sites: Pairs) -> list[Object]:
    """What all processes asked of the API server, by its audit log."""
    gone = told.began.pods.keys() - told.end.pods.keys()

    def found() -> list[Object]:
        """The log has a request a moment after its answer."""
        asked = sites.plane.audit_events(sites.account["namespace"], sites.account["name"])
        evictions = [r for r in asked if about(r, "subresource") == "eviction"]
        return asked if len(evictions) >= len(gone) else []

    return sites.plane.wait_for("all evictions", found)


def test_each_eviction_was_asked_for_once_and_written_down_before(
    told: Told, requests: list[Object]
) -> None:
    evictions = [r for r in requests if about(r, "subresource") == "eviction"]
    assert all(eviction["responseStatus"]["code"] == 201 for eviction in evictions)
    names = [about(eviction, "name") for eviction in evictions]
    assert sorted(names) == sorted(told.began.pods.keys() - told.end.pods.keys())
    for name, eviction in zip(names, evictions, strict=True):
        assert name in noted_before(eviction, requests)


def test_the_lease_of_a_dead_process_is_taken_only_when_it_has_run_out(
    requests: list[Object],
) -> None:
    written = [r for r in requests if about(r, "resource") == "leases" and was_written(r)]
    taken = 0
    for earlier, later in pairwise(sorted(written, key=received)):
        dead, holder = (r["requestObject"]["spec"]["holderIdentity"] for r in (earlier, later))
        if dead and holder not in {dead, ""} and later["verb"] == "patch":
            taken += 1
            assert (received(later) - received(earlier)).total_seconds() >= LEASE_SECONDS
    assert taken > 0


def noted_before(eviction: Object, requests: Sequence[Object]) -> set[str]:
    """The pods that the state had as under way when an eviction was asked for.

    The audit log stamps the end of a write after its answer was sent, on a busy machine long
    after, so that those under way by the log count, too.
    """
    written = [
        request
        for request in requests
        if about(request, "resource") == "configmaps"
        and was_written(request)
        and received(request) <= received(eviction)
    ]
    before = [request for request in written if ended(request) <= received(eviction)]
    under_way = [request for request in written if ended(request) > received(eviction)]
    latest = [*sorted(before, key=ended)[-1:], *under_way]
    return {name for request in latest for name in in_flight(request)}


def in_flight(write: Object) -> list[str]:
    state = decode_state(write["requestObject"]["data"][STATE_KEY]).state
    assert state is not None
    return [record.pod.name for record in state.in_flight]


def about(request: Object, what: str) -> str:
    return str(request.get("objectRef", {}).get(what, ""))


def was_written(request: Object) -> bool:
    return request["verb"] in {"create", "patch"} and request["responseStatus"]["code"] in {
        200,
        201,
    }


def received(request: Object) -> datetime:
    return datetime.fromisoformat(request["requestReceivedTimestamp"])


def ended(request: Object) -> datetime:
    return datetime.fromisoformat(request["stageTimestamp"])


def test_the_table_of_kills_says_what_was_seen(told: Told) -> None:
    columns = ("step", "killed", "leaves behind", "the next process")
    table = FaultTable("kills", columns, "tests/controlplane/test_kills.py")
    for chapter in told.chapters:
        said, moment = chapter.point.said, chapter.moment.value
        table.add(said, f"{moment} it", chapter.left_behind(), chapter.made_good())
    table.check()
