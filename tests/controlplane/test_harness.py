"""The harness behaves as the real thing where the other tests rely on it."""

from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.cluster import ControlPlane, UnexpectedAnswerError
from tests.controlplane.logs import GrowingLog, events_in
from tests.controlplane.prometheus_server import PrometheusServer
from tests.controlplane.usage_exporter import CPU_ANNOTATION, UsageExporter
from tests.controlplane.waiting import wait_for

NODES = tuple(f"te{number}" for number in range(1, 6))

NODE_CPU = (
    '1 - sum by (node) (rate(node_cpu_seconds_total{mode=~"idle|iowait|steal"}[10s]))'
    " / sum by (node) (rate(node_cpu_seconds_total[10s]))"
)
POD_CPU = (
    'sum by (namespace, pod) (rate(container_cpu_usage_seconds_total{container!="",pod!=""}[10s]))'
)
NODE_MEMORY = (
    "1 - sum by (node) (node_memory_MemAvailable_bytes)"
    " / sum by (node) (node_memory_MemTotal_bytes)"
)


def test_pods_of_the_volcano_scheduler_name_are_scheduled_and_ready(
    control_plane: ControlPlane,
) -> None:
    control_plane.add_node(*NODES)
    namespace = control_plane.create_namespace()
    control_plane.apply(deployment(namespace, "web", replicas=3, scheduler="volcano"))

    pods = control_plane.wait_for_ready_pods(namespace, 3, "app=web")

    assert {pod["spec"]["schedulerName"] for pod in pods} == {"volcano"}
    assert {pod["spec"]["nodeName"] for pod in pods} <= set(NODES)


def test_a_test_finds_nothing_of_the_tests_before_it(control_plane: ControlPlane) -> None:
    assert control_plane.items("/api/v1/nodes") == []
    assert control_plane.items("/api/v1/pods") == []


def test_a_service_account_may_only_do_what_rbac_grants(control_plane: ControlPlane) -> None:
    namespace = control_plane.create_namespace()
    control_plane.kubectl("create", "serviceaccount", "reader", "-n", namespace)
    control_plane.kubectl("create", "clusterrole", "reader", "--verb=list", "--resource=pods")
    control_plane.kubectl(
        "create",
        "clusterrolebinding",
        "reader",
        "--clusterrole=reader",
        f"--serviceaccount={namespace}:reader",
    )
    kubeconfig = control_plane.kubeconfig_for(namespace, "reader")

    def lists_pods() -> bool:
        try:
            control_plane.kubectl("--kubeconfig", kubeconfig, "get", "pods", "--all-namespaces")
        except UnexpectedAnswerError:  # the authorizer learns of the ClusterRole a moment later
            return False
        return True

    control_plane.wait_for("the right to list pods", lists_pods)
    with pytest.raises(UnexpectedAnswerError, match='cannot list resource "nodes"'):
        control_plane.kubectl("--kubeconfig", kubeconfig, "get", "nodes")

    def answers() -> dict[tuple[str, str], int]:
        return {
            (event["verb"], event["objectRef"]["resource"]): event["responseStatus"]["code"]
            for event in control_plane.audit_events(namespace, "reader")
            if "objectRef" in event
        }

    expected = {("list", "pods"): 200, ("list", "nodes"): 403}
    control_plane.wait_for("the audit log has them", lambda: answers() == expected)


def test_prometheus_shows_the_load_that_annotations_state(
    control_plane: ControlPlane, prometheus: PrometheusServer
) -> None:
    control_plane.add_node("hot", "idle", cpu="4", memory="16Gi")
    namespace = control_plane.create_namespace()
    control_plane.apply(
        load_pod(namespace, "stress", "hot", cpu="2", memory="8Gi"),
        *(load_pod(namespace, f"small-{n}", "hot", cpu="500m", memory="1Gi") for n in range(3)),
    )
    control_plane.wait_for_ready_pods(namespace, 4)

    prometheus.wait_until_has(  # from then on their load alone is in the windows
        'count(container_memory_working_set_bytes{container!=""} offset 10s) == 4'
    )
    expected = {
        (NODE_CPU, "node"): {
            "hot": pytest.approx(0.875, abs=0.005),
            "idle": pytest.approx(0.0, abs=0.005),
        },
        (NODE_MEMORY, "node"): {"hot": 11 / 16, "idle": 0.0},
        (POD_CPU, "pod"): {
            "stress": pytest.approx(2.0, abs=0.05),
            **{f"small-{n}": pytest.approx(0.5, abs=0.05) for n in range(3)},
        },
    }

    def shown() -> bool:
        """What a busy machine answers too late is missing for a moment."""
        return all(by_label(prometheus, *asked) == found for asked, found in expected.items())

    control_plane.wait_for("the load that was stated", shown)


def test_counters_are_as_of_the_time_of_their_samples() -> None:
    node = {
        "metadata": {"name": "n", "annotations": {CPU_ANNOTATION: "3"}},
        "status": {
            "capacity": {"cpu": "4", "memory": "16Gi"},
            "addresses": [{"type": "InternalIP", "address": "10.1.0.1"}],
        },
    }
    exporter = UsageExporter(lambda: ([node], []))
    try:
        ((began, first),) = wait_for("the node", lambda: idle_seconds(exporter))
        ((ended, last),) = wait_for("a while", lambda: idle_seconds(exporter, began + 500))
    finally:
        exporter.stop()
    assert (last - first) / (ended - began) * 1000 == pytest.approx(1.0, abs=0.05)


def idle_seconds(exporter: UsageExporter, after_ms: int = 0) -> list[tuple[int, float]]:
    """That of all CPUs of the node, after the time of its samples; none until after a time."""
    lines = (exporter.document("n", "node-exporter") or "").splitlines()
    samples = [line.split()[1:] for line in lines if 'mode="idle"' in line]
    seconds = sum(float(value) for value, _ in samples)
    return [(int(at_ms), seconds) for _, at_ms in samples[:1] if int(at_ms) > after_ms]


def test_a_hidden_node_has_no_metrics_until_it_is_shown(
    control_plane: ControlPlane, prometheus: PrometheusServer
) -> None:
    control_plane.add_node("seen", "hidden")
    available = "node_memory_MemAvailable_bytes"
    both = {"seen", "hidden"}
    control_plane.wait_for(
        "metrics of both nodes", lambda: by_label(prometheus, available, "node").keys() == both
    )

    control_plane.metrics.hide("hidden")
    control_plane.wait_for(
        "metrics of one node", lambda: by_label(prometheus, available, "node").keys() == {"seen"}
    )

    control_plane.metrics.show("hidden")
    control_plane.wait_for(
        "metrics of both again", lambda: by_label(prometheus, available, "node").keys() == both
    )


def test_prometheus_keeps_its_url_and_data_over_a_restart(
    control_plane: ControlPlane, prometheus: PrometheusServer
) -> None:
    control_plane.add_node("te1")
    prometheus.wait_until_has("node_uname_info")
    control_plane.metrics.hide("te1")

    prometheus.stop()
    prometheus.start()

    assert prometheus.query("count_over_time(node_uname_info[1m])")


def deployment(
    namespace: str, name: str, replicas: int, scheduler: str = "default-scheduler"
) -> dict[str, Any]:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "schedulerName": scheduler,
                    "containers": [{"name": "main", "image": "registry.invalid/image"}],
                },
            },
        },
    }


def load_pod(namespace: str, name: str, node: str, cpu: str, memory: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {
                "kwok.x-k8s.io/usage-cpu": cpu,
                "kwok.x-k8s.io/usage-memory": memory,
            },
        },
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "containers": [{"name": "main", "image": "registry.invalid/image"}],
        },
    }


def by_label(prometheus: PrometheusServer, expression: str, label: str) -> dict[str, float]:
    return {
        series["metric"][label]: float(series["value"][1])
        for series in prometheus.query(expression)
    }


def test_a_line_that_is_being_written_is_read_when_it_is_complete(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text('Starting\n{"number": 1}\n{"num')
    growing = GrowingLog(log)
    assert list(growing.events()) == events_in(log) == [{"number": 1}]
    with log.open("a") as file:
        file.write('ber": 2}\n')
    assert list(growing.events()) == events_in(log) == [{"number": 1}, {"number": 2}]
    growing.forget()
    assert list(growing.events()) == []
