"""What the load reader makes of real Prometheus data, as the common installations label it.

Every stack is history that promtool writes into one Prometheus, told apart by a label `stack`; so
the reader's matchers are in every query.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.reader import PrometheusLoadReader
from desched.model.cluster import ClusterState, HostPort, Node, Pod, SchedulingClass
from desched.model.load import (
    ClusterLoad,
    LoadProblem,
    Measured,
    PodChoice,
    PodPast,
    Unknown,
    UnknownReason,
)
from desched.model.resources import Amounts, Resource
from desched.plugins import HOUSE
from desched.plugins.gpus.load import GpuLoad
from desched.policy.policy import DestinationWindow, MetricsSource, Policy, ResourceRule
from desched.ports import ChoosePods, all_pods
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.prometheus_server import PrometheusServer
from tests.controlplane.written_history import (
    HISTORY_SECONDS,
    KUBELET,
    Curve,
    History,
    Labels,
    Times,
    rising,
    scraped,
    write_blocks,
)

ODD_NAME = 'odd "name" \\'


def write_five_regimes(history: History) -> None:
    by_instance = {"instance": "n-a", "namespace": "monitoring", "pod": "ne-a"}
    by_node_label = {"instance": "10.0.0.2:9100", "node": "n-b"}
    by_exporter_pod = {"instance": "10.0.0.3:9100", "namespace": "mon", "pod": "ne-c"}
    by_reported_name = {"instance": "192.0.2.4:9100"}
    by_address = {"instance": "n-e:9100"}
    for labels, busy, used in (
        (by_instance, 0.25, 0.4),
        (by_node_label, 0.5, 0.5),
        (by_exporter_pod, 0.75, 0.6),
        (by_reported_name, 0.9, 0.7),
    ):
        history.cpu(labels, busy)
        history.memory(labels, used)
    history.cpu(by_address, 0.1)
    history.gauge("node_uname_info", {"nodename": "n-a.internal", **by_instance})
    history.gauge("node_uname_info", {"nodename": "n-d", **by_reported_name})
    joined = scraped(since=90)
    history.cpu({"instance": "10.0.0.6:9100", "node": "n-f"}, 0.03, joined)
    history.cpu({"instance": "198.51.100.1:9100"}, 0.5)


HOT_SINCE_SECONDS_AGO = 8 * 60


def turning(before: float, after: float, at: float) -> Curve:
    """A counter that rises by one rate, and by another from a time on."""
    return lambda t: before * min(t, at) + after * max(0.0, t - at)


def write_lasting(history: History) -> None:
    """n-a has been hot all the time, n-b since a while ago; n-c was scraped for nine minutes.

    A window of five minutes then is covered at one of its points at least, whatever the time.
    """
    turned_hot = HISTORY_SECONDS - HOT_SINCE_SECONDS_AGO
    history.cpu({"node": "n-a"}, 0.9)
    history.cpu({"node": "n-c"}, 0.9, scraped(since=9 * 60))
    for mode, before, after in (("idle", 0.9, 0.1), ("user", 0.1, 0.9)):
        history.series(
            "node_cpu_seconds_total",
            {"node": "n-b", "cpu": "0", "mode": mode},
            scraped(),
            turning(before, after, turned_hot),
        )
    for name, share in (("web", 0.5), ("nolabel", 0.1)):
        labels = {"namespace": "a" if name == "web" else "c", "pod": name, "container": "c1"}
        labels["node"] = "n-a"
        for metric, rate in (("throttled_periods", 10 * share), ("periods", 10)):
            history.series(f"container_cpu_cfs_{metric}_total", labels, scraped(), rising(rate))


def write_pods(history: History) -> None:
    history.cpu({"node": "n-f"}, 0.1)  # without any node, nobody needs the past of pods
    web = {"namespace": "a", "pod": "web", "image": "x", "instance": "n-a"}
    for container, job, cores, used in (
        ("c1", "kubelet", 0.5, 100),
        ("c1", "kubernetes-nodes-cadvisor", 0.5, 100),
        ("c2", "kubelet", 0.25, 50),
        ("POD", "kubelet", 1, 7),
        ("", "kubelet", 2, 157),
    ):
        labels = {**web, "container": container, "job": job, "id": f"/kubepods/podweb/{container}"}
        history.container_cpu(labels, cores)
        history.container_memory(labels, used)
    unlabelled = {"namespace": "c", "pod": "nolabel", "node": "n-a", "id": "/kubepods/podnolabel"}
    history.container_cpu(unlabelled, 0.5)
    history.container_memory(unlabelled, 70)


def write_pods_root(history: History) -> None:
    """The kubelet's cgroup of all pods: by systemd and by cgroupfs, and none on n-c."""
    for name, cgroup in (("n-a", "/kubepods.slice"), ("n-b", "/kubepods"), ("n-c", "/other")):
        labels = {"node": name, "instance": f"{name}:10250"}
        web = {**labels, "namespace": "a", "pod": f"web-{name}", "container": "c1"}
        for each, cores, used in ((web, 0.25, 50), ({**labels, "id": cgroup}, 0.5, 70)):
            history.container_cpu(each, cores)
            history.container_memory(each, used)


def write_only_cadvisor(history: History) -> None:
    for labels, cores, used in (
        ({"instance": "10.0.0.1:10250", "node": "n-a"}, 1, 40),
        ({"instance": "n-b"}, 2, 30),
    ):
        history.container_cpu({"id": "/", "cpu": "total", **labels}, cores)
        history.container_memory({"id": "/", **labels}, used)
        history.gauge("machine_cpu_cores", labels, 4)
        history.gauge("machine_memory_bytes", labels, 100)


def write_gaps(history: History) -> None:
    before_and_after = [*scraped(until=540.0), *scraped(since=120.0)]
    history.cpu({"instance": "n-a"}, 0.1, before_and_after)
    history.cpu({"instance": "n-b"}, 0.1, scraped(until=240.0))
    late_twice = [*scraped(until=242.0), *scraped(since=122.0)]
    history.cpu({"instance": "n-c"}, 0.1, late_twice)
    history.cpu({"instance": "n-d"}, 0.1)


def write_exporter_restarts(history: History) -> None:
    old, new = {"namespace": "mon", "pod": "ne-old"}, {"namespace": "mon", "pod": "ne-a"}
    history.cpu({"instance": "n-a", **old}, 0.9, scraped(until=20 * 60.0))
    history.cpu({"instance": "n-a", **new}, 0.3, scraped(since=20 * 60.0))
    history.cpu({"instance": "n-b", **old}, 0.9, scraped(until=120.0))
    history.cpu({"instance": "n-b", "namespace": "mon", "pod": "ne-b"}, 0.3, scraped(since=100.0))


def write_old_kernel(history: History) -> None:
    for part, share in (("Buffers", 50), ("Cached", 200), ("MemFree", 100), ("Slab", 50)):
        history.gauge(f"node_memory_{part}_bytes", {"instance": "n-a"}, share)
    history.gauge("node_memory_MemTotal_bytes", {"instance": "n-a"}, 1000)


def write_two_clusters(history: History) -> None:
    history.cpu({"instance": "n-a", "cluster": "eu"}, 0.2)
    history.cpu({"instance": "n-a", "cluster": "us"}, 0.8)


def write_started_lately(history: History) -> None:
    for name in ("n-a", "n-b"):
        history.cpu({"instance": name}, 0.03, scraped(since=92.0, every=15.0))


def write_fast_scrapes(history: History) -> None:
    history.cpu({"instance": "n-a"}, 0.875, scraped(since=120.0, every=1.0))


def write_incomplete_cpus(history: History) -> None:
    """All nodes are as busy; n-b lacks half of its CPUs, n-c what it is busy with, n-d idleness."""
    history.cpu({"instance": "n-a"}, 0.9)
    for name, cpus, modes in (
        ("n-b", ("0",), {"idle": 0.05, "iowait": 0.05, "user": 0.9}),
        ("n-c", ("0", "1"), {"idle": 0.05, "iowait": 0.05}),
        ("n-d", ("0", "1"), {"user": 0.7, "system": 0.2}),
    ):
        for cpu in cpus:
            for mode, share in modes.items():
                labels = {"instance": name, "cpu": cpu, "mode": mode}
                history.series("node_cpu_seconds_total", labels, scraped(), rising(share))


BY_STACK: Mapping[str, tuple[Labels, Labels]] = {
    "kube-prometheus": (
        {"job": "node-exporter", "instance": "n-a", "namespace": "monitoring", "pod": "ne-a"},
        {**KUBELET, "node": "n-a", "instance": "10.0.0.1:10250", "service": "kubelet"},
    ),
    "kube-prometheus-stack": (
        {"job": "node-exporter", "instance": "10.0.0.1:9100", "namespace": "mon", "pod": "ne-a"},
        {**KUBELET, "node": "n-a", "instance": "10.0.0.1:10250", "endpoint": "https-metrics"},
    ),
    "prometheus chart": (
        {"job": "kubernetes-service-endpoints", "instance": "10.0.0.1:9100", "node": "n-a"},
        {"job": "kubernetes-nodes-cadvisor", "instance": "n-a", "metrics_path": ""},
    ),
    "OpenShift": (
        {"job": "node-exporter", "instance": "n-a", "container": "kube-rbac-proxy"},
        {**KUBELET, "node": "n-a", "instance": "10.0.0.1:10250"},
    ),
    "VictoriaMetrics": (
        {"job": "node-exporter", "instance": "10.0.0.1:9100", "namespace": "mon", "pod": "ne-a"},
        {**KUBELET, "node": "n-a", "instance": "n-a"},
    ),
    "Google": (
        {"job": "node-exporter", "instance": "n-a:metrics", "node": "n-a"},
        {"job": "kubelet", "metrics_path": "", "node": "n-a", "instance": "n-a:cadvisor/metrics"},
    ),
    "Azure": (
        {"job": "node", "instance": "n-a"},
        {"job": "cadvisor", "metrics_path": "", "instance": "n-a"},
    ),
    "Alloy": (
        {"job": "integrations/node_exporter", "instance": "n-a"},
        {"job": "integrations/kubernetes/cadvisor", "metrics_path": "", "instance": "n-a"},
    ),
}
"""How each stack labels node_exporter and cAdvisor; an empty label is as none."""

STRANGER: Labels = {"job": "kubernetes-pods", "metrics_path": "", "instance": "10.0.9.9:8080"}


def write_stack(name: str) -> Callable[[History], None]:
    def write(history: History) -> None:
        exporter, kubelet = BY_STACK[name]
        history.cpu(exporter, 0.5)
        history.memory(exporter, 0.4)
        web = {"namespace": "a", "pod": "web", "container": "c1", **kubelet}
        history.container_cpu(web, 0.25)
        history.container_memory(web, 50)

    return write


def write_strangers(history: History) -> None:
    """Scraped pods that expose what the exporters do, about others or about themselves."""
    write_stack("kube-prometheus-stack")(history)
    history.gauge("node_memory_MemFree_bytes", BY_STACK["kube-prometheus-stack"][0], 400)
    history.gauge("node_memory_Inactive_file_bytes", BY_STACK["kube-prometheus-stack"][0], 100)
    for cluster in ("mine", "yours"):
        for name in ("n-a", "n-b"):
            forged = {**STRANGER, "node": name, "cluster": cluster}
            history.cpu(forged, 0.9)
            history.memory(forged, 0.9)
    about_web = {"namespace": "a", "pod": "web", "container": "c1", "node": "n-a"}
    history.container_memory({**STRANGER, **about_web}, 900)
    history.container_cpu({**STRANGER, **about_web}, 3)
    # Labels of the target may be forged as well where Prometheus honours those of the exposition.
    elsewhere = {**about_web, **KUBELET, "node": "n-b", "instance": "n-b"}
    history.container_memory(elsewhere, 900)


def write_gpus(history: History) -> None:
    """DCGM's exporters of both generations, with MIG instances, and with pods on their GPUs."""
    exporter = {"job": "nvidia-dcgm-exporter", "namespace": "gpu", "pod": "nvidia-dcgm-exporter-a"}
    utilization, engine = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
    for gpu, busy in (("u0", 80), ("u1", 100)):
        older = {**exporter, "Hostname": "n-a", "UUID": gpu, "exported_pod": "train"}
        history.gauge(utilization, older, busy)
    newer = {"job": "dcgm-exporter", "hostname": "n-b", "UUID": "u2"}
    shared = {**newer, "namespace": "a", "container": "main"}
    history.gauge(utilization, {**shared, "pod": "web"}, 30)
    history.gauge(utilization, {**shared, "pod": "other"}, 30, scraped(until=100.0))
    history.gauge(utilization, {**shared, "pod": "next"}, 30, scraped(since=99.0))
    relabelled = {**newer, "hostname": "dcgm-xyz", "node": "n-c", "UUID": "u3"}
    history.gauge(utilization, relabelled, 50)
    for instance, share in (("1", 0.2), ("2", 0.6)):
        parts = {**newer, "hostname": "n-d", "UUID": "u4", "GPU_I_ID": instance}
        history.gauge(engine, parts, share)
    history.gauge(utilization, {**newer, "hostname": "n-d", "UUID": "u5"}, 100)
    history.gauge(engine, {**newer, "hostname": "n-d", "UUID": "u5"}, 0.7)
    history.gauge(utilization, {**newer, "hostname": "n-e"}, 10, scraped(until=240.0))
    history.gauge(utilization, {**STRANGER, "hostname": "n-f", "UUID": "u6"}, 10)


JOINED_SECONDS_AGO = 15 * 60


def write_shared_gpus(history: History) -> None:
    """GPUs of several pods, as exporters name them that know of shared ones, and one that does not.

    Without `honor_labels` Prometheus calls the pod `exported_pod`, and an idle GPU has the pod of
    the exporter.
    """
    utilization, engine = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
    exporter = {"job": "dcgm-exporter", "namespace": "gpu", "pod": "dcgm-exporter-a"}

    def gauge(
        metric: str, value: float, where: Labels, user: str = "", times: Times | None = None
    ) -> None:
        named = {"exported_namespace": "a", "exported_pod": user} if user else {}
        history.gauge(metric, {**exporter, **named, **where}, value, times)

    older = {"Hostname": "n-a", "UUID": "u0"}
    gauge(utilization, 80, {**older, "vgpu": "0"}, "web")
    gauge(utilization, 80, {**older, "vgpu": "1"}, "other")
    gauge(utilization, 60, {**older, "UUID": "u1"}, "big")
    gauge(utilization, 40, {**older, "UUID": "u2"})
    for pod in ("mig-1", "mig-2"):
        kept = {"namespace": "a", "pod": pod, "UUID": "u3", "GPU_I_ID": "1"}
        gauge(engine, 0.6, {"hostname": "n-b", **kept})
    gauge(engine, 0.0, {"hostname": "n-b", "UUID": "u3", "GPU_I_ID": "2", "pod": ""})
    gauge(utilization, 80, {"hostname": "n-c", "UUID": "u4"}, "early")
    joined = scraped(since=JOINED_SECONDS_AGO)
    gauge(utilization, 80, {"hostname": "n-c", "UUID": "u4"}, "late", joined)
    gauge(utilization, 90, {"hostname": "n-d", "UUID": "u5"}, "named")
    gauge(utilization, 100, {"hostname": "n-e", "UUID": "u6"}, "train")


STACKS = {
    "gpus": write_gpus,
    "shared-gpus": write_shared_gpus,
    **{name: write_stack(name) for name in BY_STACK},
    "strangers": write_strangers,
    "regimes": write_five_regimes,
    "pods": write_pods,
    "pods-root": write_pods_root,
    "cadvisor": write_only_cadvisor,
    "gaps": write_gaps,
    "restarts": write_exporter_restarts,
    "old-kernel": write_old_kernel,
    "two-clusters": write_two_clusters,
    "started-lately": write_started_lately,
    "fast-scrapes": write_fast_scrapes,
    ODD_NAME: write_only_cadvisor,
    "lasting": write_lasting,
    "incomplete-cpus": write_incomplete_cpus,
}


def node(name: str, *addresses: str, gpus: int = 0) -> Node:
    long_ago = datetime.now(UTC) - timedelta(days=1)
    free = Amounts(extended=(("nvidia.com/gpu", gpus),))
    return Node(name, f"uid-{name}", long_ago, {}, Amounts(), free, addresses=addresses)


def pod(namespace: str, name: str, on: str = "", gpus: int = 0) -> Pod:
    requests = SchedulingClass(Amounts(extended=(("nvidia.com/gpu", gpus),)))
    long_ago = datetime.now(UTC) - timedelta(days=1)
    return Pod(namespace, name, f"uid-{name}", requests, long_ago, node=on)


NODES = tuple(node(f"n-{letter}") for letter in "abcdef")
EXPORTERS = (
    replace(
        pod("monitoring", "ne-a", "n-a"),
        scheduling=SchedulingClass(Amounts(), host_ports=(HostPort(9100),)),
    ),
    *(pod("mon", f"ne-{letter}", f"n-{letter}") for letter in "abc"),
)


ALL_PODS = (
    *(*EXPORTERS, pod("a", "web", "n-a"), pod("c", "nolabel", "n-a")),
    *(pod("d", f"without-data-{number}", "m-0") for number in range(10)),
)
"""Those without data keep the others from being most pods."""


def read(
    url: str,
    stack: str | None,
    *windows_seconds: int,
    nodes: Sequence[Node] = NODES,
    queries: Labels | None = None,
    sources: Labels | None = None,
    destination_windows: tuple[DestinationWindow, ...] = (),
    choose: ChoosePods = all_pods,
    resources: Sequence[Resource] = (Resource.CPU, Resource.MEMORY),
    pods: Sequence[Pod] = ALL_PODS,
    reader: PrometheusLoadReader | None = None,
) -> ClusterLoad:
    """The load of a stack over the windows, for all resources alike, by a new reader or this."""
    rules = tuple(
        ResourceRule(resource, 0.3, 0.8, 0.05, 0.1, windows_seconds, destination_windows)
        for resource in resources
    )
    matchers = {"stack": stack} if stack else {}
    source = MetricsSource(url, matchers, queries or {}, sources or {})
    reader = reader or PrometheusLoadReader(PrometheusConnection(url=url), lambda _: False)
    try:
        return reader.read_load(
            ClusterState(nodes=tuple(nodes), pods=tuple(pods)),
            Policy("test", "", rules, source, plugins=HOUSE),
            choose,
        )
    finally:
        reader.close()


def ratios(load: ClusterLoad, resource: Resource) -> dict[str, float | UnknownReason]:
    """By node: the level of the shortest window, or why there is none."""
    return {
        name: round(found.levels[0].ratio, 6) if isinstance(found, Measured) else found.reason
        for name, loads in load.nodes.items()
        for found in [loads[resource]]
    }


def unknown(load: ClusterLoad, name: str, resource: Resource = Resource.CPU) -> Unknown:
    found = load.nodes[name][resource]
    assert isinstance(found, Unknown), found
    return found


@pytest.fixture(scope="module")
def written_at() -> float:
    """When the history was written."""
    return time.time()


@pytest.fixture(scope="module")
def url(
    binaries: Mapping[str, Path], written_at: float, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("prometheus")
    histories = [History(written_at, {"stack": stack}) for stack in STACKS]
    for history, write in zip(histories, STACKS.values(), strict=True):
        write(history)
    server = PrometheusServer(binaries["prometheus"], None, directory)
    write_blocks(histories, server.data)
    with server:
        yield server.url


def test_each_labelling_regime_gives_each_node_its_cpu_load(url: str) -> None:
    """S2.7: by name, label, pod, reported name, or address."""
    load = read(url, "regimes", 300, 900)

    assert ratios(load, Resource.CPU) == {
        "n-a": 0.25,
        "n-b": 0.5,
        "n-c": 0.75,
        "n-d": 0.9,
        "n-e": 0.1,
        "n-f": UnknownReason.WINDOW_NOT_COVERED,
    }
    assert load.problems == ()


def test_each_labelling_regime_gives_each_node_its_memory_load(url: str) -> None:
    assert ratios(read(url, "regimes", 300), Resource.MEMORY) == {
        "n-a": 0.4,
        "n-b": 0.5,
        "n-c": 0.6,
        "n-d": 0.7,
        "n-e": UnknownReason.ABSENT,
        "n-f": UnknownReason.ABSENT,
    }


@pytest.mark.parametrize("stack", BY_STACK)
def test_the_exporters_of_each_usual_stack_are_believed(url: str, stack: str) -> None:
    """S2.7: scraped each minute at addresses with ports, too, and with the built-in queries."""
    load = read(url, stack, 300, nodes=[node("n-a", "10.0.0.1")])

    assert ratios(load, Resource.CPU) == {"n-a": 0.5}
    assert ratios(load, Resource.MEMORY) == {"n-a": 0.4}
    assert load.pods["a", "web"].cpu_millicores == pytest.approx((250.0,))
    assert load.pods["a", "web"].memory_bytes == (50.0,)


OTHERS = tuple(node(f"m-{number}") for number in range(5))
"""Nodes without any data, so that one node is not most nodes."""


@pytest.mark.parametrize("stack", [*BY_STACK, "strangers"])
def test_the_pods_of_chosen_nodes_are_measured_as_in_a_reading_of_all_pods(
    url: str, stack: str
) -> None:
    nodes = [node("n-a", "10.0.0.1"), *OTHERS]
    chosen = PodChoice(frozenset({"n-a"}))
    everything = read(url, stack, 300, 900, nodes=nodes)

    some = read(url, stack, 300, 900, nodes=nodes, choose=lambda _: chosen)

    assert some.pods_of == chosen
    assert some.pods.keys() == everything.pods.keys()
    for key, usage in everything.pods.items():
        assert some.pods[key].cpu_millicores == pytest.approx(usage.cpu_millicores, rel=0.02)
        assert some.pods[key].memory_bytes == pytest.approx(usage.memory_bytes)
    assert some.throttled == everything.throttled


SUM = PodChoice(sums=frozenset({"n-a"}))


def test_the_cgroup_of_all_pods_is_their_sum_where_it_is_scraped(url: str) -> None:
    choice = PodChoice(sums=frozenset({"n-a", "n-b", "n-c"}))

    load = read(url, "pods-root", 300, choose=lambda _: choice)

    sums = {name: of[Resource.MEMORY] for name, of in load.pod_sums.items()}
    assert sums == {"n-a": (70.0,), "n-b": (70.0,), "n-c": (50.0,)}
    for name, millicores in (("n-a", 500.0), ("n-b", 500.0), ("n-c", 250.0)):
        assert load.pod_sums[name][Resource.CPU] == pytest.approx((millicores,))


@pytest.mark.parametrize("stack", BY_STACK)
def test_the_pods_of_a_node_are_summed_up(url: str, stack: str) -> None:
    nodes = [node("n-a", "10.0.0.1"), *OTHERS]

    load = read(url, stack, 300, nodes=nodes, choose=lambda _: SUM)

    assert load.pods == {}
    assert load.pod_sums.keys() == {"n-a"}
    assert load.pod_sums["n-a"][Resource.CPU] == pytest.approx((250.0,))
    assert load.pod_sums["n-a"][Resource.MEMORY] == (50.0,)


def test_all_pods_are_read_if_some_name_their_node_and_others_only_their_kubelet(url: str) -> None:
    nodes = [node("n-a", "10.0.0.1"), *OTHERS]

    load = read(url, "pods", 300, nodes=nodes, choose=lambda _: PodChoice(frozenset({"n-a"})))

    assert load.pods_of is None
    assert load.pods.keys() == {("a", "web"), ("c", "nolabel")}


def test_a_sum_of_which_another_series_claims_more_is_not_believed(url: str) -> None:
    nodes = [node("n-a", "10.0.0.1"), node("n-b"), *OTHERS]

    load = read(url, "pods", 300, nodes=nodes, choose=lambda _: SUM)

    assert load.pod_sums["n-a"] == dict.fromkeys((Resource.CPU, Resource.MEMORY), (math.inf,))


def test_what_scraped_pods_expose_counts_nowhere(url: str) -> None:
    load = read(url, "strangers", 300, nodes=[node("n-a", "10.0.0.1"), NODES[1]])

    assert ratios(load, Resource.CPU) == {"n-a": 0.5, "n-b": UnknownReason.ABSENT}
    assert ratios(load, Resource.MEMORY) == {"n-a": 0.4, "n-b": UnknownReason.ABSENT}
    assert load.pods.keys() == {("a", "web")}
    assert load.pods["a", "web"].cpu_millicores == pytest.approx((250.0,))
    assert load.pods["a", "web"].memory_bytes == (50.0,)
    assert load.problems == ()
    assert set(load.history) == {"n-a"}
    measured = load.nodes["n-a"][Resource.MEMORY]
    assert isinstance(measured, Measured)
    assert measured.pods_ratios == (0.5,)


def test_a_policy_names_exporters_with_a_job_of_their_own(url: str) -> None:
    sources = {"pod_memory": 'job="kubernetes-pods",node="n-a"'}
    load = read(url, "strangers", 300, nodes=NODES[:2], sources=sources)

    assert load.pods["a", "web"].memory_bytes == (900.0,)


def test_series_of_no_known_node_are_counted(url: str) -> None:
    assert read(url, "regimes", 300).unresolved_series == 1


def test_a_node_that_joined_90_seconds_ago_is_unknown_and_not_hot(url: str) -> None:
    assert "of the last 15m" in unknown(read(url, "regimes", 900), "n-f").detail


def test_an_address_finds_its_node_without_any_reported_name(url: str) -> None:
    addressed = [node("n-z", "198.51.100.1", "n-z")]

    assert ratios(read(url, "regimes", 300, nodes=addressed), Resource.CPU) == {"n-z": 0.5}


def test_pods_are_counted_once_and_without_their_pause_container(url: str) -> None:
    pods = read(url, "pods", 300).pods

    assert pods["a", "web"].cpu_millicores == pytest.approx((750.0,))
    assert pods["a", "web"].memory_bytes == (150.0,)


def test_pods_of_a_runtime_without_container_labels_are_read_by_their_cgroup(url: str) -> None:
    pods = read(url, "pods", 300).pods

    assert pods["c", "nolabel"].cpu_millicores == pytest.approx((500.0,))
    assert pods["c", "nolabel"].memory_bytes == (70.0,)


@pytest.mark.parametrize("stack", ["cadvisor", ODD_NAME])
def test_without_node_exporter_the_root_cgroup_says_the_load(url: str, stack: str) -> None:
    load = read(url, stack, 300, nodes=NODES[:2])

    assert ratios(load, Resource.CPU) == {"n-a": 0.25, "n-b": 0.5}
    assert ratios(load, Resource.MEMORY) == {"n-a": 0.4, "n-b": 0.3}


def test_a_long_gap_in_scraping_makes_only_the_windows_it_is_in_unknown(url: str) -> None:
    assert ratios(read(url, "gaps", 900), Resource.CPU) == {
        "n-a": UnknownReason.WINDOW_NOT_COVERED,
        "n-b": UnknownReason.STALE,
        "n-c": 0.1,
        "n-d": 0.1,
        "n-e": UnknownReason.ABSENT,
        "n-f": UnknownReason.ABSENT,
    }


def test_after_an_exporter_restart_only_the_new_series_counts(url: str) -> None:
    assert ratios(read(url, "restarts", 300), Resource.CPU)["n-a"] == 0.3


def test_just_after_an_exporter_restart_the_node_is_unknown(url: str) -> None:
    assert unknown(read(url, "restarts", 900), "n-b").reason is UnknownReason.WINDOW_NOT_COVERED


def test_kernels_without_available_memory_are_read_from_its_parts(url: str) -> None:
    assert ratios(read(url, "old-kernel", 300), Resource.MEMORY)["n-a"] == 0.6


def test_a_window_too_short_for_the_scrape_interval_says_how_long_it_must_be(url: str) -> None:
    """S2.7: no window is widened unasked; the default suits a scrape each minute."""
    assert unknown(read(url, "regimes", 30), "n-a").detail == (
        "window 30s is too short for a scrape interval of 60s: set windows to at least 4m"
    )


def test_four_scrapes_are_enough_for_a_window(url: str) -> None:
    assert ratios(read(url, "regimes", 240), Resource.CPU)["n-b"] == 0.5


def test_a_prometheus_that_started_lately_knows_no_load_and_blames_no_window(url: str) -> None:
    found = unknown(read(url, "started-lately", 900), "n-a")

    assert found.reason is UnknownReason.WINDOW_NOT_COVERED
    assert found.detail.startswith("samples cover ")


def test_scraping_every_second_serves_windows_of_seconds(url: str) -> None:
    assert ratios(read(url, "fast-scrapes", 60), Resource.CPU)["n-a"] == 0.875


def test_a_cpu_of_which_only_idle_time_is_kept_is_unknown_and_not_idle(url: str) -> None:
    load = read(url, "incomplete-cpus", 300, nodes=NODES[:4])

    assert ratios(load, Resource.CPU) == {
        "n-a": 0.9,
        "n-b": 0.9,  # a mean over the CPUs that are there
        "n-c": UnknownReason.ABSENT,
        "n-d": UnknownReason.ABSENT,
    }
    assert unknown(load, "n-c").detail == "the query has no value for the last 5m"
    assert "n-c" not in load.history


def test_several_clusters_in_one_prometheus_are_a_problem(url: str) -> None:
    ((problem, sentence),) = read(url, "two-clusters", 300).problems

    assert problem is LoadProblem.SEVERAL_CLUSTERS
    assert "{cluster: eu}" in sentence


def test_an_empty_prometheus_makes_every_node_absent(url: str) -> None:
    load = read(url, "no-such-stack", 300)

    assert set(ratios(load, Resource.CPU).values()) == {UnknownReason.ABSENT}
    assert "metrics.matchers" in unknown(load, "n-a").detail


def test_a_query_of_the_user_replaces_the_built_in_one_and_is_checked_by_it(url: str) -> None:
    """S2.7: other exporters need no change of desched."""
    own = 'max by (node) (rate(node_cpu_seconds_total{stack="regimes",mode="user"}[{window}]))'
    load = read(url, "regimes", 300, 900, queries={"node_cpu": own})

    assert ratios(load, Resource.CPU)["n-b"] == 0.5
    assert ratios(load, Resource.CPU)["n-f"] is UnknownReason.WINDOW_NOT_COVERED


def test_the_history_of_each_node_says_since_when_it_has_been_hot(
    url: str, written_at: float
) -> None:
    load = read(url, "lasting", 300)

    def points(name: str) -> list[tuple[float, float | None]]:
        """The age of each point since the history was written, and its load."""
        history = load.history[name][Resource.CPU]
        assert len(history.ratios) == 38  # of three hours, and now
        since = time.time() - written_at
        return [
            (age - since, r) for age, r in zip(history.ages_seconds, history.ratios, strict=True)
        ]

    assert [age for age, ratio in points("n-a") if ratio is not None and ratio < 0.8] == []
    assert all(
        (ratio is not None) == (age < HISTORY_SECONDS)
        for age, ratio in points("n-a")[1:]
        if abs(age - HISTORY_SECONDS) > 120
    )
    for age, ratio in points("n-b"):
        # A mean over five minutes is above 80 % once 7/8 of it are hot.
        turned = HOT_SINCE_SECONDS_AGO - 300 * 7 / 8
        if ratio is not None and abs(age - turned) > 60:
            assert (ratio > 0.8) == (age < turned)
    known = [age for age, ratio in points("n-c") if ratio is not None]
    assert max(known) < 9 * 60


@pytest.mark.parametrize("stack", [*BY_STACK, "strangers", "pods"])
def test_the_past_of_pods_is_as_their_usage(url: str, stack: str) -> None:
    """By the same series, also if a reader has read them before."""
    nodes = [node("n-a", "10.0.0.1"), *OTHERS]
    everything = read(url, stack, 300, nodes=nodes).pods

    def of_past(reader: PrometheusLoadReader) -> Mapping[tuple[str, str], PodPast]:
        chosen = PodChoice(pasts=frozenset({"n-a"}))
        return read(url, stack, 300, nodes=nodes, choose=lambda _: chosen, reader=reader).pod_pasts

    reader = PrometheusLoadReader(PrometheusConnection(url=url), lambda _: False)
    pasts = of_past(reader)
    assert pasts.keys() == everything.keys()
    for key, usage in everything.items():
        for values, (expected,) in (
            (pasts[key].cpu_millicores, usage.cpu_millicores),
            (pasts[key].memory_bytes, usage.memory_bytes),
        ):
            known = [value for value in values if value is not None]
            assert len(values) == 38
            # Two or three of forty minutes are partial, at its beginning.
            assert known[2:] == pytest.approx([expected] * len(known[2:]), rel=0.02)
            assert len(known) >= 6
    again = of_past(reader)
    assert again.keys() == pasts.keys()
    for key, past in pasts.items():
        assert again[key].cpu_millicores[-6:] == pytest.approx(past.cpu_millicores[-6:], rel=0.02)


def test_a_destination_window_sees_what_the_short_one_does_not(url: str) -> None:
    windows = (DestinationWindow(1200, 1.0), DestinationWindow(1200, 0.5))
    load = read(url, "lasting", 300, destination_windows=windows)

    highest, median = load.destination_ratios["n-b"][Resource.CPU]
    assert highest == pytest.approx(0.9, abs=0.01)
    assert median == pytest.approx(0.1, abs=0.01)
    assert load.destination_ratios["n-a"][Resource.CPU] == pytest.approx((0.9, 0.9))


def test_pods_that_their_limit_holds_back_are_named(url: str) -> None:
    assert read(url, "lasting", 300).throttled == {("a", "web")}


def test_where_nothing_measures_throttling_no_pod_is_named(url: str) -> None:
    assert read(url, "regimes", 300).throttled == frozenset()


def test_the_gpus_of_each_node_are_measured_whatever_their_exporter_calls_the_node(
    url: str,
) -> None:
    """Of a node with MIG instances, the metric counts that all of its GPUs have."""
    nodes = [*(node(f"n-{letter}", gpus=2) for letter in "abcdef"), node("n-g")]

    load = read(url, "gpus", 300, 900, nodes=nodes)
    found = GpuLoad.of(load.extras).nodes

    assert {
        name: round(load.levels[0].ratio, 6) if isinstance(load, Measured) else load.reason
        for name, load in found.items()
    } == {
        "n-a": 0.9,
        "n-b": 0.3,
        "n-c": 0.5,
        "n-d": 0.5,
        "n-e": UnknownReason.STALE,
        "n-f": UnknownReason.ABSENT,
    }


GPU_PODS = {
    "n-a": ("web", "other", "big"),
    "n-b": ("mig-1", "mig-2"),
    "n-c": ("early", "late"),
    "n-d": ("named", "not-named"),
    "n-e": ("train",),
}


def test_pods_have_equal_shares_of_the_gpus_that_they_share(url: str, written_at: float) -> None:
    """What one pod has alone is told apart; of a node with a pod that is not named all is unknown.

    A GPU that only one pod can have is not a resource of its node.
    """
    offered = {"n-a": 12, "n-b": 8, "n-c": 4, "n-d": 4, "n-e": 1}

    load = read(
        url,
        "shared-gpus",
        300,
        1800,
        nodes=[node(name, gpus=count) for name, count in offered.items()],
        pods=[pod("a", name, on, gpus=1) for on, names in GPU_PODS.items() for name in names],
        resources=(Resource.CPU, Resource.GPU),
    )

    judged = {name: loads.get(Resource.GPU) for name, loads in load.nodes.items()}
    assert {
        name: isinstance(found, Measured) and (found.devices, round(found.levels[1].ratio, 6))
        for name, found in judged.items()
    } == {"n-a": (3, 0.6), "n-b": (2, 0.3), "n-c": (1, 0.8), "n-d": (1, 0.9), "n-e": False}
    for name, ratio in (("n-a", 0.6), ("n-b", 0.3)):
        ratios_ = [r for r in load.history[name][Resource.GPU].ratios if r is not None]
        assert ratios_ == pytest.approx([ratio] * len(ratios_))
        assert len(ratios_) >= 6

    used = dict(GpuLoad.of(load.extras).usages["a"])
    early, late = used.pop("early"), used.pop("late")
    assert {name: (usage.shared[0], usage.alone[0]) for name, usage in used.items()} == {
        "web": pytest.approx((0.4, 0.0)),
        "other": pytest.approx((0.4, 0.0)),
        "big": pytest.approx((0.0, 0.6)),
        "mig-1": pytest.approx((0.3, 0.0)),
        "mig-2": pytest.approx((0.3, 0.0)),
        "train": pytest.approx((0.0, 1.0)),
    }
    together = min(1.0, (JOINED_SECONDS_AGO + time.time() - written_at) / 1800)
    assert late.shared == pytest.approx((0.4, 0.4))
    # Each of the ten points of the window is 4 points of the mean.
    assert early.shared == pytest.approx((0.4, 0.8 - 0.4 * together), abs=0.05)


def test_live_scrapes_are_read_until_a_node_vanishes(
    control_plane: ControlPlane, prometheus: PrometheusServer
) -> None:
    control_plane.add_node("n-a", "n-b", cpu="4", memory="16Gi")

    def becomes(**expected: float | UnknownReason) -> None:
        control_plane.wait_for(
            f"{expected}",
            lambda: (
                ratios(read(prometheus.url, None, 10, nodes=NODES[:2]), Resource.MEMORY)
                == {name.replace("_", "-"): ratio for name, ratio in expected.items()}
            ),
        )

    becomes(n_a=UnknownReason.WINDOW_NOT_COVERED, n_b=UnknownReason.WINDOW_NOT_COVERED)
    becomes(n_a=0.0, n_b=0.0)
    control_plane.metrics.hide("n-b")
    becomes(n_a=0.0, n_b=UnknownReason.STALE)
    becomes(n_a=0.0, n_b=UnknownReason.ABSENT)
