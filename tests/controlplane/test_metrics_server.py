"""Metrics APIs instead of Prometheus: the README's commands lead to a plan by each.

metrics-server is the real one, the custom metrics API has a stand-in.
"""

import json
import os
import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from unittest import mock

import pytest

from desched.adapters.metrics_apis import reader
from desched.commands import plan
from tests.controlplane import forks
from tests.controlplane.adapter import PATH, adapter
from tests.controlplane.chart_rendering import DEPLOY
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.manifests import Object, deployment, usage
from tests.controlplane.metrics_server import (
    API_SERVICES,
    aggregated,
    known_nodes,
    metrics_server,
)
from tests.controlplane.waiting import wait_for
from tests.documented_commands import documented_commands

WINDOW = "20s"
NAMESPACE = "desched-system"
VOLCANO_METRICS = {
    "node_cpu_usage_avg": {"hot": "850m", "cool": "50m"},
    "node_memory_usage_avg": {"hot": "100m", "cool": "100m"},
}
VOLCANO = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: default
  pluginConfig:
  - name: LoadAware
    args:
      thresholds: {cpu: 30, memory: 30}
      targetThresholds: {cpu: 60, memory: 85}
      metrics: {type: prometheus_adaptor, averagedOver: 0s}
  plugins:
    balance:
      enabled: [LoadAware]
"""


def in_haste(home: Path) -> None:
    """Be in this folder, and let a window of seconds count, which takes two minutes otherwise."""
    os.chdir(home)
    mock.patch.object(plan, "KEPT_WINDOW_SECONDS", (10, 3600)).start()
    mock.patch.object(reader, "SAMPLE_SECONDS", 2.0).start()


def add_node(plane: ControlPlane, name: str) -> None:
    """A node whose kubelet is the exporter on loopback, by a path of its own."""
    path = f"/nodes/{name}/resource"
    own = usage("100m", "1Gi")
    plane.add_node(name, annotations={"metrics.k8s.io/resource-metrics-path": path, **own})
    node = plane.get(f"/api/v1/nodes/{name}")
    addresses = [*node["status"]["addresses"], {"type": "ExternalIP", "address": "127.0.0.1"}]
    change = {"status": {"addresses": addresses}}
    status, answer = plane.request("PATCH", f"/api/v1/nodes/{name}/status", change)
    assert status == 200, answer


@pytest.fixture
def cluster(
    control_plane: ControlPlane, metrics_server_binary: Path, tmp_path: Path
) -> Iterator[ControlPlane]:
    """A hot node, a cool one, and metrics-server, which knows both."""
    add_node(control_plane, "hot")
    namespace = control_plane.create_namespace()
    control_plane.apply(deployment("web", 4, "875m", namespace, cpu_request="100m"))
    control_plane.wait_for_ready_pods(namespace, 4)
    add_node(control_plane, "cool")
    flags = (
        "--deprecated-kubelet-completely-insecure",
        f"--kubelet-port={control_plane.metrics.port}",
        "--kubelet-preferred-address-types=ExternalIP",
    )
    with metrics_server(control_plane, metrics_server_binary, tmp_path, *flags) as server:
        server.wait_until(
            "metrics-server knows both nodes", lambda: known_nodes(control_plane) == {"hot", "cool"}
        )
        yield control_plane


def test_each_metrics_api_leads_to_a_plan(cluster: ControlPlane, tmp_path: Path) -> None:
    the_commands_of_the_readme_lead_to_a_plan(cluster, tmp_path)
    volcanos_metrics_lead_to_a_plan(cluster, tmp_path)


def the_commands_of_the_readme_lead_to_a_plan(cluster: ControlPlane, tmp_path: Path) -> None:
    _, *typed = documented_commands("README.md", "Try it")
    doctor, plan = (shlex.split(line)[1:] for line in typed)
    by = ("--kubeconfig", str(cluster.admin_kubeconfig))
    written = forks.run([*doctor, *by], partial(os.chdir, tmp_path))
    assert f"`desched {shlex.join(plan)} --wait 3m`" in written.stderr, written.stderr
    assert "type: metrics-server" in (tmp_path / "policy.yaml").read_text()

    found = evictions_planned(tmp_path, *plan, *by)
    (hot,) = (each for each in found["nodes"] if each["node_class"] == "overloaded")
    assert hot["node"] == "hot"
    measured = {each["resource"]: each["measured"][0] for each in hot["pressures"]}
    assert measured["cpu"] == [20, pytest.approx(0.9, abs=0.02)]
    assert {each["node"] for each in found["evictions"]} == {"hot"}
    assert {each["landing"][0]["node"] for each in found["evictions"]} == {"cool"}


def volcanos_metrics_lead_to_a_plan(cluster: ControlPlane, tmp_path: Path) -> None:
    """By the account and the rights that deploy/ gives, through the API server's aggregation."""
    cluster.apply((DEPLOY / "base" / "namespace.yaml").read_text(), *rights("base"))
    account = str(cluster.kubeconfig_for(NAMESPACE, "desched"))
    policy = tmp_path / "adaptor.yaml"
    policy.write_text(VOLCANO)
    plan = ("plan", "--kubeconfig", account, "--policy", str(policy))
    # metrics-server has made this certificate for itself.
    certificate, key = (tmp_path / f"apiserver.{suffix}" for suffix in ("crt", "key"))
    with adapter(VOLCANO_METRICS, certificate, key) as port:
        cluster.apply(*aggregated("adapter", "custom.metrics.k8s.io", port))
        try:
            path = f"{PATH}/nodes/*/node_cpu_usage_avg"
            wait_for("the adapter's answer", lambda: cluster.request("GET", path)[0] == 200)
            refused = forks.run(
                [*plan, "--wait", WINDOW, "-o", "json"], partial(in_haste, tmp_path)
            )
            assert refused.returncode == 3
            assert "may not get nodes/node_cpu_usage_avg in group custom.metr" in refused.stderr
            cluster.apply(*rights("custom-metrics"))
            found = evictions_planned(tmp_path, *plan)
        finally:
            cluster.request("DELETE", f"{API_SERVICES}/v1beta1.custom.metrics.k8s.io")
            wait_for("no adapter", lambda: cluster.request("GET", PATH)[0] == 404)
    (hot,) = (each for each in found["nodes"] if each["node_class"] == "overloaded")
    measured = {each["resource"]: each["measured"][0] for each in hot["pressures"]}
    assert hot["node"] == "hot"
    assert measured["cpu"] == [20, pytest.approx(0.85)]
    assert {each["landing"][0]["node"] for each in found["evictions"]} == {"cool"}


def rights(folder: str) -> tuple[str, ...]:
    """The ServiceAccount and its roles in a folder of deploy/."""
    return ((DEPLOY / folder / "rbac.yaml").read_text(),)


def evictions_planned(home: Path, *plan: str) -> Object:
    """The plan of this command by samples of some seconds, once it has evictions."""

    def planned() -> Object | None:
        typed = [*plan, "--wait", WINDOW, "-o", "json"]
        ended = forks.run(typed, partial(in_haste, home))
        last.append(f"{ended.stdout[-3000:]}\n{ended.stderr}")
        found = json.loads(ended.stdout)["plan"] if ended.returncode == 0 else {}
        return found if found.get("evictions") else None

    last: list[str] = []
    found = wait_for("a plan with evictions", planned, diagnosis=lambda: last[-1])
    assert found is not None
    return found
