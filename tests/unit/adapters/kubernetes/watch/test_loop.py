"""One kind is listed once, then watched, and listed again only where changes may be missing."""

import json
from collections.abc import Callable
from threading import Event, Lock
from time import monotonic
from typing import Any

import pytest
import structlog

from desched.adapters.kubernetes.objects.budgets import BUDGETS, PRIORITY_CLASSES
from desched.adapters.kubernetes.objects.nodes import NODES
from desched.adapters.kubernetes.objects.pods import pods_kind
from desched.adapters.kubernetes.objects.storage import CSI_NODES
from desched.adapters.kubernetes.objects.vertical_autoscalers import VERTICAL_AUTOSCALERS
from desched.adapters.kubernetes.watch import loop, store
from desched.adapters.kubernetes.watch.loop import KindWatch, WatchClient
from desched.adapters.kubernetes.watch.store import LONGEST_AGE_SECONDS, Store
from desched.errors import ObservationError
from desched.plugins.gangs.pod_groups import POD_GROUPS
from tests.unit.adapters.kubernetes import manifests
from tests.unit.adapters.kubernetes.fake_api_server import (
    NO_SUCH_PATH,
    FakeApiServer,
    Reply,
    Request,
    api_groups,
    connection_to,
    status,
)

PATH = "/apis/scheduling.k8s.io/v1/priorityclasses"


def priority(name: str, value: int, version: int) -> manifests.Object:
    metadata = manifests.metadata(name, "", resourceVersion=str(version))
    return {"metadata": metadata, "value": value}


def event(kind: str, item: object) -> bytes:
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"


def bookmark(version: int) -> bytes:
    metadata = {"resourceVersion": str(version), "creationTimestamp": None}
    return event("BOOKMARK", {"kind": "PriorityClass", "metadata": metadata})


GONE = {"kind": "Status", "status": "Failure", "code": 410, "message": "too old", "metadata": {}}
LISTED = [priority("a", 1, 3), priority("b", 2, 4)]


class Scene:
    """A watch of priority classes, step by step; each watch of it is answered by the next reply."""

    def __init__(
        self, server: FakeApiServer, *watches: Reply, kind: Any = PRIORITY_CLASSES
    ) -> None:
        self.server = server
        self.watches = list(watches)
        self.listed: Any = LISTED
        self.version = "10"
        self.kept: list[tuple[Any, ...]] = []
        self.store: Store[Any] = Store(kind.access.resource, Lock())
        server.answer = self.answer

        def kind_from(values: Any) -> Any:
            self.kept.append(tuple(values))
            return kind

        self.client = WatchClient(connection_to(server), Event(), lambda: 1.0, 15.0)
        self.watch = KindWatch(self.client, kind_from, self.store)

    def answer(self, request: Request) -> Reply | None:
        if "watch" in request.query:
            return self.watches.pop(0)
        if isinstance(self.listed, Reply):
            return self.listed
        return Reply(body={"metadata": {"resourceVersion": self.version}, "items": self.listed})

    @property
    def content(self) -> dict[str, int]:
        return dict(self.store.values)

    @property
    def lists(self) -> int:
        return sum("watch" not in request.query for request in self.server.requests)

    @property
    def watched_from(self) -> list[str]:
        requests = [r.query for r in self.server.requests if "watch" in r.query]
        return [query["resourceVersion"] for query in requests]

    def problem(self) -> str:
        with pytest.raises(ObservationError) as caught:
            self.store.require(monotonic())
        return str(caught.value)


@pytest.fixture(autouse=True)
def _may_end_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watches of these tests last for no time."""
    for module in (loop, store):
        monkeypatch.setattr(module, "SHORTEST_WATCH_SECONDS", 0.0)


def lines(*some: bytes, **more: Any) -> Reply:
    return Reply(body=b"", chunks=some, **more)


def test_changes_follow_the_list(server: FakeApiServer) -> None:
    scene = Scene(
        server,
        lines(
            event("ADDED", priority("c", 3, 11)),
            event("MODIFIED", priority("a", 7, 12)),
            event("DELETED", priority("b", 2, 13)),
        ),
    )

    assert scene.watch.step() == 0.0

    assert scene.content == {"a": 7, "c": 3}
    assert scene.store.version == 13
    scene.store.require(monotonic())
    query = server.requests[-1].query
    assert (query["watch"], query["allowWatchBookmarks"]) == ("true", "true")
    assert (query["resourceVersion"], query["timeoutSeconds"]) == ("10", "600")
    assert server.requests[-1].headers["Accept-Encoding"] == "identity"  # nothing is held back


def test_after_its_end_the_watch_goes_on_from_the_last_event(server: FakeApiServer) -> None:
    scene = Scene(server, lines(event("ADDED", priority("c", 3, 11)), bookmark(20)), lines())

    assert [scene.watch.step(), scene.watch.step()] == [0.0, 0.0]

    assert scene.lists == 1
    assert scene.watched_from == ["10", "20"]


def test_events_that_arrive_twice_change_nothing(server: FakeApiServer) -> None:
    again = event("MODIFIED", priority("a", 7, 11))
    scene = Scene(server, lines(again, again, again))

    assert scene.watch.step() == 0.0

    assert scene.content == {"a": 7, "b": 2}
    assert scene.lists == 1


def test_after_events_out_of_order_the_kind_is_listed_again(server: FakeApiServer) -> None:
    later, earlier = event("DELETED", priority("a", 7, 12)), event("MODIFIED", priority("a", 7, 11))
    scene = Scene(server, lines(later, earlier), lines())

    assert scene.watch.step() > 0
    assert scene.content == {"b": 2}  # what was deleted does not come back
    assert "out of order" in scene.problem()
    scene.watch.step()

    assert scene.lists == 2


@pytest.mark.parametrize("how", [{"cut_off": True}, {}])
def test_a_watch_that_breaks_off_in_a_line_goes_on_before_that_line(
    server: FakeApiServer, how: Any
) -> None:
    line = event("DELETED", priority("a", 7, 12))
    scene = Scene(
        server, lines(event("ADDED", priority("c", 3, 11)), line[:30], **how), lines(line)
    )

    assert scene.watch.step() > 0
    assert scene.content == {"a": 1, "b": 2, "c": 3}
    assert "the connection broke off" in scene.problem() or "middle of a line" in scene.problem()
    scene.watch.step()

    assert (scene.lists, scene.watched_from) == (1, ["10", "11"])
    assert scene.content == {"b": 2, "c": 3}


def test_a_kind_whose_watch_breaks_off_before_each_bookmark_is_listed_again(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(server, *[lines(cut_off=True)] * 2)
    scene.watch.step()
    assert scene.lists == 1

    monkeypatch.setattr(Store, "age_seconds", lambda *_: loop.SILENCE_SECONDS + 1)
    scene.watch.step()
    scene.watches = [lines()]
    scene.watch.step()

    assert scene.lists == 2


@pytest.mark.parametrize(
    "reply",
    [
        status(410, "too old resource version"),
        lines(event("ERROR", GONE)),
        lines(b"{garbage\n"),
        lines(b'{"type": "MADE", "object": {}}\n'),
        lines(event("ADDED", {"value": 1})),
        lines(event("ADDED", priority("c", 3, 11) | {"value": "high"})),
        lines(event("ADDED", priority("c", 3, 11) | {"metadata": {"resourceVersion": "x"}})),
    ],
    ids=["gone", "error", "garbage", "type", "metadata", "value", "version"],
)
def test_where_changes_may_be_missing_the_kind_is_listed_again(
    server: FakeApiServer, reply: Reply
) -> None:
    scene = Scene(server, reply, lines())

    assert scene.watch.step() > 0
    assert not scene.store.is_watched(monotonic())
    assert scene.store.is_worth_a_wait
    scene.listed, scene.version = [priority("z", 9, 30)], "30"
    assert scene.watch.step() == 0.0

    assert scene.content == {"z": 9}
    assert scene.watched_from[-1] == "30"


def test_an_object_that_cannot_be_read_is_named_until_it_can(server: FakeApiServer) -> None:
    broken = priority("c", 3, 11) | {"value": "high"}
    scene = Scene(server, lines(event("ADDED", broken)), lines())
    scene.watch.step()
    assert "The PriorityClass c cannot be read" in scene.problem()
    scene.listed = [*LISTED, broken]
    scene.watch.step()
    assert "The PriorityClass c cannot be read" in scene.problem()
    assert not scene.store.is_worth_a_wait

    scene.listed = LISTED
    scene.watch.step()

    scene.store.require(monotonic())


def test_each_failure_in_a_row_doubles_the_pause_up_to_a_bound(server: FakeApiServer) -> None:
    scene = Scene(server, *[status(500, "oh")] * 8)

    pauses = [scene.watch.step() for _ in range(8)]

    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0]
    assert scene.lists == 1
    assert "status 500: oh" in scene.problem()


def test_a_pause_lasts_for_as_long_as_retry_after(server: FakeApiServer) -> None:
    throttled = Reply(429, headers={"Retry-After": "77"})
    scene = Scene(server, throttled, status(500, "oh"))

    assert [scene.watch.step(), scene.watch.step()] == [77.0, 1.0]
    assert scene.watched_from == ["10", "10"]


def test_a_server_that_ends_each_watch_at_once_is_not_asked_without_pause(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "SHORTEST_WATCH_SECONDS", 60.0)
    scene = Scene(server, lines(), lines())

    assert [scene.watch.step(), scene.watch.step()] == [0.5, 1.0]


def test_a_watch_that_is_refused_is_not_waited_for_and_lists_no_more(server: FakeApiServer) -> None:
    scene = Scene(server, *[status(403, "no")] * 2, lines())

    scene.watch.step()
    scene.watch.step()

    assert scene.lists == 1
    assert not scene.store.is_worth_a_wait
    assert "the account may not watch priorityclasses" in scene.problem()
    scene.watch.step()
    scene.store.require(monotonic())


def test_a_list_that_fails_makes_the_kind_unknown(server: FakeApiServer) -> None:
    scene = Scene(server)
    scene.listed = status(403, "no")

    assert scene.watch.step() == 0.5

    assert "the account may not list priorityclasses" in scene.problem()
    assert not scene.store.is_worth_a_wait


def test_after_silence_the_kind_is_listed_again(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "SILENCE_SECONDS", 0.2)
    released = Event()
    part = event("ADDED", priority("c", 3, 11))[:20]
    silent = lines(part, drip=lambda: released.wait(60), cut_off=True)
    scene = Scene(server, *[silent] * 100)

    with structlog.testing.capture_logs() as logs:
        while "sent nothing" not in scene.store.problem(
            monotonic()
        ):  # a stall may keep even the head back
            assert scene.watch.step() > 0
    released.set()
    assert logs[-1]["log_level"] == "debug"
    scene.watches = [lines()]
    scene.watch.step()

    assert scene.lists == 2
    assert scene.content == {"a": 1, "b": 2}


class EndsAtOnce(Event):
    """An end that comes during the first wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        self.set()
        return True


def test_the_first_list_begins_at_a_random_moment(server: FakeApiServer) -> None:
    scene, stop = Scene(server), EndsAtOnce()
    client = scene.client._replace(stop=stop, random=lambda: 0.5, spread_seconds=3.0)
    watch = KindWatch(client, lambda _: PRIORITY_CLASSES, scene.store)

    watch.start()
    watch.join(60)

    assert stop.waits == [1.5]
    assert server.requests == []


def test_a_kind_that_the_server_lacks_is_looked_for_again(server: FakeApiServer) -> None:
    scene = Scene(server, kind=CSI_NODES)
    answers = {CSI_NODES.access.path(): NO_SUCH_PATH, "/apis": api_groups("apps")}
    server.answer = lambda request: answers[request.path]

    assert scene.watch.step() == loop.ABSENT_SECONDS

    assert scene.content == {}
    scene.store.require(monotonic())


def test_an_optional_kind_that_is_not_served_or_granted_counts_as_empty(
    server: FakeApiServer,
) -> None:
    scene = Scene(server, kind=VERTICAL_AUTOSCALERS)
    for listed in (NO_SUCH_PATH, status(403, "no")):
        scene.listed = listed
        assert scene.watch.step() == loop.ABSENT_SECONDS
        scene.store.require(monotonic())

    scene.listed = [sized(11)]
    scene.watches = [lines()]
    assert scene.watch.step() == 0.0

    assert [key for key, _ in scene.store.values] == [("Deployment", "shop", "web")]


def test_a_system_that_the_server_does_not_list_is_looked_for_again_much_later(
    server: FakeApiServer,
) -> None:
    """X3: discovered at the start and again, and not asked for in between."""
    (volcano,) = POD_GROUPS["Volcano"]
    scene = Scene(server, kind=volcano)
    server.answer = lambda request: {"/apis": api_groups("apps")}[request.path]

    assert scene.watch.step() == loop.DISCOVERY_SECONDS

    assert scene.content == {}
    scene.store.require(monotonic())
    scene.store.require(monotonic() + loop.DISCOVERY_SECONDS)  # until the next look
    with pytest.raises(ObservationError, match="last confirmed"):
        scene.store.require(monotonic() + loop.DISCOVERY_SECONDS + LONGEST_AGE_SECONDS)


@pytest.mark.parametrize("refusal", [status(404, "gone"), status(403, "no")])
def test_an_optional_kind_that_cannot_be_watched_counts_as_empty(
    server: FakeApiServer, refusal: Reply
) -> None:
    scene = Scene(server, lines(), refusal, lines(), kind=VERTICAL_AUTOSCALERS)
    scene.listed = [sized(9)]
    assert scene.watch.step() == 0.0
    assert len(scene.store) == 1

    with structlog.testing.capture_logs() as logs:
        assert scene.watch.step() == loop.ABSENT_SECONDS
    assert len(scene.store) == 0
    scene.store.require(monotonic())
    assert [entry["event"] for entry in logs] in (["kind.not_served"], ["right.not_granted"])

    assert scene.watch.step() == 0.0  # it is listed again
    assert len(scene.store) == 1
    assert scene.lists == 2


def sized(version: int) -> manifests.Object:
    document = manifests.vertical_autoscaler(manifests.recommended(cpu="1"))
    document["metadata"]["resourceVersion"] = str(version)
    return document


def test_a_builder_is_replaced_before_it_remembers_too_much(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "MOST_BUILT", 0)
    changes = [event("MODIFIED", priority("a", n, 11 + n)) for n in range(6)]
    scene = Scene(server, lines(*changes, bookmark(40)))

    scene.watch.step()

    # Two of its own, for its access and for the list; then one after the fifth change.
    assert scene.kept == [(), (), (("a", 4), ("b", 2))]
    assert scene.content == {"a": 5, "b": 2}


@pytest.mark.parametrize("label_count", [40, 800])
def test_a_pod_that_is_patched_again_and_again_is_remembered_up_to_a_number_of_bytes(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch, label_count: int
) -> None:
    monkeypatch.setattr(loop, "MOST_REMEMBERED_BYTES", 100_000)
    patched = [manifests.pod() for _ in range(60)]
    for number, document in enumerate(patched):
        labels = {f"label-{number}-{i}": "x" * 50 for i in range(label_count)}
        document["metadata"] |= {"resourceVersion": str(11 + number), "labels": labels}
    scene = Scene(server, lines(*(event("MODIFIED", each) for each in patched)))
    scene.listed = []
    remembered: list[Callable[[], int]] = []

    def kind_from(kept: Any) -> Any:
        kind = pods_kind(kept)
        remembered.append(kind.remembered_bytes)
        return kind

    KindWatch(scene.client, kind_from, scene.store).step()

    assert max(each() for each in remembered) < 130_000
    (pod,) = scene.store.values
    assert len(pod.labels) == label_count
    assert (len(remembered) > 3) is (label_count == 40)  # larger parts are not shared


def test_what_is_too_large_leaves_the_store_until_it_is_small_again(server: FakeApiServer) -> None:
    def budget(labels: int, version: int) -> manifests.Object:
        found = manifests.budget({"matchLabels": {f"key-{i}": "x" * 50 for i in range(labels)}})
        found["metadata"]["resourceVersion"] = str(version)
        return found

    scene = Scene(server, kind=BUDGETS)
    scene.listed = [budget(1, 3)]
    seen = []
    for labels, version in ((2000, 11), (1, 12), (2000, 13)):
        scene.watches.append(lines(event("MODIFIED", budget(labels, version))))
        scene.watch.step()
        seen.append((len(scene.store.values), len(scene.store.too_large)))
    scene.watches.append(lines(event("DELETED", budget(1, 14))))
    scene.watch.step()
    assert [*seen, (len(scene.store.values), len(scene.store.too_large))] == [
        (0, 1),
        (1, 0),
        (0, 1),
        (0, 0),
    ]


def test_nodes_are_watched_with_their_own_values(server: FakeApiServer) -> None:
    node = manifests.node()
    node["metadata"]["resourceVersion"] = "11"
    scene = Scene(server, lines(event("ADDED", node)), kind=NODES)
    scene.listed = []

    scene.watch.step()

    assert [each.name for each in scene.store.values] == [node["metadata"]["name"]]
