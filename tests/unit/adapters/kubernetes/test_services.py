"""Services with what tells what is behind them."""

from typing import Any

import pytest

from desched.adapters.kubernetes.services import read_services
from desched.errors import ObservationError
from desched.model.measures import ServiceAddress, ServicePort
from tests.unit.adapters.kubernetes.fake_api_server import FakeApiServer, connection_to, status

PATH = "/api/v1/services"


def service(name: str, *ports: dict[str, Any], **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "mon", "labels": labels}
    return {"metadata": metadata, "spec": {"ports": list(ports)}}


def test_labels_and_tcp_ports_are_read(server: FakeApiServer) -> None:
    server.lists[PATH] = [
        service(
            "prometheus",
            {"name": "web", "port": 80, "targetPort": 9090, "protocol": "TCP"},
            {"name": "named", "port": 81, "targetPort": "http"},
            {"port": 82},
            {"name": "dns", "port": 53, "protocol": "UDP"},
            app="prometheus",
        )
    ]
    assert read_services(connection_to(server)) == (
        ServiceAddress(
            "mon",
            "prometheus",
            {"app": "prometheus"},
            (ServicePort(80, "web", 9090), ServicePort(81, "named"), ServicePort(82, "", 82)),
        ),
    )


def test_a_service_without_ports_has_none(server: FakeApiServer) -> None:
    server.lists[PATH] = [{"metadata": {"name": "external", "namespace": "mon"}, "spec": {}}]
    assert read_services(connection_to(server)) == (ServiceAddress("mon", "external"),)


def test_a_refusal_names_the_missing_right(server: FakeApiServer) -> None:
    server.answer = lambda _: status(403, "no")
    with pytest.raises(ObservationError, match="may not list services"):
        read_services(connection_to(server))
