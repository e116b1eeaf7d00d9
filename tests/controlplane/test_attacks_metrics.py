"""A pod that Prometheus scrapes exposes others' metrics: nothing is evicted, and nothing held."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.installation import WINDOW_SECONDS
from tests.controlplane.manifests import Object
from tests.controlplane.sites import Site, Sites, evicted, verdict
from tests.controlplane.stranger import SERVICES_JOB, Stranger, busy_exporter, exporter_of
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


def test_a_forged_exporter_of_the_node_makes_it_no_source(sites: Sites, stranger: Stranger) -> None:
    """It replaces the node's own, as while that restarts, with all its labels and its CPUs."""
    hot = f"{BUSY}-hot"
    forged = exporter_of(sites.plane, hot, "node-exporter")
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
    forged = exporter_of(sites.plane, HOT, SERVICES_JOB) | {"cluster": "evil", "namespace": "evil"}
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
