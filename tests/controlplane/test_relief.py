"""The check for clusters with real kubelets finds a relief in this one."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.prometheus_server import PrometheusServer
from tests.controlplane.relief import NAMESPACE, WORKLOADS
from tests.repository import ROOT

WINDOW = "10s"


def test_the_check_for_any_cluster_sees_its_overload_relieved(
    control_plane: ControlPlane,
    prometheus: PrometheusServer,
    binaries: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", str(binaries["kubectl"].parent), prepend=":")
    control_plane.add_node("hot", "cool", cpu="4")
    arguments = ("--kubeconfig", control_plane.admin_kubeconfig, "--window", WINDOW)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.controlplane.relief", *arguments),
            *("--prometheus-url", prometheus.url),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 pods with load are on" in done.stdout
    nodes = [pod["spec"]["nodeName"] for pod in control_plane.pods(NAMESPACE)]
    assert 1 <= min(nodes.count("hot"), nodes.count("cool")) <= len(WORKLOADS)
