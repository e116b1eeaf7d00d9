"""A look has all kinds at one moment, or says which is not known and why."""

from collections.abc import Iterator
from threading import Event

import pytest

from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.adapters.kubernetes.cluster_reader import KINDS, KubernetesReader
from desched.adapters.kubernetes.objects.budgets import BUDGETS
from desched.adapters.kubernetes.watch import cluster, store
from desched.adapters.kubernetes.watch.cluster import ClusterWatch
from desched.adapters.kubernetes.watch.loop import WatchClient
from desched.adapters.kubernetes.watch.reader import WatchingReader
from desched.errors import ObservationError
from desched.model.cluster import PodRef
from desched.ports import PodToRead
from tests.unit.adapters.kubernetes import manifests
from tests.unit.adapters.kubernetes.fake_api_server import (
    FakeApiServer,
    Reply,
    Request,
    account,
    connection_to,
    status,
)

PODS = "/api/v1/pods"
PATIENCE_SECONDS = 60.0


class Scene:
    """Watches of an API server that lists one pod and sends no events."""

    def __init__(self, server: FakeApiServer) -> None:
        self.ended = Event()
        self.instead: dict[str, Reply] = {}
        self._server = server
        stop = Event()
        connection = KubernetesConnection(lambda: account(server.url), stop.wait)
        self.watch = ClusterWatch(WatchClient(connection, stop, lambda: 0.5))
        self.reader = WatchingReader(KubernetesReader(connection_to(server)), self.watch, self.wait)
        self.stopping = Event()
        server.lists[PODS] = [manifests.pod()]
        server.answer = self.answer

    def wait(self, seconds: float) -> bool:
        """Whether desched is stopping, after a pause."""
        return self.stopping.wait(seconds)

    def answer(self, request: Request) -> Reply | None:
        if request.path in self.instead:
            return self.instead[request.path]
        if "watch" in request.query:  # it lasts, and says nothing
            return Reply(body=b"", chunks=(b"",), drip=self.hold, cut_off=True)
        if "limit" in request.query:
            items = self._server.lists.get(request.path)
            return Reply(body={"metadata": {"resourceVersion": "9"}, "items": items})
        return None

    def hold(self) -> None:
        self.ended.wait(PATIENCE_SECONDS)


@pytest.fixture
def scene(server: FakeApiServer) -> Iterator[Scene]:
    found = Scene(server)
    yield found
    found.ended.set()
    found.watch.end()


def test_a_look_waits_for_the_first_lists_and_asks_for_none_again(
    server: FakeApiServer, scene: Scene
) -> None:
    first, second = scene.reader.read_cluster(), scene.reader.read_cluster()

    assert [pod.name for pod in first.pods] == [pod.name for pod in second.pods] == ["web-1"]
    lists = [r for r in server.requests if "limit" in r.query]
    assert len(lists) == len(KINDS) + 1
    assert server.paths().count("/version") == 2
    assert first.server_version == "v1.36.3"
    assert first.server_times is not None


def test_controllers_of_declared_kinds_are_listed_in_each_cycle(scene: Scene) -> None:
    kinds = [{"name": "rollouts", "kind": "Rollout", "namespaced": True}]
    groups = [{"name": "argoproj.io", "versions": [{"version": "v1"}]}]
    scene.instead |= {
        "/apis": Reply(body={"kind": "APIGroupList", "groups": groups}),
        "/apis/argoproj.io/v1": Reply(body={"kind": "APIResourceList", "resources": kinds}),
    }
    for uid in ("uid-1", "uid-2"):
        web = {"metadata": manifests.metadata("web", uid=uid)}
        listed = {"metadata": {"resourceVersion": "9"}, "items": [web]}
        scene.instead["/apis/argoproj.io/v1/rollouts"] = Reply(body=listed)
        found = scene.reader.read_cluster(["argoproj.io/Rollout"])
        assert found.declared_owners == {("shop", uid): {}}


def test_nothing_is_asked_for_before_the_first_look(server: FakeApiServer, scene: Scene) -> None:
    scene.watch.end()

    assert server.requests == []


def test_a_kind_that_cannot_be_listed_is_named(scene: Scene) -> None:
    scene.instead[BUDGETS.access.path()] = status(403, "no")

    with pytest.raises(ObservationError, match="The poddisruptionbudgets are not known"):
        scene.reader.read_cluster()


def test_only_a_server_that_works_is_believed(server: FakeApiServer, scene: Scene) -> None:
    scene.reader.read_cluster()
    server.date = ""  # as of a proxy that cannot reach it
    scene.instead["/version"] = status(503, "down")

    with pytest.raises(ObservationError, match="does not work: status 503: down"):
        scene.reader.read_cluster()
    server.date = None
    scene.instead["/version"] = status(403, "secret")
    assert scene.reader.read_cluster().server_version == ""


def test_a_kind_that_has_not_been_confirmed_for_long_is_not_used(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.reader.read_cluster()
    monkeypatch.setattr(store, "LONGEST_AGE_SECONDS", -1.0)

    with pytest.raises(ObservationError, match=r"last confirmed them \d+ s ago"):
        scene.reader.read_cluster()


def test_a_first_list_that_takes_too_long_is_not_waited_for(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "FIRST_LIST_SECONDS", 0.1)
    scene.instead[PODS] = Reply(body=b"", chunks=(b"{",), drip=scene.hold, cut_off=True)

    with pytest.raises(ObservationError, match="the first list takes too long"):
        scene.reader.read_cluster()


def test_a_stop_ends_a_look_that_waits(scene: Scene) -> None:
    scene.instead[PODS] = Reply(body=b"", chunks=(b"{",), drip=scene.hold, cut_off=True)
    scene.stopping.set()

    with pytest.raises(ObservationError, match="desched is stopping"):
        scene.reader.read_cluster()


def test_watches_end_although_the_server_says_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_STOPPING_SECONDS", PATIENCE_SECONDS)
    scene.reader.read_cluster()
    threads = [watch._thread for watch in scene.watch._watches]  # noqa: SLF001  (seen nowhere else)
    assert all(thread.is_alive() for thread in threads)

    scene.watch.end()

    assert not any(thread.is_alive() for thread in threads)


def test_a_pod_is_looked_at_afresh(server: FakeApiServer, scene: Scene) -> None:
    server.answer = lambda _: status(404, "not found")

    assert scene.reader.read_around([PodToRead(PodRef("shop", "web-1"))]) == [None]
