"""Metrics that a tenant forges: a target that Prometheus scrapes, and what it exposes."""

from collections.abc import Callable, Sequence
from time import monotonic, time_ns

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.manifests import Object
from tests.loopback import Handler, Server

SERVICES_JOB = "kubernetes-service-endpoints"
GPU_APP, GPUS_OF_NODE, GPU_UTILIZATION = "web-gpu", 2, 30.0

Samples = Sequence[tuple[str, dict[str, str], float]]


class Stranger(Server):
    """A tenant's pod that is scraped because of its annotation; `text` is what it exposes."""

    def __init__(self, job_name: str = "kubernetes-pods") -> None:
        self._job_name = job_name
        self.text = ""
        self.exposing: Callable[[], Samples] | None = None
        stranger = self

        class Target(Handler):
            def respond(self) -> None:
                if stranger.exposing is not None:
                    stranger.exposes(*stranger.exposing(), at=f" {time_ns() // 1_000_000}")
                self.reply(stranger.text.encode(), content_type="text/plain; version=0.0.4")

        super().__init__(Target)

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.server_port}"

    @property
    def job(self) -> Object:
        """Scrapes as the prometheus chart does: what the pod exposes replaces the target's."""
        labels = {"namespace": "evil", "pod": "evil-1", "node": "shop-cold"}
        return {
            "job_name": self._job_name,
            "honor_labels": True,
            "track_timestamps_staleness": True,
            "static_configs": [{"targets": [self.address], "labels": labels}],
        }

    def exposes(self, *samples: tuple[str, dict[str, str], float], at: str = "") -> None:
        """From the next scrape on, as of a time in milliseconds after a space, if there is one."""
        lines = []
        for name, labels, value in samples:
            written = ",".join(f'{key}="{text}"' for key, text in labels.items())
            lines.append(f"{name}{{{written}}} {value}{at}\n")
        self.text = "".join(lines)


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
