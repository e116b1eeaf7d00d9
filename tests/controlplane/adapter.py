"""A custom metrics API for the API server to pass requests on to, as prometheus-adapter is."""

import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote

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

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
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
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
