"""The tutorial for Volcano on a real API server: its objects, and its commands as they stand there.

Without room below the spine is shown on the simulated cluster only, in `tests/unit`.
"""

import re
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from tests.controlplane import kube_prometheus_stack as stack
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.manifests import HYPER_NODES, VOLCANO_GROUPS, deployment
from tests.controlplane.prometheus_server import PrometheusServer
from tests.controlplane.user import User
from tests.controlplane.written_history import History, write_blocks
from tests.documented_commands import documented_commands
from tests.unit.test_tutorial_volcano import NODES, PLACES, network, objects, shown

PAGE = "docs/tutorial-volcano.md"
BUSY = {"node0": 0.9} | dict.fromkeys(NODES[1:4], 0.2) | dict.fromkeys(NODES[4:], 0.02)
SPARE = "A training that can spare one"
NEEDS_ALL = "A training that needs all its pods"
PROMETHEUS, PORT = "prometheus-server", 9090
"""The Service of the prometheus chart, as the published policy names it."""


@pytest.fixture
def user(
    running_control_plane: ControlPlane, binaries: Mapping[str, Path], tmp_path: Path
) -> Iterator[User]:
    plane = running_control_plane
    server = PrometheusServer(binaries["prometheus"], None, tmp_path / "prometheus")
    try:
        address = _built(plane, server)
        with server, plane.pod_network({address: server.url}):
            yield User(plane, binaries["kubectl"], tmp_path / "desched")
    finally:
        plane.reset()


def _built(plane: ControlPlane, server: PrometheusServer) -> str:
    """Build the cluster of the page, record it, and return where its Prometheus is."""
    plane.add_node(*NODES, cpu="2")
    for namespace in ("train", stack.NAMESPACE):
        plane.create_namespace(namespace)
    *_, exporters = stack.manifests(NODES[-1])
    llama = deployment("llama", len(PLACES), "0", "train", schedulerName="volcano")
    metadata = llama["spec"]["template"]["metadata"]
    metadata["annotations"] |= {"scheduling.k8s.io/group-name": "llama"}
    with plane.paused_scheduler():
        plane.apply(llama)
        _place(plane)
    plane.wait_for_scheduler()
    plane.apply(exporters)
    address = published_prometheus(plane, NODES[-1])
    plane.wait_for_ready_pods("train", len(PLACES))
    plane.wait_for_ready_pods(stack.NAMESPACE, len(NODES))
    plane.make_older(timedelta(days=1))
    history = History(time.time())
    stack.record(plane, history, BUSY)
    write_blocks([history], server.data)
    return address


def published_prometheus(plane: ControlPlane, node: str) -> str:
    """Creates what the published policy expects of the prometheus chart; the pod's address."""
    pinned = {"nodeSelector": {"kubernetes.io/hostname": node}}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": PROMETHEUS, "namespace": "kube-system"},
        "spec": {
            "selector": {"app": PROMETHEUS},
            "ports": [{"name": "http", "port": 80, "targetPort": PORT}],
        },
    }
    plane.apply(deployment(PROMETHEUS, 1, "0", "kube-system", **pinned), service)
    (pod,) = plane.wait_for_ready_pods("kube-system", 1, f"app={PROMETHEUS}")
    return f"{pod['status']['podIP']}:{PORT}"


def _place(plane: ControlPlane) -> None:
    """What Volcano's scheduler does with the pods."""

    def created() -> list[str]:
        found = [pod["metadata"]["name"] for pod in plane.pods("train")]
        return found if len(found) == len(PLACES) else []

    for pod, node in zip(plane.wait_for("the training", created), PLACES, strict=True):
        path = f"/api/v1/namespaces/train/pods/{pod}/binding"
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
        status, answer = plane.request("POST", path, body)
        assert status == 201, answer


def missing(title: str, report: str) -> list[str]:
    """The lines that a section shows and the report lacks, whatever pods are called."""
    text = " ".join(report.split())
    patterns = (re.sub(r"llama\\-\d", r"llama-\\S+", re.escape(line)) for line in shown(title))
    return [each for each in patterns if re.search(each, text) is None]


def test_the_commands_of_the_tutorial_do_what_it_says(
    running_control_plane: ControlPlane, user: User
) -> None:
    """R2.2, R2.4, S2.7: by the rights, the policy, and the reports of the page."""
    plane = running_control_plane
    plane.serve(HYPER_NODES)
    plane.serve(VOLCANO_GROUPS)
    plane.apply(*network())
    (rights,) = documented_commands(PAGE, "The network")
    (plan,) = documented_commands(PAGE, NEEDS_ALL)

    user.types(rights)
    plane.apply(*objects(NEEDS_ALL))
    report = user.types(plan)
    assert missing(NEEDS_ALL, report) == [], report
    plane.apply(*objects(SPARE))
    report = user.types(plan)
    assert missing(SPARE, report) == [], report
    assert "node0 → one of 4 nodes (25 % each)" in " ".join(report.split()), report
