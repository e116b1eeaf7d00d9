"""A cluster with metrics-server alone, whose clock moves only while desched waits."""

from collections.abc import Mapping
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

from desched.service.process.clock import SystemClock
from tests.unit.adapters.kubernetes.fake_api_server import FakeApiServer, Reply, Request, status
from tests.unit.adapters.metrics_apis.test_reader import NODES, PODS, node_metrics, pod_metrics
from tests.unit.commands.test_doctor import REVIEWS


class SampledCluster:
    """What an API server answers beside its lists: that all is allowed, and samples of load.

    `usage` has the CPU of each node; `pod_usage` that of pods, by namespace and name.
    """

    def __init__(self, server: FakeApiServer) -> None:
        self.server = server
        self.usage: Mapping[str, str] = {}
        self.pod_usage: Mapping[tuple[str, str], str] = {}
        server.answer = self.answer
        self.at = SystemClock().now()

    def begin(self, seconds_ago: int) -> None:
        self.at = SystemClock().now() - timedelta(seconds=seconds_ago)
        self.move(0)

    def move(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)
        self.server.date = format_datetime(self.at, usegmt=True)
        self.server.lists[NODES] = [
            node_metrics(self.at, name, cpu=cpu) for name, cpu in self.usage.items()
        ]
        self.server.lists[PODS] = [
            self._pod(namespace, name, cpu) for (namespace, name), cpu in self.pod_usage.items()
        ]

    def _pod(self, namespace: str, name: str, cpu: str) -> dict[str, Any]:
        found: dict[str, Any] = pod_metrics(self.at, (cpu, "1Gi"), name=name)
        found["metadata"]["namespace"] = namespace
        return found

    def answer(self, request: Request) -> Reply | None:
        if request.path == REVIEWS:
            return Reply(201, {"status": {"allowed": True}})
        if request.path == "/apis":
            return Reply(body={"kind": "APIGroupList", "groups": self._groups()})
        if resources := self._resources(request.path):
            return Reply(body={"kind": "APIResourceList", "resources": resources})
        absent = "/services/" in request.path and request.path not in self.server.services
        return status(404, "not found") if absent or "/configmaps/" in request.path else None

    def _groups(self) -> list[dict[str, Any]]:
        """The API groups of the lists, each of which has one version."""
        parts = {tuple(path.split("/")[2:4]) for path in self.server.lists if "/apis/" in path}
        return [{"name": group, "versions": [{"version": v}]} for group, v in sorted(parts)]

    def _resources(self, version: str) -> list[dict[str, Any]]:
        """The kinds of a version of an API group."""
        return [
            {"name": path.rpartition("/")[2], "kind": found[0]["kind"], "namespaced": True}
            for path, found in self.server.lists.items()
            if path.rpartition("/")[0] == version and found
        ]
