"""The chart's objects are valid for a real API server, from helm install to helm uninstall."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from desched.adapters.kubernetes.client.access import PATCH_NODE
from desched.adapters.kubernetes.client.connection import KubernetesConnection, connect
from desched.adapters.kubernetes.permission import has_right
from desched.adapters.kubernetes.taints import KubernetesSteerer
from tests.controlplane import forks
from tests.controlplane.chart_rendering import (
    CHART,
    EVERYTHING,
    Object,
    Values,
    renderer,
    template,
)
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.manifests import custom_kind
from tests.controlplane.waiting import PATIENCE_SECONDS

NAMESPACE = "platform"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
NODE = "te1"
CLEARING = "desched-clear-soft-taints"
OPERATOR_KINDS = ("ServiceMonitor", "PrometheusRule")
UNTIL = datetime.now(UTC) + timedelta(hours=1)

VALUES: Mapping[str, Values] = {
    "defaults": {},
    "evict": {"mode": "evict", "steering": False},
    "everything": {
        **EVERYTHING,
        "image": {"repository": "registry.example.com/desched", "pullSecrets": ["registry"]},
        "schedule": {"cron": "*/10 * * * *"},
        "settings": {"DESCHED_LOG_LEVEL": "debug"},
        "prometheus": {
            "url": "https://prometheus.example.com",
            "username": "desched",
            "password": {"secret": "basic"},
            "bearerToken": {"secret": "bearer"},
            "headers": {"secret": "tenant"},
            "clientCertificate": {"secret": "tls"},
            "certificateAuthority": {"configMap": "authorities"},
        },
        "priorityClassName": "system-cluster-critical",
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "podAnnotations": {"team": "platform"},
        "serviceAccountAnnotations": {"team": "platform"},
        "networkPolicy": {"from": [{"namespaceSelector": {}}]},
        "serviceMonitor": {"enabled": True, "interval": "30s", "labels": {"release": "stack"}},
        "prometheusRule": {"enabled": True, "labels": {"release": "stack"}},
    },
    "little": {
        "steering": False,
        "podDisruptionBudget": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "rights": {"verticalPodAutoscalers": False},
    },
}


class Release:
    """Helm, on one release."""

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        self.plane = plane
        homes = {f"HELM_{kind}_HOME": str(directory / kind) for kind in ("CACHE", "CONFIG", "DATA")}
        self._environment = os.environ | homes | {"KUBECONFIG": str(plane.admin_kubeconfig)}
        self._helm = renderer("helm")

    def run(self, *arguments: str | Path) -> None:
        with self.running(*arguments):
            pass

    @contextmanager
    def running(self, *arguments: str | Path) -> Iterator[None]:
        """Helm at work, which has to succeed in the end."""
        command = [self._helm, *arguments, "--namespace", NAMESPACE]
        with subprocess.Popen(
            command,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                yield
                said, _ = process.communicate(timeout=PATIENCE_SECONDS)
            finally:
                process.kill()
        assert process.returncode == 0, said


@pytest.fixture
def release(control_plane: ControlPlane, tmp_path: Path) -> Release:
    control_plane.create_namespace(NAMESPACE, RESTRICTED)
    return Release(control_plane, tmp_path)


def test_the_api_server_takes_every_object(control_plane: ControlPlane) -> None:
    control_plane.create_namespace(NAMESPACE, RESTRICTED)
    for kind in OPERATOR_KINDS:
        control_plane.serve(custom_kind("monitoring.coreos.com", "v1", kind))

    for values in VALUES.values():
        manifests = template(renderer("helm"), values, namespace=NAMESPACE)
        dry_run = ("apply", "--server-side", "--dry-run=server", "--validate=strict")
        done = control_plane.kubectl(*dry_run, "--filename", "-", stdin=manifests)
        assert done.count("serverside-applied") == manifests.count("# Source: ")


def pods_without(plane: ControlPlane, variable: Object) -> list[str]:
    """Pods of the service that do not have it, or are going."""
    return [
        pod["metadata"]["name"]
        for pod in plane.pods(NAMESPACE, "app.kubernetes.io/name=desched")
        if variable not in pod["spec"]["containers"][0]["env"]
    ]


def wait_for_dry_run(plane: ControlPlane, *, dry_run: bool) -> None:
    plane.wait_for_ready_pods(NAMESPACE, 2, "app.kubernetes.io/name=desched")
    variable = {"name": "DESCHED_DRY_RUN", "value": str(dry_run).lower()}
    plane.wait_for(f"pods with {variable}", lambda: not pods_without(plane, variable))


def service_account(plane: ControlPlane) -> KubernetesConnection:
    return connect(plane.kubeconfig_for(NAMESPACE, "desched"), None)


def is_tainted(plane: ControlPlane) -> bool:
    taints = plane.get(f"/api/v1/nodes/{NODE}")["spec"].get("taints", [])
    return "desched.io/overloaded" in {taint["key"] for taint in taints}


def hook_pod(plane: ControlPlane) -> Object | None:
    running = (
        pod
        for pod in plane.pods(NAMESPACE, f"app.kubernetes.io/name={CLEARING}")
        if pod["status"]["phase"] == "Running"
    )
    return next(running, None)


def finish_clearing(plane: ControlPlane, service: KubernetesConnection) -> None:
    """Does what the Job's pod would do, with its account and its command, and lets it end.

    The service has no right any more to set the soft taint again.
    """
    pod = plane.wait_for("the Job's pod", lambda: hook_pod(plane))
    assert pod is not None
    plane.wait_for("no right to taint", lambda: not has_right(service, PATCH_NODE))
    assert is_tainted(plane)
    account = plane.kubeconfig_for(NAMESPACE, pod["spec"]["serviceAccountName"])
    (container,) = pod["spec"]["containers"]
    command = [*container["args"], "--kubeconfig", str(account)]
    plane.wait_for("soft taints are cleared", lambda: forks.run(command).returncode == 0)
    assert not is_tainted(plane)
    plane.kubectl(
        "annotate", "pod", pod["metadata"]["name"], "-n", NAMESPACE, "desched.test/keep-running-"
    )


def left_of_the_chart(plane: ControlPlane) -> list[str]:
    kinds = "all,cm,sa,role,rolebinding,pdb,netpol,clusterrole,clusterrolebinding"
    policies = "validatingadmissionpolicy,validatingadmissionpolicybinding"
    names = plane.kubectl("get", f"{kinds},{policies}", "-n", NAMESPACE, "-o", "name").split()
    return [name for name in names if "desched" in name]


def test_a_release_is_installed_and_evicts_and_is_rolled_back_and_leaves_nothing_behind(
    control_plane: ControlPlane, release: Release
) -> None:
    control_plane.add_node(NODE)
    keep_running = r"podAnnotations.desched\.test/keep-running=true"

    release.run("install", "desched", CHART, "--set-string", keep_running)
    wait_for_dry_run(control_plane, dry_run=True)
    assert not has_right(service_account(control_plane), PATCH_NODE)

    def switch_on() -> KubernetesConnection:
        release.run("upgrade", "desched", CHART, "--reuse-values", "--set", "mode=evict")
        wait_for_dry_run(control_plane, dry_run=False)
        service = service_account(control_plane)
        steerer = KubernetesSteerer(service)
        control_plane.wait_for("a soft taint", lambda: steerer.taint(NODE, UNTIL).done)
        return service

    service = switch_on()
    with release.running("rollback", "desched", "1"):
        finish_clearing(control_plane, service)
    wait_for_dry_run(control_plane, dry_run=True)

    service = switch_on()
    with release.running("uninstall", "desched"):
        finish_clearing(control_plane, service)
    control_plane.wait_for("nothing is left", lambda: not left_of_the_chart(control_plane))
    assert not is_tainted(control_plane)
