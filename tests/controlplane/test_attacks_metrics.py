"""A pod that Prometheus scrapes exposes others' metrics: nothing is evicted, and nothing held."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Self

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.installation import WINDOW_SECONDS
from tests.controlplane.manifests import Object
from tests.controlplane.sites import Site, Sites, evicted, verdict

SITE = "shop"
HOT = f"{SITE}-hot"
TARGETS: Object = {"targetThresholds": {"cpu": 75, "memory": 75}}
FAKE_BYTES = 9 * 2**30


class Stranger:
    """A tenant's pod that is scraped because of its annotation; `text` is what it exposes."""

    def __init__(self) -> None:
        self.text = ""
        stranger = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
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
            built.build(site)
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
