"""A namespace of pods that use CPU on the lab's nodes, and desched as its users have it."""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from desched.model.snapshot import Snapshot
from desched.snapshot_file.storage import load_snapshot
from tests.controlplane.installation import ALONE, COMMAND, Installation
from tests.controlplane.manifests import Object, deployment, priority_class
from tests.controlplane.replicas import Replica
from tests.controlplane.waiting import PATIENCE_SECONDS, wait_for
from tests.nodes.lab import SCRAPE_SECONDS, Lab

HOT = "node2"
WORKLOAD = "low-priority-workload"
WINDOW_SECONDS = 60
BURNER_PERCENT, STRESS_PERCENT = 12, 56
POLICY: Object = {
    "windows": {"cpu": [f"{WINDOW_SECONDS}s"], "memory": [f"{WINDOW_SECONDS}s"]},
    "evictableNamespaces": {"exclude": ["kube-system"]},
    "evictionLimits": {"workloadHourly": "100%", "slowStart": False},
    "evictionPrice": "0s",
}
"""The guide's, which is in a hurry and moves as many pods as it takes."""


def program(name: str, image: str, requests: Mapping[str, str], *arguments: str) -> Object:
    """A container of the lab's one program."""
    return {
        "name": name,
        "image": f"nodes.test/{image}:1",
        "args": list(arguments),
        "resources": {"requests": dict(requests)},
    }


class Story(Installation):
    """Three pods burn on the hot node, beside one that is pinned there."""

    def __init__(self, lab: Lab, directory: Path, name: str) -> None:
        super().__init__(lab.plane, lab.prometheus, directory)
        self.lab = lab
        self.namespace = name

    def begin(self, image: str = "burn", *arguments: str) -> None:
        """Returns when all of them run, and the other nodes take pods again."""
        self.install_permissions("overlays/evict")
        self.plane.create_namespace(self.namespace)
        self.allow_state_in(self.namespace)
        self.plane.apply(priority_class("low-priority", 1_000))
        self.lab.registry.names.add(image)
        with self.service() as first:  # so that later ones know what was evicted in their windows
            first.wait_for_cycles(1)
        others = [name for name in self.lab.nodes if name != HOT]
        self.cordon(others, unschedulable=True)
        self.plane.apply(self._workload(image, arguments), self._stress())
        self.plane.wait_for_ready_pods(self.namespace, 4)
        self.cordon(others, unschedulable=False)
        for name in others:
            self.lab.wait_until_ready(name)

    def measure(self) -> dict[str, float]:
        """How much CPU is in use, while it fills the windows."""
        return self.lab.busy(WINDOW_SECONDS + SCRAPE_SECONDS)

    def cordon(self, names: Sequence[str], *, unschedulable: bool) -> None:
        for name in names:
            body = {"spec": {"unschedulable": unschedulable}}
            status, answer = self.plane.request("PATCH", f"/api/v1/nodes/{name}", body)
            assert status == 200, answer

    def _workload(self, image: str, arguments: Sequence[str]) -> Object:
        requests = {"cpu": "75m", "memory": "64Mi"}
        fields = {"priorityClassName": "low-priority", "terminationGracePeriodSeconds": 40}
        whole = deployment(WORKLOAD, 3, "0", self.namespace, **fields)
        whole["spec"]["template"]["spec"]["containers"] = [
            program("workload", image, requests, f"-cpu={BURNER_PERCENT}", *arguments)
        ]
        return whole

    def _stress(self) -> Object:
        requests = {"cpu": "375m", "memory": "256Mi"}
        return self.pod("stress-pod", requests, f"-cpu={STRESS_PERCENT}", "-memory=200")

    def restarts(self, pod: str) -> int:
        """Of its container, once that runs again."""
        status = self.plane.get(f"/api/v1/namespaces/{self.namespace}/pods/{pod}")["status"]
        (container,) = status["containerStatuses"]
        return int(container["restartCount"]) if container["ready"] else 0

    def pod(self, name: str, requests: Mapping[str, str], *arguments: str) -> Object:
        """One that is pinned to the hot node and has no owner."""
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": HOT},
                "terminationGracePeriodSeconds": 1,
                "containers": [program(name, "burn", requests, *arguments)],
            },
        }

    def end(self) -> None:
        """Nothing of it is left, as far as the API server and the kubelets know."""
        self.plane.delete(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        )

    # What users type

    def types(
        self, command: str, *flags: str, **load_aware: Any
    ) -> subprocess.CompletedProcess[str]:
        """A command of desched to its end, as the account of its Deployment."""
        state = () if command == "doctor" else ("--state-namespace", self.namespace)
        arguments = self.arguments(*state, *flags, **{**POLICY, **load_aware})[len(COMMAND) :]
        return subprocess.run(
            [*COMMAND, command, *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    def plan(self, *flags: str, **load_aware: Any) -> Object:
        """The report of a dry run."""
        done = self.types("plan", "--output", "json", *flags, **load_aware)
        assert done.stdout, done.stderr
        report: Object = json.loads(done.stdout)
        return report

    def snapshot(self) -> Snapshot:
        """What desched has read of the cluster."""
        path = self.directory / "now.snapshot"
        done = self.types("snapshot", "-o", str(path))
        assert done.returncode == 0, done.stderr
        return load_snapshot(path).snapshot

    def plan_while_hot(self) -> Object:
        """One in which the hot node is overloaded: a look may find its newest samples missing."""
        seen: list[Any] = []

        def look() -> Object | None:
            report = self.plan()
            seen.append(verdict(report, HOT))
            return report if seen[-1]["node_class"] == "overloaded" else None

        report = wait_for("overload", look, diagnosis=lambda: f"{seen}")
        assert report is not None
        return report

    def refused(self, pod: str) -> dict[str, str]:
        """Why pods whose names begin so stay, by name, with the details."""
        return {
            each["pod"]["name"]: f"{each['reason']}: {each['detail']}"
            for each in self.plan_while_hot()["plan"]["refusals"]
            if each["pod"]["name"].startswith(pod)
        }

    @contextmanager
    def service(self, name: str = "service", *lease: str) -> Iterator[Replica]:
        """A service that evicts, one of several if it has flags of a Lease."""
        flags = ("--evict", "--interval", "5s", "--log-format", "json", *(lease or (ALONE,)))
        where = ("--listen-address", "127.0.0.1:0", "--state-namespace", self.namespace)
        command = self.arguments(*flags, *where, **POLICY)
        service = Replica(name, command, self.directory, prepare=None)
        try:
            yield service
        finally:
            service.stop(grace=PATIENCE_SECONDS)

    # What became of it

    def is_relieved(self, service: Replica) -> bool:
        """Whether it finds nothing to do once all windows show that pods were evicted."""
        evicted = [
            datetime.fromisoformat(each["requestReceivedTimestamp"]) for each in self._evictions()
        ]
        seen = timedelta(seconds=WINDOW_SECONDS + SCRAPE_SECONDS)
        return bool(evicted) and any(
            last["result"] == "nothing_to_do"
            and last.keys().isdisjoint({"overloaded", "unknown", "in_flight"})
            and datetime.fromisoformat(last["timestamp"]) > max(evicted) + seen
            for last in service.cycles[-1:]
        )

    def places(self) -> dict[str, str]:
        """The node of each pod of the workload that is Ready and stays."""
        return {
            pod["metadata"]["name"]: pod["spec"].get("nodeName", "")
            for pod in self.plane.pods(self.namespace, f"app={WORKLOAD}")
            if "deletionTimestamp" not in pod["metadata"] and is_ready(pod)
        }

    def evictions(self) -> list[str]:
        """The pods that desched has evicted, as the API server knows."""
        return [event["objectRef"]["name"] for event in self._evictions()]

    def _evictions(self) -> list[Object]:
        """What the API server has written down of them."""
        account = (self.account["namespace"], self.account["name"])
        return [
            event
            for event in self.plane.audit_events(*account)
            if event.get("objectRef", {}).get("subresource") == "eviction"
            and event["objectRef"]["namespace"] == self.namespace
            and event["responseStatus"]["code"] == 201
        ]


def is_ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def verdict(report: Object, node: str) -> Any:
    """What a report says of a node."""
    (found,) = (each for each in report["plan"]["nodes"] if each["node"] == node)
    return found


def cpu_ratio(report: Object, node: str) -> float:
    """The load of its CPU that a report shows, NaN if it is not known."""
    pressures = verdict(report, node)["pressures"]
    found = (each["measured"][0][1] for each in pressures if each["resource"] == "cpu")
    return float(next(found, "nan"))
