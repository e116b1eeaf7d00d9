"""Reads all Services with their labels and ports, which planning does not need."""

import msgspec

from desched.adapters.bounded_http import Deadline
from desched.adapters.kubernetes.client.access import LIST_SERVICES
from desched.adapters.kubernetes.client.connection import DEADLINE_SECONDS, KubernetesConnection
from desched.adapters.kubernetes.client.paged_reads import Reading
from desched.adapters.kubernetes.objects.metadata import texts_of
from desched.api_objects.kinds import Kind
from desched.api_objects.metadata import Int32, Named, Wire
from desched.model.measures import ServiceAddress, ServicePort

PAGE_SIZE = 500


class _Port(Wire):
    port: Int32
    name: str | None = None
    protocol: str | None = None
    target_port: Int32 | str | None = None


class _Spec(Wire):
    ports: list[_Port] | None = None


class _Service(Named):
    spec: _Spec = msgspec.field(default_factory=_Spec)


def _address(item: _Service) -> ServiceAddress:
    ports = tuple(
        ServicePort(
            port.port,
            port.name or "",
            # Without a targetPort it is the port itself.
            port.port if port.target_port is None else _number(port.target_port),
        )
        for port in item.spec.ports or ()
        if port.protocol in {None, "TCP"}
    )
    metadata = item.metadata
    return ServiceAddress(metadata.namespace, metadata.name, texts_of(metadata.labels), ports)


def _number(target_port: int | str) -> int | None:
    return target_port if isinstance(target_port, int) else None


_SERVICES = Kind(LIST_SERVICES, _Service, _address)


def read_services(
    connection: KubernetesConnection, deadline_seconds: float = DEADLINE_SECONDS
) -> tuple[ServiceAddress, ...]:
    """All Services of the cluster.

    Raises:
        ObservationError: they could not be read in time.
    """
    read = Reading(connection, PAGE_SIZE, deadline_seconds, Deadline(deadline_seconds))
    return read.all(_SERVICES)
