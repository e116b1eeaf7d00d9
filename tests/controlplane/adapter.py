"""A custom metrics API for the API server to pass requests on to, as prometheus-adapter is."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests.loopback import Handler, Server

GROUP = "custom.metrics.k8s.io"
PATH = f"/apis/{GROUP}/v1beta1"


def value(metric: str, node: str, quantity: str) -> dict[str, Any]:
    """A value of now."""
    return {
        "describedObject": {"kind": "Node", "name": node, "apiVersion": "/v1"},
        "metricName": metric,
        "timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "value": quantity,
        "selector": None,
    }


@contextmanager
def adapter(values: Mapping[str, Mapping[str, str]], certificate: Path, key: Path) -> Iterator[int]:
    """Serves the quantities of each node by metric; yields the port on loopback."""

    class Adapter(Handler):
        def respond(self) -> None:
            # By its list of resources, the API server finds that it is available.
            answer: dict[str, Any] = {
                "kind": "APIResourceList",
                "groupVersion": f"{GROUP}/v1beta1",
                "resources": [],
            }
            if unquote(self.path).startswith(f"{PATH}/nodes/*/"):
                metric = self.path.rpartition("/")[2]
                answer = {
                    "kind": "MetricValueList",
                    "apiVersion": f"{GROUP}/v1beta1",
                    "metadata": {},
                    "items": [value(metric, *each) for each in values[metric].items()],
                }
            self.reply(json.dumps(answer).encode())

    server = Server(Adapter)
    server.use_tls(certificate, key)
    with server:
        yield server.server_port
