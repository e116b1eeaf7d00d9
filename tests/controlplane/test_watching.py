"""What is watched at a real API server is what a list of it has, whatever happens meanwhile."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import pytest
import yaml

from desched.adapters.kubernetes.client.connection import connect
from desched.adapters.kubernetes.cluster_reader import KubernetesReader
from desched.adapters.kubernetes.watch import loop
from desched.adapters.kubernetes.watch.cluster import ClusterWatch
from desched.adapters.kubernetes.watch.loop import WatchClient
from desched.adapters.kubernetes.watch.reader import WatchingReader
from desched.errors import ObservationError
from desched.model.cluster import ClusterState
from tests.controlplane import faults
from tests.controlplane.cable import Cable
from tests.controlplane.cluster import ControlPlane, UnexpectedAnswerError
from tests.controlplane.fault_proxy import ActiveFault
from tests.controlplane.manifests import (
    VERTICAL_AUTOSCALERS,
    Object,
    pod_spec,
    vertical_autoscaler,
)

SEED = 20_261_122
CHANGES = 120
NAMESPACES = ("north", "south")


class Churn:
    """Random changes of objects of many kinds, from a seed."""

    def __init__(self, plane: ControlPlane, namespaces: Sequence[str] = NAMESPACES) -> None:
        self._plane = plane
        self._namespaces = namespaces
        self._chance = random.Random(SEED)  # noqa: S311  (no secret)
        self._number = 0

    def change(self, times: int) -> None:
        """Make so many changes."""
        for _ in range(times):
            self._chance.choice(
                (self._replicas, self._replicas, self._pod, self._object, self._node)
            )()

    def _request(self, method: str, path: str, body: object = None) -> None:
        status, answer = self._plane.request(method, path, body)
        assert status < 400 or status in {404, 409}, (method, path, answer)

    def _namespace(self) -> str:
        return self._chance.choice(self._namespaces)

    def _replicas(self) -> None:
        path = f"/apis/apps/v1/namespaces/{self._namespace()}/deployments/web"
        self._request("PATCH", path, {"spec": {"replicas": self._chance.randint(0, 6)}})

    def _pod(self) -> None:
        pods = self._plane.pods(self._namespace())
        if pods:
            name, namespace = (
                self._chance.choice(pods)["metadata"][k] for k in ("name", "namespace")
            )
            path = f"/api/v1/namespaces/{namespace}/pods/{name}"
            if self._chance.random() < 0.5:
                self._request("DELETE", path, {"gracePeriodSeconds": 0})
            else:
                label = {"turn": str(self._chance.random())}
                self._request("PATCH", path, {"metadata": {"labels": label}})

    def _object(self) -> None:
        self._number += 1
        namespace, name = self._namespace(), f"object-{self._number % 7}"
        selector = {"matchLabels": {"app": f"a{self._number}"}}
        budget = {"metadata": {"name": name}, "spec": {"maxUnavailable": 1, "selector": selector}}
        path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
        self._request("DELETE", f"{path}/{name}")
        self._request("POST", path, budget)
        value = {"metadata": {"name": name}, "value": self._number}
        path = "/apis/scheduling.k8s.io/v1/priorityclasses"
        self._request("DELETE", f"{path}/{name}")
        self._request("POST", path, value)

    def _node(self) -> None:
        body = {"spec": {"unschedulable": self._chance.random() < 0.3}}
        self._request("PATCH", f"/api/v1/nodes/n{self._chance.randint(1, 3)}", body)


def deployment(namespace: str) -> Object:
    labels = {"app": "web"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec()},
        },
    }


@pytest.fixture
def cable(control_plane: ControlPlane) -> Iterator[Cable]:
    with Cable(control_plane.url) as between:
        yield between


def kubeconfig_at(url: str, plane: ControlPlane, directory: Path) -> Path:
    """The administrator's, through what listens there."""
    document = yaml.safe_load(plane.admin_kubeconfig.read_text())
    document["clusters"][0]["cluster"]["server"] = url
    path = directory / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return path


@contextmanager
def watching_of(kubeconfig: Path) -> Iterator[WatchingReader]:
    stop = Event()
    client = WatchClient(connect(kubeconfig, None, stop.wait), stop, lambda: 0.5)
    watch = ClusterWatch(client)
    try:
        yield WatchingReader(KubernetesReader(connect(kubeconfig, None)), watch, Event().wait)
    finally:
        watch.end()


@pytest.fixture
def watching(control_plane: ControlPlane, cable: Cable, tmp_path: Path) -> Iterator[WatchingReader]:
    with watching_of(kubeconfig_at(cable.url, control_plane, tmp_path)) as reader:
        yield reader


def content(cluster: ClusterState) -> dict[str, Any]:
    """What is in it, in an order of its own; what is of the requests themselves is left out."""
    found: dict[str, Any] = msgspec.structs.asdict(cluster)
    del found["server_times"], found["server_health"]
    return {
        name: sorted(value, key=repr) if isinstance(value, tuple) else value
        for name, value in found.items()
    }


def test_after_changes_and_cuts_the_watched_cluster_is_the_listed_one(
    control_plane: ControlPlane, cable: Cable, watching: WatchingReader
) -> None:
    control_plane.add_node("n1", "n2", "n3")
    for namespace in NAMESPACES:
        control_plane.create_namespace(namespace)
        control_plane.apply(deployment(namespace))
    lister = KubernetesReader(connect(control_plane.admin_kubeconfig, None))
    churn = Churn(control_plane)

    def is_equal() -> bool:
        """They are read one after the other, and controllers go on meanwhile."""
        return reads(watching) and content(watching.read_cluster()) == content(
            lister.read_cluster()
        )

    control_plane.wait_for("the first lists", is_equal)
    churn.change(CHANGES)
    control_plane.wait_for("the same after changes", is_equal)
    cable.cut()
    churn.change(CHANGES)
    control_plane.wait_for("no reading", lambda: not reads(watching))
    cable.mend()
    churn.change(CHANGES // 4)
    control_plane.wait_for("the same after a cut", is_equal)


def test_a_kind_of_an_add_on_may_come_and_go(
    control_plane: ControlPlane, watching: WatchingReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "ABSENT_SECONDS", 0.2)
    control_plane.create_namespace("north")
    control_plane.apply(deployment("north"))
    web = frozenset({("Deployment", "north", "web")})

    def is_sized_by(expected: frozenset[tuple[str, str, str]]) -> bool:
        return reads(watching) and watching.read_cluster().sized_owners == expected

    def is_applied() -> bool:
        """A kind that came back is served, and for a moment it may not be once more."""
        try:
            control_plane.apply(vertical_autoscaler("north", "1"))
        except UnexpectedAnswerError:
            return False
        return True

    control_plane.wait_for("the first lists", lambda: is_sized_by(frozenset()))
    for _ in range(2):
        control_plane.serve_vertical_autoscalers()
        control_plane.wait_for("an autoscaler", is_applied)
        control_plane.wait_for("a size", lambda: is_sized_by(web))
        control_plane.apply(vertical_autoscaler("north", "1", updatePolicy={"updateMode": "Off"}))
        control_plane.wait_for("no size", lambda: is_sized_by(frozenset()))
        control_plane.apply(vertical_autoscaler("north", "1", updatePolicy={}))
        control_plane.wait_for("a size again", lambda: is_sized_by(web))
        control_plane.delete(VERTICAL_AUTOSCALERS)
        control_plane.wait_for("no kind", lambda: is_sized_by(frozenset()))


def garbage(line: bytes) -> faults.Fault:
    """A watch that begins as it should, with this line."""
    begun = faults.Answer(200, {"Content-Type": "application/json"}, line)
    return faults.answer(f"a watch of {line[:20]!r}", begun)


ENDED = b'{"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}\n'
UNREADABLE = b'{"type": "ADDED", "object": {"metadata": {"resourceVersion": "9"}}}\n'
WATCH_PODS = r"/api/v1/pods\?watch"


def test_faults_of_a_watch_are_over_when_the_server_works_again(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "STEADY_SECONDS", 0.0)  # so that pauses stay short
    control_plane.add_node("n1", "n2", "n3")
    control_plane.create_namespace(NAMESPACES[0])
    control_plane.apply(deployment(NAMESPACES[0]))
    lister = KubernetesReader(connect(control_plane.admin_kubeconfig, None))
    churn = Churn(control_plane, NAMESPACES[:1])
    with (
        faults.FaultProxy(
            control_plane.url, control_plane.ca_file, control_plane.key_file
        ) as proxy,
        watching_of(kubeconfig_at(proxy.url, control_plane, tmp_path)) as watching,
    ):

        def is_equal() -> bool:
            return reads(watching) and content(watching.read_cluster()) == content(
                lister.read_cluster()
            )

        control_plane.wait_for("the first lists", is_equal)
        for fault in (
            faults.status(410, "too old resource version"),
            faults.status(429, retry_after_seconds=1),
            faults.status(500),
            faults.status(403),
            garbage(ENDED),
            garbage(UNREADABLE),
            garbage(b"{garbage\n"),
            garbage(b'{"type": "ADD'),
        ):
            with proxy.faulty(fault, "GET", WATCH_PODS, times=2) as active:
                with proxy.faulty(faults.REFUSED):  # ends all watches
                    churn.change(5)
                control_plane.wait_for(fault.name, partial(has_struck_twice, active))
            control_plane.wait_for(f"the same after {fault.name}", is_equal)


def has_struck_twice(fault: ActiveFault) -> bool:
    return len(fault.struck) == 2


def reads(watching: WatchingReader) -> bool:
    try:
        watching.read_cluster()
    except ObservationError:
        return False
    return True
