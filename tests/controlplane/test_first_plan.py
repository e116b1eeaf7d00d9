"""A new user's first plan, by the commands of the documents exactly as they stand there.

The cluster has the Prometheus of the chart kube-prometheus-stack, and Volcano's descheduler. The
user stands outside of it, so that every question to Prometheus goes through the API server. The
commands for a cluster with metrics-server alone are in `test_metrics_server.py`.
"""

import re
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from tests.controlplane import kube_prometheus_stack as stack
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.manifests import Object, deployment
from tests.controlplane.prometheus_server import PrometheusServer
from tests.controlplane.user import User
from tests.controlplane.written_history import History, write_blocks
from tests.documented_commands import documented_commands
from tests.repository import ROOT

HOT, COOL = "worker-1", ("worker-2", "worker-3")
BUSY = {HOT: 0.9} | dict.fromkeys(COOL, 0.2)
CORES = "2"
"""As many as a recorded node has."""

SHOP, VOLCANO = "shop", "volcano-system"


def volcano(**metrics: str | None) -> tuple[Object, Object]:
    """The ConfigMap and the Deployment of Volcano's installer, with this source of load."""
    config_map: Object = yaml.safe_load((ROOT / "policies" / "volcano-shipped.yaml").read_text())
    policy = yaml.safe_load(config_map["data"]["policy.yaml"])
    (args,) = (
        plugin["args"]
        for plugin in policy["profiles"][0]["pluginConfig"]
        if plugin["name"] == "LoadAware"
    )
    args["metrics"] = metrics
    config_map["data"]["policy.yaml"] = yaml.safe_dump(policy)
    descheduler = deployment("volcano-descheduler", 1, "0", VOLCANO)
    (container,) = descheduler["spec"]["template"]["spec"]["containers"]
    container["image"] = "docker.io/volcanosh/vc-descheduler:v0.1.0"
    return config_map, descheduler


@pytest.fixture(scope="module")
def cluster(
    running_control_plane: ControlPlane,
    binaries: Mapping[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ControlPlane]:
    """A hot node with a web shop and two cool ones, which Prometheus has watched for long."""
    plane = running_control_plane
    server = PrometheusServer(binaries["prometheus"], None, tmp_path_factory.mktemp("prometheus"))
    try:
        address = _built(plane, server)
        with server, plane.pod_network({address: server.url}):
            yield plane
    finally:
        plane.reset()


def _built(plane: ControlPlane, server: PrometheusServer) -> str:
    """Build it, record it, and return where its Prometheus is."""
    plane.add_node(HOT, cpu=CORES)
    for namespace in (SHOP, stack.NAMESPACE, VOLCANO):
        plane.create_namespace(namespace)
    plane.apply(deployment("web", 4, "0", SHOP, cpu_request="100m"))
    plane.wait_for_ready_pods(SHOP, 4)
    plane.add_node(*COOL, cpu=CORES)
    plane.apply(*stack.manifests(COOL[0]), *volcano(address=None, type=None))
    plane.wait_for_ready_pods(stack.NAMESPACE, 1 + len(BUSY))
    plane.wait_for_ready_pods(VOLCANO, 1)
    plane.make_older(timedelta(days=1))
    history = History(time.time())
    stack.record(plane, history, BUSY)
    write_blocks([history], server.data)
    return stack.address_of_prometheus(plane)


@pytest.fixture
def user(cluster: ControlPlane, binaries: Mapping[str, Path], tmp_path: Path) -> User:
    return User(cluster, binaries["kubectl"], tmp_path / "desched")


def assert_is_useful(plan: str) -> None:
    """It names a pod, the node that it relieves, and the one that can take it."""
    assert re.search(r"^Would evict 1 pod:\n  1\. shop/web-\S+$", plan, re.MULTILINE), plan
    assert re.search(rf"{HOT} → ({'|'.join(COOL)}) \(100 %\); 2 nodes have room", plan), plan


def test_with_kube_prometheus_stack(user: User) -> None:
    install, doctor, plan = documented_commands("README.md", "Try it")

    assert install == "make demo"
    found = " ".join(user.types(doctor).split())
    assert f"found by the labels of Service {stack.NAMESPACE}/{stack.PROMETHEUS}" in found
    assert f"Volcano descheduler in {VOLCANO}" in found
    assert_is_useful(user.types(plan))


def test_with_the_policy_of_volcano_as_it_is_deployed(cluster: ControlPlane, user: User) -> None:
    address = f"http://{stack.PROMETHEUS}.{stack.NAMESPACE}.svc.cluster.local:{stack.PORT}"
    cluster.apply(*volcano(type="prometheus", address=address))
    convert, plan = documented_commands("docs/from-volcano.md", "Migrate")

    user.types(convert)
    assert_is_useful(user.types(plan))
