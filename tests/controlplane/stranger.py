"""Metrics that a tenant forges: a target that Prometheus scrapes, and what it exposes."""

from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from time import monotonic
from typing import Self

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.manifests import Object

SERVICES_JOB = "kubernetes-service-endpoints"
GPU_APP, GPUS_OF_NODE, GPU_UTILIZATION = "web-gpu", 2, 30.0

Samples = Sequence[tuple[str, dict[str, str], float]]


class Stranger:
    """A tenant's pod that is scraped because of its annotation; `text` is what it exposes."""

    def __init__(self, job_name: str = "kubernetes-pods") -> None:
        self._job_name = job_name
        self.text = ""
        self.exposing: Callable[[], Samples] | None = None
        stranger = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                if stranger.exposing is not None:
                    stranger.exposes(*stranger.exposing())
                self.wfile.write(stranger.text.encode())

            def log_message(self, *_: object) -> None:
                """Keep the test output quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self._server.server_port}"

    @property
    def job(self) -> Object:
        """Scrapes as the prometheus chart does: what the pod exposes replaces the target's."""
        labels = {"namespace": "evil", "pod": "evil-1", "node": "shop-cold"}
        return {
            "job_name": self._job_name,
            "honor_labels": True,
            "static_configs": [{"targets": [self.address], "labels": labels}],
        }

    def exposes(self, *samples: tuple[str, dict[str, str], float]) -> None:
        """From the next scrape on."""
        lines = []
        for name, labels, value in samples:
            written = ",".join(f'{key}="{text}"' for key, text in labels.items())
            lines.append(f"{name}{{{written}}} {value}\n")
        self.text = "".join(lines)

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def exporter_of(plane: ControlPlane, node: str, job: str) -> dict[str, str]:
    """All labels that the target of the node's own exporter has."""
    (address,) = (
        each["address"]
        for found in plane.items("/api/v1/nodes")
        if found["metadata"]["name"] == node
        for each in found["status"]["addresses"]
        if each["type"] == "InternalIP"
    )
    return {
        "job": job,
        "instance": f"{address}:9100",
        "node": node,
        "namespace": "kube-system",
        "pod": "",  # as the exporter's; an empty one is none
        "service": "prometheus-prometheus-node-exporter",
    }


def busy_exporter(labels: dict[str, str], cores: int, busy: float) -> Callable[[], Samples]:
    """What an exporter of a node that is so busy exposes, with counters that count."""
    began = monotonic() - 3600

    def samples() -> Samples:
        seconds = monotonic() - began
        return [
            (
                "node_cpu_seconds_total",
                {**labels, "cpu": str(cpu), "mode": mode},
                seconds * share,
            )
            for cpu in range(cores)
            for mode, share in (("idle", 1 - busy), ("user", busy))
        ]

    return samples


def gpu_samples(plane: ControlPlane, node: str) -> Samples:
    """What DCGM's exporter says of a node whose GPUs are shared by the pods of `GPU_APP`."""
    pods = [pod for pod in plane.seen_pods if pod["metadata"]["name"].startswith(GPU_APP)]
    return [
        (
            "DCGM_FI_DEV_GPU_UTIL",
            {
                "node": node,
                "UUID": f"GPU-{node}-{number % GPUS_OF_NODE}",
                "namespace": pod["metadata"]["namespace"],
                "pod": pod["metadata"]["name"],
            },
            GPU_UTILIZATION,
        )
        for number, pod in enumerate(p for p in pods if p["spec"].get("nodeName") == node)
    ]
