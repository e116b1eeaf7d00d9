"""Writes the past of a synthetic cluster into a Prometheus, as its exporters would be scraped.

The samples go through remote write into the head of the database, where a Prometheus has the last
hours of what it scrapes. The series and their labels are those of kube-prometheus-stack, of as many
as desched could read: of a pod its cgroup, that of its sandbox and that of its container.
"""

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import urllib3
from numpy.typing import NDArray

from benchmarks.synthetic import NODE_MEMORY_GIB, SyntheticCluster

SCRAPE_SECONDS = 30
PAST_SECONDS = 70 * 60
"""By default: the history of an hour, and a window before it."""
FUTURE_SECONDS = 9 * 60
"""Prometheus takes samples of the next ten minutes; queries do not see them before their time."""

GIB = 2**30
MODES = {"idle": 0.0, "iowait": 0.01, "irq": 0.01, "nice": 0.0, "softirq": 0.02, "steal": 0.0}
"""Of node_exporter, with their shares of a CPU; `user` and `system` have what is busy."""
NOISE_SHARE = 0.3
"""Of the time between two scrapes: counters still rise, and chunks are as large as real ones."""

Labels = Mapping[str, str]
Floats = NDArray[np.float64]


class Measure(NamedTuple):
    """A series; `rate` per second of a counter, or `level` of a gauge."""

    name: str
    labels: Labels
    rate: float = 0.0
    level: float = 0.0


def measures_of(cluster: SyntheticCluster, node: int, *, roots: bool) -> Iterator[Measure]:
    """What the exporters of one node report; `roots` adds the cgroups that belong to no pod.

    kube-prometheus-stack drops those: of the node, and of all its pods.
    """
    yield from _of_node_exporter(cluster, node)
    kubelet = {
        "endpoint": "https-metrics",
        "instance": f"{cluster.node_address(node)}:10250",
        "job": "kubelet",
        "metrics_path": "/metrics/cadvisor",
        "node": f"node-{node:05d}",
        "service": "kps-kubelet",
    }
    yield Measure("machine_cpu_cores", kubelet, level=cluster.cores)
    yield Measure("machine_memory_bytes", kubelet, level=NODE_MEMORY_GIB * GIB)
    first = node * cluster.pods_per_node
    pods = range(first, first + cluster.pods_per_node)
    for pod in pods:
        yield from _of_pod(cluster, pod, kubelet)
    if roots:
        cores = sum(cluster.pod_cores[pod] for pod in pods)
        memory = sum(cluster.pod_memory_bytes(pod) for pod in pods)
        yield from _of_cgroup({**kubelet, "id": "/kubepods.slice"}, cores, memory)
        yield from _of_cgroup({**kubelet, "id": "/"}, cores / 0.97, memory + GIB)


def _of_node_exporter(cluster: SyntheticCluster, node: int) -> Iterator[Measure]:
    exporter = {
        "container": "node-exporter",
        "endpoint": "http-metrics",
        "instance": f"{cluster.node_address(node)}:9100",
        "job": "node-exporter",
        "service": "kps-prometheus-node-exporter",
    }
    busy = cluster.node_busy(node)
    shares = {**MODES, "idle": 1 - busy - 0.01, "system": 0.2 * busy, "user": 0.77 * busy}
    for cpu in range(cluster.cores):
        for mode, share in shares.items():
            labels = {**exporter, "cpu": str(cpu), "mode": mode}
            yield Measure("node_cpu_seconds_total", labels, rate=share)
    total, first = NODE_MEMORY_GIB * GIB, node * cluster.pods_per_node
    used = GIB + sum(map(cluster.pod_memory_bytes, range(first, first + cluster.pods_per_node)))
    parts = {
        "MemTotal": total,
        "MemAvailable": total - used,
        "MemFree": 0.4 * (total - used),
        "Inactive_file": 0.5 * (total - used),
        "Buffers": 0.01 * total,
        "Cached": 0.5 * (total - used),
        "Slab": 0.01 * total,
    }
    for name, level in parts.items():
        yield Measure(f"node_memory_{name}_bytes", exporter, level=level)
    yield Measure("node_uname_info", {**exporter, "nodename": f"node-{node:05d}"}, level=1)


def _of_pod(cluster: SyntheticCluster, pod: int, kubelet: Labels) -> Iterator[Measure]:
    slice_ = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod"
    cgroup = f"{slice_}{pod:08x}_9a1f_4c6e_b0d2_5f7e3a{pod:06x}.slice"
    of_pod = {**kubelet, "namespace": cluster.pod_namespace(pod), "pod": cluster.pod_name(pod)}
    sandbox, container = f"{pod:032x}a0" + "5" * 30, f"{pod:032x}c1" + "7" * 30
    cores, memory = cluster.pod_cores[pod], cluster.pod_memory_bytes(pod)
    yield from _of_cgroup({**of_pod, "id": cgroup}, cores, memory)
    paused = {"id": f"{cgroup}/cri-containerd-{sandbox}.scope", "name": sandbox}
    yield from _of_cgroup({**of_pod, **paused, "image": "registry.k8s.io/pause:3.10"}, 0, 4096 * 64)
    app = {
        **of_pod,
        "container": "app",
        "id": f"{cgroup}/cri-containerd-{container}.scope",
        "image": f"registry.example/shop/app-{cluster.workload(pod)}:1.4.2",
        "name": container,
    }
    yield from _of_cgroup(app, cores, memory)
    yield Measure("container_cpu_cfs_periods_total", app, rate=10.0)
    yield Measure("container_cpu_cfs_throttled_periods_total", app, rate=0.5)


def _of_cgroup(labels: Labels, cores: float, memory_bytes: float) -> Iterator[Measure]:
    yield Measure("container_cpu_usage_seconds_total", {**labels, "cpu": "total"}, rate=cores)
    yield Measure("container_memory_working_set_bytes", labels, level=memory_bytes)


class History:
    """The times of scrapes around `now`, and what is written of them."""

    def __init__(self, now: float, past_seconds: int = PAST_SECONDS) -> None:
        self._chance = np.random.default_rng(1)
        count = (past_seconds + FUTURE_SECONDS) // SCRAPE_SECONDS
        self._begin = now - past_seconds
        self._since = np.arange(count) * float(SCRAPE_SECONDS)
        self._noise = self._chance.uniform(-1, 1, (256, count))

    def request(self, measures: list[Measure]) -> bytes:
        """The request for the series of one node, whose scrapes have times of their own."""
        ms = (self._begin + self._chance.uniform(0, SCRAPE_SECONDS) + self._since) * 1000
        rates = np.array([m.rate for m in measures])[:, None]
        levels = np.array([m.level for m in measures])[:, None]
        noise = self._noise[self._chance.integers(len(self._noise), size=len(measures))]
        elapsed = self._since + 1e6 + noise * NOISE_SHARE * SCRAPE_SECONDS / 2
        values = (rates * elapsed).round(6) + (levels * (1 + 0.002 * noise)).round()
        samples = np.zeros((*values.shape, 18), np.uint8)
        samples[..., :3] = 0x12, 16, 0x09
        samples[..., 3:11] = values.astype("<f8")[..., None].view(np.uint8)
        samples[..., 11] = 0x10
        samples[..., 12:] = [list(_varint(int(at))) for at in ms]
        series = (_labels(m) + row.tobytes() for m, row in zip(measures, samples, strict=True))
        return b"".join(_field(0x0A, each) for each in series)


def write(url: str, history: History, measures: list[Measure], pool: urllib3.PoolManager) -> None:
    """Send the series of one node."""
    body = history.request(measures)
    # A snappy block may be one literal.
    block = _varint(len(body)) + b"\xfc" + struct.pack("<I", len(body) - 1) + body
    headers = {
        "Content-Encoding": "snappy",
        "Content-Type": "application/x-protobuf",
        "X-Prometheus-Remote-Write-Version": "0.1.0",
    }
    answer = pool.request("POST", f"{url}/api/v1/write", body=block, headers=headers)
    assert answer.status in {200, 204}, answer.data


def _labels(measure: Measure) -> bytes:
    labels = sorted({**measure.labels, "__name__": measure.name}.items())
    return b"".join(
        _field(0x0A, _field(0x0A, name.encode()) + _field(0x12, value.encode()))
        for name, value in labels
    )


def _field(tag: int, content: bytes) -> bytes:
    return bytes([tag]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])
