"""The published policy relieves a hot node, end to end: everything but the kubelet is real."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.installation import ALONE, QUICK_LEASE, WINDOW_SECONDS, Installation
from tests.controlplane.logs import events_in
from tests.controlplane.manifests import Object, deployment, pod_spec, priority_class, usage
from tests.controlplane.prometheus_server import PrometheusServer
from tests.controlplane.waiting import PATIENCE_SECONDS

DEMO = "demo"
LOW = "low-priority-workload"
LOADED = ("te1", "te2", "te4")
IDLE = "te5"
HOT = "te3"


class Scenario(Installation):
    """Nodes te1 to te5; te3 stands at 87.5 % CPU and te5 is idle."""

    def build(self, stress_priority: int | None, *guards: Object) -> None:
        """First te3 alone, so that the scheduler has no choice; then the rest of the cluster."""
        self.install_permissions()
        self.plane.create_namespace(DEMO)
        self.plane.apply(priority_class("low-priority", 1_000), priority_class("high", 10_000))
        stress: Object = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "stress", "namespace": DEMO, "annotations": usage("2")},
            "spec": pod_spec("500m"),
        }
        if stress_priority is not None:
            self.plane.apply(priority_class("stress", stress_priority))
            stress["spec"]["priorityClassName"] = "stress"
        self.plane.add_node(HOT, cpu="4")
        low = deployment(
            LOW,
            3,
            "500m",
            DEMO,
            cpu_request="300m",
            schedulerName="volcano",
            priorityClassName="low-priority",
            annotations={"volcano.sh/preemptable": "true"},
        )
        self.plane.apply(stress, low, *guards)
        names = {g["metadata"]["name"] for g in guards if g["kind"] == "Deployment"}
        for name, count in ((LOW, 3), *((name, 1) for name in names)):
            namespace = next(
                (g["metadata"]["namespace"] for g in guards if g["metadata"]["name"] == name), DEMO
            )
            self.plane.wait_for_ready_pods(namespace, count, f"app={name}")
        self.plane.add_node(*LOADED, cpu="4", labels={"role": "web"})
        self.plane.add_node(IDLE, cpu="4")
        background = deployment("web", 3, "300m", DEMO, cpu_request="250m")
        background["spec"]["template"]["spec"]["nodeSelector"] = {"role": "web"}
        self.plane.apply(background)
        self.plane.wait_for_ready_pods(DEMO, 3, "app=web")
        self.wait_until_measured()

    def wait_until_measured(self) -> None:
        """Every window is covered and the stress pod's rate is whole."""
        self.prometheus.wait_until_has(
            'sum(rate(container_cpu_usage_seconds_total{pod="stress",container!=""}'
            f"[{WINDOW_SECONDS}s])) > 1.98"
        )
        self.prometheus.wait_until_has(
            f"min(count_over_time(node_memory_MemTotal_bytes[{WINDOW_SECONDS}s]))"
            f" >= {0.8 * WINDOW_SECONDS}"
        )

    @contextmanager
    def service(self, *flags: str) -> Iterator[subprocess.Popen[str]]:
        """The loop as a process, its log in a file; ended by SIGTERM at the latest here."""
        with self.log.open("w") as log:
            process = subprocess.Popen(
                self.arguments("--log-format", "json", "--listen-address", "127.0.0.1:0", *flags),
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
            )
            try:
                yield process
            finally:
                process.kill()
                process.wait()

    @property
    def log(self) -> Path:
        return self.directory / "desched.log"

    def cycles(self) -> list[Object]:
        """The `cycle.completed` lines so far."""
        return [event for event in events_in(self.log) if event.get("event") == "cycle.completed"]

    def idle_since(self, eviction: datetime) -> list[Object]:
        """The cycles that found nothing to do in windows of after an eviction."""
        settled = eviction + timedelta(seconds=WINDOW_SECONDS + 1)
        return [
            cycle
            for cycle in self.cycles()
            if cycle["result"] == "nothing_to_do"
            and datetime.fromisoformat(cycle["timestamp"]) > settled
        ]

    def places(self, app: str) -> dict[str, str]:
        """Ready pods of an app by the node that they are on."""
        return {
            pod["metadata"]["name"]: pod["spec"]["nodeName"]
            for pod in self.plane.pods(DEMO, f"app={app}")
            if "deletionTimestamp" not in pod["metadata"] and pod["spec"].get("nodeName")
        }


@pytest.fixture
def scenario(control_plane: ControlPlane, prometheus: PrometheusServer, tmp_path: Path) -> Scenario:
    return Scenario(control_plane, prometheus, tmp_path)


def evicted(cycle: Object) -> int:
    """How many pods a cycle evicted, by its line in the log."""
    return int(cycle["verdicts"].get("evicted", 0))


def cpu_of(report: Object, node: str) -> Object:
    verdict = next(v for v in report["plan"]["nodes"] if v["node"] == node)
    return next(p for p in verdict["pressures"] if p["resource"] == "cpu")


def reasons(report: Object) -> dict[str, str]:
    """Refusals by the app of the pod."""
    return {
        re.sub(r"-[0-9a-f]+-[0-9a-z]{5}$", "", r["pod"]["name"]): r["reason"]
        for r in report["plan"]["refusals"]
    }


def test_the_service_cools_the_hot_node_once_and_then_leaves_it_alone(scenario: Scenario) -> None:
    scenario.build(1_000_000)
    before = scenario.places(LOW)
    assert set(before.values()) == {HOT}

    with scenario.service("--evict", *QUICK_LEASE, "--interval", "3s") as process:
        scenario.plane.wait_for(
            "a cycle that evicts", lambda: [c for c in scenario.cycles() if evicted(c)]
        )
        evicted_at = datetime.now(UTC)
        # Past the rest of the node and the window, several looks at the new state.
        scenario.plane.wait_for(
            "cycles on load that has settled", lambda: len(scenario.idle_since(evicted_at)) > 1
        )
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0

    cycles = scenario.cycles()
    assert sum(evicted(cycle) for cycle in cycles) == 1
    after = scenario.places(LOW)
    assert len(after) == 3
    assert len(set(before) & set(after)) == 2
    assert sorted(after.values()).count(HOT) == 2
    scenario.plane.wait_for_ready_pods(DEMO, 3, f"app={LOW}")
    settled = cpu_of(scenario.report("--dry-run"), HOT)
    assert settled["lowest_ratio"] == pytest.approx(0.75, abs=0.01)
    assert [p["metadata"]["name"] for p in scenario.plane.pods(DEMO) if "stress" in str(p)] != []
    assert scenario.plane.get(f"/api/v1/namespaces/{DEMO}/pods/stress")["status"]["phase"] == (
        "Running"
    )


def guards() -> list[Object]:
    """Pods that must stay on te3, each for a reason of its own."""
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": DEMO},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
            "volumeName": "data",
        },
    }
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "data"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "csi.test", "volumeHandle": "data"},
            "claimRef": {"namespace": DEMO, "name": "data"},
        },
    }
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "quorum", "namespace": DEMO},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "quorum"}}},
    }
    with_claim = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    return [
        volume,
        claim,
        budget,
        deployment("payments", 1, "100m", DEMO, priorityClassName="high"),
        deployment("ledger", 1, "100m", DEMO, volumes=with_claim),
        deployment("frontend", 1, "100m", "default"),
        deployment("quorum", 1, "100m", DEMO),
    ]


def test_what_is_protected_stays_and_the_report_says_why(scenario: Scenario) -> None:
    scenario.build(None, *guards())
    dry = scenario.report("--dry-run")
    assert [e["workload"] for e in dry["plan"]["evictions"]] == [f"Deployment {DEMO}/{LOW}"]
    assert not dry["outcomes"]
    assert set(scenario.places(LOW).values()) == {HOT}
    found = reasons(dry)
    assert {name: found[name] for name in ("payments", "ledger", "frontend", "quorum")} == {
        "payments": "priority_threshold",
        "ledger": "pvc_pod",
        "frontend": "namespace_excluded",
        "quorum": "budget_exhausted",
    }
    assert found["stress"] == "bare_pod"

    acted = scenario.report("--once", "--evict", ALONE)
    assert [o["verdict"] for o in acted["outcomes"]] == ["evicted"]
    planned = [
        (e["workload"], e["node"], e["reason"].split(" cpu ")[0]) for e in dry["plan"]["evictions"]
    ]
    assert planned == [
        (e["workload"], e["node"], e["reason"].split(" cpu ")[0])
        for e in acted["plan"]["evictions"]
    ]
    for name in ("payments", "ledger", "quorum"):
        assert set(scenario.places(name).values()) == {HOT}
    events = scenario.plane.items("/apis/events.k8s.io/v1/events")
    about = {
        (e["regarding"]["kind"], e["regarding"]["name"]) for e in events if "desched" in str(e)
    }
    evicted = acted["outcomes"][0]["pod"]["name"]
    assert {("Pod", evicted), ("Node", HOT)} <= about


def test_without_data_of_a_node_or_of_all_nothing_is_evicted_and_the_report_says_so(
    scenario: Scenario,
) -> None:
    scenario.plane.metrics.hide(HOT, "node-exporter")
    scenario.build(None)
    report = scenario.report("--once", "--evict", ALONE)
    verdict = next(v for v in report["plan"]["nodes"] if v["node"] == HOT)
    assert (verdict["node_class"], verdict["reason"]) == ("unknown", "absent")
    assert report["result"] == "nothing_to_do"
    assert not report["outcomes"]
    assert set(scenario.places(LOW).values()) == {HOT}

    scenario.prometheus.stop()
    done = scenario.run("--once", "--evict", ALONE)
    assert done.returncode == 3
    assert "Prometheus" in done.stderr
    assert set(scenario.places(LOW).values()) == {HOT}
    scenario.prometheus.start()
