"""A pod that Prometheus scrapes exposes others' metrics: nothing is evicted, and nothing held."""

from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Self

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.installation import WINDOW_SECONDS
from tests.controlplane.manifests import Object
from tests.controlplane.sites import Site, Sites, evicted, verdict
from tests.controlplane.waiting import PATIENCE_SECONDS

SITE = "shop"
HOT = f"{SITE}-hot"
BUSY = "mall"
TARGETS: Object = {"targetThresholds": {"cpu": 75, "memory": 75}}
FAKE_BYTES = 9 * 2**30


def busy() -> Site:
    """A pod that leaves would relieve a node that is as loaded as its forged exporter says."""
    site = Site(BUSY)
    site.node("hot", "cold", "cold2")
    site.workload("web", ("hot", "hot", "cold"), "900m", cpu_request="200m")
    return site


Samples = Sequence[tuple[str, dict[str, str], float]]


class Stranger:
    """A tenant's pod that is scraped because of its annotation; `text` is what it exposes."""

    def __init__(self) -> None:
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
    def job(self) -> Object:
        """Scrapes as the prometheus chart does: what the pod exposes replaces the target's."""
        target = f"127.0.0.1:{self._server.server_port}"
        labels = {"namespace": "evil", "pod": "evil-1", "node": "shop-cold"}
        return {
            "job_name": "kubernetes-pods",
            "honor_labels": True,
            "static_configs": [{"targets": [target], "labels": labels}],
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


@pytest.fixture(scope="module")
def stranger() -> Iterator[Stranger]:
    with Stranger() as started:
        yield started


@pytest.fixture(scope="module")
def sites(
    running_control_plane: ControlPlane,
    stranger: Stranger,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Sites]:
    site = Site(SITE)
    site.node("hot", "cold", "cold2")
    site.workload("web", ("hot", "hot", "cold"), "200m", cpu_request="200m")
    directory: Path = tmp_path_factory.mktemp("attacks-metrics")
    with running_control_plane.prometheus(more_jobs=[stranger.job]) as prometheus:
        built = Sites(running_control_plane, prometheus, directory)
        try:
            built.build(site, busy())
            yield built
        finally:
            running_control_plane.reset()


def working_sets(sites: Sites, **labels: str) -> list[tuple[str, dict[str, str], float]]:
    """9 GiB more for each pod on the node."""
    pods = [name for name, node in sites.where(SITE, "web").items() if node == HOT]
    return [
        (
            "container_memory_working_set_bytes",
            {"namespace": SITE, "pod": pod, "container": "x", "node": HOT, **labels},
            FAKE_BYTES,
        )
        for pod in pods
    ]


def wait_until_seen(sites: Sites, selector: str) -> None:
    sites.prometheus.wait_until_has(f"{selector} and {selector} offset {WINDOW_SECONDS}s")


def test_fake_usage_evicts_nothing_and_fake_clusters_hold_nothing(
    sites: Sites, stranger: Stranger
) -> None:
    stranger.exposes(
        *working_sets(sites),
        *(
            (name, {"node": HOT, "mode": "idle", "cpu": "0", "cluster": cluster}, 1.0)
            for name in ("node_cpu_seconds_total", "node_memory_MemTotal_bytes")
            for cluster in ("mine", "yours")
        ),
    )
    wait_until_seen(sites, 'container_memory_working_set_bytes{container="x"}')

    report = sites.look(SITE, "--evict", **TARGETS)
    assert (report["plan"].get("hold"), report["result"]) == (None, "nothing_to_do")
    assert evicted(report) == []
    assert verdict(report, HOT)["node_class"] != "unknown"


def test_fake_usage_under_the_name_of_the_kubelet_is_a_contradiction_with_a_reason(
    sites: Sites, stranger: Stranger
) -> None:
    """The node would lose a pod because of its CPU, so all that its pods use is read."""
    stranger.exposes(*working_sets(sites, job="kubernetes-nodes-cadvisor", instance=HOT, node=""))
    wait_until_seen(
        sites,
        'container_memory_working_set_bytes{container="x",job="kubernetes-nodes-cadvisor"}',
    )

    targets, low = {"cpu": 8, "memory": 75}, {"cpu": 5, "memory": 5}
    report = sites.look(SITE, "--evict", targetThresholds=targets, thresholds=low)
    assert evicted(report) == []
    found = verdict(report, HOT)
    assert (found["node_class"], found["reason"]) == ("unknown", "pods_above_node")
    assert "its pods would use 11" in found["detail"]


SERVICES_JOB = "kubernetes-service-endpoints"


def exporter_of(sites: Sites, node: str, job: str) -> dict[str, str]:
    """All labels that the target of the node's own exporter has."""
    (address,) = (
        each["address"]
        for found in sites.plane.items("/api/v1/nodes")
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


def test_a_forged_exporter_of_the_node_makes_it_no_source(sites: Sites, stranger: Stranger) -> None:
    """It replaces the node's own, as while that restarts, with all its labels and its CPUs."""
    hot = f"{BUSY}-hot"
    forged = exporter_of(sites, hot, "node-exporter")
    sites.plane.metrics.hide(hot, "node-exporter")
    stranger.exposing = busy_exporter(forged, 4, 0.93)
    try:
        before = sites.where(BUSY, "web")
        sites.prometheus.wait_until_has(
            f'count(node_cpu_seconds_total{{node="{hot}",job="node-exporter"}}'
            f" offset {WINDOW_SECONDS}s) <= 8",
            timeout=3 * PATIENCE_SECONDS,
        )

        report = sites.look(BUSY, "--evict", targetThresholds={"cpu": 75}, thresholds={"cpu": 50})

        assert (evicted(report), sites.where(BUSY, "web")) == ([], before)
        found = verdict(report, hot)
        assert (found["node_class"], found["reason"]) == ("overloaded", "load_not_shown"), found
        assert "93" in found["detail"]
        cold = [verdict(report, f"{BUSY}-{name}")["node_class"] for name in ("cold", "cold2")]
        assert cold == ["underloaded", "underloaded"]
    finally:
        stranger.exposing = None
        stranger.text = ""
        sites.plane.metrics.show(hot, "node-exporter")


def test_an_annotated_service_of_a_tenant_is_no_exporter_of_a_node(
    sites: Sites, stranger: Stranger
) -> None:
    """It claims another cluster as well, and a load near the true one."""
    forged = exporter_of(sites, HOT, SERVICES_JOB) | {"cluster": "evil", "namespace": "evil"}
    stranger.exposing = busy_exporter(forged, 4, 0.93)
    try:
        wait_until_seen(sites, f'node_cpu_seconds_total{{job="{SERVICES_JOB}"}}')
        sites.prometheus.wait_until_has(
            f'node_cpu_seconds_total{{node="{HOT}",job="node-exporter"}} and '
            f'node_cpu_seconds_total{{node="{HOT}",job="node-exporter"}} offset {WINDOW_SECONDS}s'
        )

        report = sites.look(SITE, "--evict", targetThresholds={"cpu": 75}, thresholds={"cpu": 50})

        assert (report["plan"].get("hold"), evicted(report)) == (None, [])
        assert verdict(report, HOT)["node_class"] == "underloaded"
    finally:
        stranger.exposing = None
        stranger.text = ""
