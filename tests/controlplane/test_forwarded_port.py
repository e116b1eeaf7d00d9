"""`desched explain --service` from a laptop: the real API server and the kubelets' own streaming.

KWOK serves forwarded ports with the library of the container runtimes (k8s.io/cri-streaming), and
leads them to a listener on loopback here, which stands for that in the pod.
"""

import socket
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest
import yaml

from desched.adapters.kubernetes.client.answers import Answer as Answered
from desched.adapters.kubernetes.client.connection import connect
from desched.adapters.kubernetes.forwarded_port import ForwardedPort
from desched.adapters.kubernetes.permission import reviewed
from desched.adapters.running_service import PAGES_PORT
from desched.api_objects.access import Access
from desched.errors import ObservationError
from desched.service.process.http_endpoints import JSON, Answer, ListenAddress, Query, serve
from tests.controlplane.cluster import HERE, ControlPlane
from tests.controlplane.manifests import deployment, role, service_account
from tests.controlplane.process import Server, free_ports

ACCOUNT = "reader"
LONG = b"x" * 2_000_000
RULES = [
    {"apiGroups": [""], "resources": ["services"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["create"]},
]


@pytest.fixture
def pages_port() -> Iterator[int]:
    """The port of a listener on loopback."""

    def answer(query: Query) -> Answer:
        return Answer(HTTPStatus.NOT_FOUND, JSON, query["kind"].encode() + LONG)

    with serve(ListenAddress("127.0.0.1", 0), {"/explain": answer}) as bound:
        yield bound.port


def listens(port: int) -> bool:
    """Whether somebody does at this port."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def namespace(
    control_plane: ControlPlane, binaries: dict[str, Path], tmp_path: Path, pages_port: int
) -> Iterator[str]:
    """Where Service `desched` has a pod on a node whose kubelet forwards ports."""
    (port,) = free_ports(1)
    config = {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "ClusterPortForward",
        "metadata": {"name": "pages"},
        "spec": {
            "forwards": [
                {"ports": [PAGES_PORT], "target": {"address": "127.0.0.1", "port": pages_port}}
            ]
        },
    }
    (tmp_path / "forwards.yaml").write_text(yaml.safe_dump(config))
    kubelet = Server(
        "kubelet",
        [
            *(binaries["kwok"], f"--kubeconfig={control_plane.admin_kubeconfig}"),
            "--manage-nodes-with-label-selector=desched.test/of-nobody=true",
            f"--config={HERE / 'kwok.yaml'}",
            f"--config={tmp_path / 'forwards.yaml'}",
            f"--server-address=127.0.0.1:{port}",
            f"--tls-cert-file={control_plane.ca_file}",
            f"--tls-private-key-file={control_plane.key_file}",
        ],
        tmp_path,
    )
    kubelet.wait_until("the kubelet listens", lambda: listens(port))
    control_plane.add_node("n1")
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    code, found = control_plane.request("PATCH", "/api/v1/nodes/n1/status", {"status": status})
    assert code == 200, found
    namespace = control_plane.create_namespace()
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "desched", "namespace": namespace},
        "spec": {"selector": {"app": "desched"}, "ports": [{"port": 10258}]},
    }
    control_plane.apply(service, deployment("desched", 1, "10m", namespace))
    control_plane.wait_for_ready_pods(namespace, 1)
    yield namespace
    kubelet.stop()


def asked_as_a_reader(
    plane: ControlPlane, namespace: str, rules: list[dict[str, list[str]]]
) -> Answered:
    here = {"name": ACCOUNT, "namespace": namespace}
    plane.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": here},
        *role(ACCOUNT, service_account(namespace, ACCOUNT), rules, namespace),
    )
    connection = connect(plane.kubeconfig_for(namespace, ACCOUNT), None)
    (verb,), (resource,) = rules[0]["verbs"], rules[0]["resources"]
    first = Access(verb, "", resource, "", "")
    plane.wait_for("the rights of the Role", lambda: reviewed(connection, first, namespace))
    return ForwardedPort(connection, namespace, "desched", PAGES_PORT).get(
        "/explain", {"kind": "node"}
    )


def test_a_page_on_loopback_is_reached_through_the_api_server(
    control_plane: ControlPlane, namespace: str
) -> None:
    found = asked_as_a_reader(control_plane, namespace, RULES)
    assert (found.status, found.body) == (404, b"node" + LONG)
    assert found.date is not None


@pytest.mark.parametrize("without", range(len(RULES)))
def test_each_right_that_documents_name_is_needed(
    control_plane: ControlPlane, namespace: str, without: int
) -> None:
    rules = [rule for number, rule in enumerate(RULES) if number != without]
    with pytest.raises(ObservationError, match=RULES[without]["resources"][0]):
        asked_as_a_reader(control_plane, namespace, rules)


def test_a_port_where_nothing_listens_is_named(control_plane: ControlPlane, namespace: str) -> None:
    connection = connect(control_plane.admin_kubeconfig, None)
    with pytest.raises(
        ObservationError, match=r"port 1 of pod desched-.* is not reached: .*port 1"
    ):
        ForwardedPort(connection, namespace, "desched", 1).get("/explain", {})
