"""Services of the cluster by which something can be reached."""

from collections.abc import Mapping

import msgspec


class ServicePort(msgspec.Struct, frozen=True):
    """A port of a Service; `pod_port` is None if pods name it themselves."""

    number: int
    name: str = ""
    pod_port: int | None = None


class ServiceAddress(msgspec.Struct, frozen=True):
    """A Service with what tells what is behind it; its ports are TCP ports."""

    namespace: str
    name: str
    labels: Mapping[str, str] = {}
    ports: tuple[ServicePort, ...] = ()
