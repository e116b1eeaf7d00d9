"""A cluster that has only the real metrics-server: the README's commands lead to a plan."""

import json
import os
import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from unittest import mock

import pytest

from desched.adapters.metrics_server import reader
from desched.bootstrap import plan_by_samples
from tests.controlplane import forks
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.manifests import Object, deployment, usage
from tests.controlplane.process import Server, free_ports
from tests.controlplane.waiting import wait_for
from tests.documented_commands import documented_commands

NODES = "/apis/metrics.k8s.io/v1beta1/nodes"
API_SERVICE = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io"
RESOLUTION_SECONDS = 10
"""The shortest that metrics-server allows."""

WINDOW = "20s"


def in_haste(home: Path) -> None:
    """Be in this folder, and let a window of seconds count, which takes two minutes otherwise."""
    os.chdir(home)
    mock.patch.object(plan_by_samples, "KEPT_WINDOW_SECONDS", (10, 3600)).start()
    mock.patch.object(reader, "SAMPLE_SECONDS", 2.0).start()


def aggregated(port: int) -> tuple[Object, Object]:
    """What makes the API server ask metrics-server on loopback."""
    service: Object = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "metrics-server", "namespace": "kube-system"},
        "spec": {
            "type": "ExternalName",
            "externalName": "localhost",
            "ports": [{"port": port, "protocol": "TCP"}],
        },
    }
    api_service: Object = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1beta1.metrics.k8s.io"},
        "spec": {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "service": {"name": "metrics-server", "namespace": "kube-system", "port": port},
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
        },
    }
    return service, api_service


def readable_by_anybody() -> tuple[Object, Object]:
    """Lets metrics-server answer the API server, which has no certificate for it here.

    The API server itself has checked the rights of whoever asks.
    """
    group, name = "rbac.authorization.k8s.io", "metrics-of-anybody"
    role: Object = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [
            {"apiGroups": ["metrics.k8s.io"], "resources": ["nodes", "pods"], "verbs": ["list"]}
        ],
    }
    binding: Object = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "system:anonymous"}],
    }
    return role, binding


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
    (port,) = free_ports(1)
    command: list[str | Path] = [
        metrics_server_binary,
        f"--kubeconfig={control_plane.admin_kubeconfig}",
        f"--authentication-kubeconfig={control_plane.admin_kubeconfig}",
        f"--authorization-kubeconfig={control_plane.admin_kubeconfig}",
        "--authentication-tolerate-lookup-failure",
        "--authorization-always-allow-paths=/apis,/apis/*,/openapi/*,/readyz,/livez,/healthz",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={tmp_path}",
        "--deprecated-kubelet-completely-insecure",
        f"--kubelet-port={control_plane.metrics.port}",
        "--kubelet-preferred-address-types=ExternalIP",
        "--kubelet-request-timeout=5s",
        f"--metric-resolution={RESOLUTION_SECONDS}s",
    ]
    server = Server("metrics-server", command, tmp_path)
    try:
        control_plane.apply(*readable_by_anybody(), *aggregated(port))
        server.wait_until(
            "metrics-server knows both nodes", lambda: _known(control_plane) == {"hot", "cool"}
        )
        yield control_plane
    finally:
        # While it is registered and does not answer, no namespace can be deleted.
        control_plane.request("DELETE", API_SERVICE)
        wait_for("no aggregated API", lambda: control_plane.request("GET", NODES)[0] == 404)
        server.stop()


def _known(plane: ControlPlane) -> set[str]:
    status, answer = plane.request("GET", NODES)
    return {each["metadata"]["name"] for each in answer["items"]} if status == 200 else set()


def test_the_commands_of_the_readme_lead_to_a_plan(cluster: ControlPlane, tmp_path: Path) -> None:
    _, *typed = documented_commands("README.md", "Try it")
    doctor, plan = (shlex.split(line)[1:] for line in typed)
    by = ("--kubeconfig", str(cluster.admin_kubeconfig))
    hasty = partial(in_haste, tmp_path)
    written = forks.run([*doctor, *by], partial(os.chdir, tmp_path))
    assert f"`desched {shlex.join(plan)} --wait 3m`" in written.stderr, written.stderr
    assert "type: metrics-server" in (tmp_path / "policy.yaml").read_text()

    def planned() -> Object | None:
        ended = forks.run([*plan, *by, "--wait", WINDOW, "-o", "json"], hasty)
        last.append(f"{ended.stdout[-3000:]}\n{ended.stderr}")
        found = json.loads(ended.stdout)["plan"] if ended.returncode == 0 else {}
        return found if found.get("evictions") else None

    last: list[str] = []
    found = wait_for("a plan with evictions", planned, diagnosis=lambda: last[-1])
    assert found is not None
    (hot,) = (each for each in found["nodes"] if each["node_class"] == "overloaded")
    assert hot["node"] == "hot"
    measured = {each["resource"]: each["measured"][0] for each in hot["pressures"]}
    assert measured["cpu"] == [20, pytest.approx(0.9, abs=0.02)]
    assert {each["node"] for each in found["evictions"]} == {"hot"}
    assert {each["expected_node"] for each in found["evictions"]} == {"cool"}
