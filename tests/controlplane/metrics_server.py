"""The real metrics-server, behind the aggregation of the API server."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.manifests import Object, role, rule
from tests.controlplane.process import Server, free_ports
from tests.controlplane.waiting import wait_for

API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
RESOLUTION_SECONDS = 10
"""The shortest that metrics-server allows."""

_NODES = "/apis/metrics.k8s.io/v1beta1/nodes"


@contextmanager
def metrics_server(
    plane: ControlPlane, binary: Path, directory: Path, *flags: str
) -> Iterator[Server]:
    """Its flags say how it reaches kubelets; certificates are in the directory."""
    (port,) = free_ports(1)
    command: list[str | Path] = [
        binary,
        f"--kubeconfig={plane.admin_kubeconfig}",
        f"--authentication-kubeconfig={plane.admin_kubeconfig}",
        f"--authorization-kubeconfig={plane.admin_kubeconfig}",
        "--authentication-tolerate-lookup-failure",
        "--authorization-always-allow-paths=/apis,/apis/*,/openapi/*,/readyz,/livez,/healthz",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={directory}",
        "--kubelet-request-timeout=5s",
        f"--metric-resolution={RESOLUTION_SECONDS}s",
        *flags,
    ]
    server = Server("metrics-server", command, directory)
    try:
        plane.apply(*readable_by_anybody(), *aggregated("metrics-server", "metrics.k8s.io", port))
        yield server
    finally:
        # While it is registered and does not answer, no namespace can be deleted.
        plane.request("DELETE", f"{API_SERVICES}/v1beta1.metrics.k8s.io")
        wait_for("no aggregated API", lambda: plane.request("GET", _NODES)[0] == 404)
        server.stop()


def known_nodes(plane: ControlPlane) -> set[str]:
    """The nodes that it knows the load of."""
    status, answer = plane.request("GET", _NODES)
    return {each["metadata"]["name"] for each in answer["items"]} if status == 200 else set()


def aggregated(name: str, group: str, port: int) -> tuple[Object, Object]:
    """What makes the API server pass requests for a group on to a server on loopback."""
    service: Object = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {
            "type": "ExternalName",
            "externalName": "localhost",
            "ports": [{"port": port, "protocol": "TCP"}],
        },
    }
    api_service: Object = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"v1beta1.{group}"},
        "spec": {
            "group": group,
            "version": "v1beta1",
            "service": {"name": name, "namespace": "kube-system", "port": port},
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
        },
    }
    return service, api_service


def readable_by_anybody() -> list[Object]:
    """Lets metrics-server answer the API server, which has no certificate for it here.

    The API server itself has checked the rights of whoever asks.
    """
    anybody = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:anonymous"}
    rules = [rule("metrics.k8s.io", "nodes", "pods", verbs=["list"])]
    return role("metrics-of-anybody", anybody, rules)
