"""Plays node_exporter and cAdvisor for all nodes of the test control plane.

A pod's load stands in its annotations ``kwok.x-k8s.io/usage-cpu`` and ``usage-memory``, so that it
goes where the pod goes; the same annotations on a node are load that belongs to no pod. KWOK's own
Metric objects cannot serve this: their clock has whole seconds, which makes idle counters jump at
scrape intervals as short as the tests', and a node above its capacity would count idle backwards.

Labels are those of the prometheus-community/prometheus chart, but the job of node_exporter is
that of its own chart: no pod of this control plane has the port that the other job would require.
"""

import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from http import HTTPStatus
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any, Literal

from tests.controlplane.watched import Objects

Exporter = Literal["node-exporter", "cadvisor"]
EXPORTERS: tuple[Exporter, ...] = ("node-exporter", "cadvisor")
JOBS: Mapping[Exporter, str] = {
    "node-exporter": "node-exporter",
    "cadvisor": "kubernetes-nodes-cadvisor",
}

CPU_ANNOTATION = "kwok.x-k8s.io/usage-cpu"
MEMORY_ANNOTATION = "kwok.x-k8s.io/usage-memory"

REFRESH_SECONDS = 0.5
UPTIME_SECONDS = 3600.0
"""Nodes look as if booted before the test, because a counter near zero bends Prometheus' rate."""

QUANTITY = re.compile(r"([0-9.]+)(|m|k|M|G|T|Ki|Mi|Gi|Ti)")
FACTORS = {"": Decimal(1), "m": Decimal("0.001")} | {
    prefix + suffix: Decimal(base) ** exponent
    for suffix, base in (("", 1000), ("i", 1024))
    for exponent, prefix in enumerate("kMGT" if base == 1000 else "KMGT", start=1)
}

Sample = tuple[str, dict[str, str], float]


@dataclass(slots=True)
class _Pod:
    """Counts by UID, since a StatefulSet gives the name to the next pod as well."""

    uid: str
    namespace: str
    name: str
    containers: list[str]
    cpu_demand: float
    memory: float
    cpu_seconds: float = 0.0


@dataclass(slots=True)
class _Node:
    name: str
    address: str
    labels: dict[str, str]
    cores: float
    memory: float
    own_cpu_demand: float
    own_memory: float
    idle_seconds: float
    pods: dict[str, _Pod] = field(default_factory=dict)
    busy_seconds: float = 0.0

    def run(self, seconds: float) -> None:
        """Shares the cores in proportion to demand when there is more than they can give."""
        demand = self.own_cpu_demand + sum(pod.cpu_demand for pod in self.pods.values())
        share = min(1.0, self.cores / demand) if demand else 1.0
        for pod in self.pods.values():
            pod.cpu_seconds += pod.cpu_demand * share * seconds
        busy = demand * share
        self.busy_seconds += busy * seconds
        # Counted, not computed: a difference could step back, which Prometheus takes for a restart.
        self.idle_seconds += max(0.0, self.cores - busy) * seconds

    @property
    def used_memory(self) -> float:
        return min(self.memory, self.own_memory + sum(pod.memory for pod in self.pods.values()))


class UsageExporter:
    """Serves the metrics on loopback, one target per node and exporter, found by http_sd."""

    def __init__(
        self,
        observe: Callable[[], tuple[Objects, Objects]],
        refresh_seconds: float = REFRESH_SECONDS,
    ) -> None:
        """Takes what knows nodes and pods, without much ado."""
        self._observe = observe
        self._observed: tuple[Objects, Objects] = ((), ())
        self._refresh_seconds = refresh_seconds
        self._nodes: dict[str, _Node] = {}
        self._hidden: set[tuple[str, Exporter]] = set()
        self._garbled: set[str] = set()
        self._lock = threading.Lock()
        self._advanced = time.monotonic()
        self._advanced_at_ms = 0
        self._stopping = threading.Event()
        self._server = _Server(self)
        self._threads = [
            threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True),
            threading.Thread(target=self._follow, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def address(self) -> str:
        """Gives host and port, as Prometheus targets want them."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    def discovery_url(self, exporter: Exporter) -> str:
        """Names the http_sd endpoint that lists the exporter's targets."""
        return f"http://{self.address}/discovery/{exporter}"

    def hide(self, node: str, *exporters: Exporter) -> None:
        """Makes scrapes of the node fail, as after an exporter's crash."""
        self._hidden |= {(node, exporter) for exporter in exporters or EXPORTERS}

    def show(self, node: str, *exporters: Exporter) -> None:
        """Ends what hide began."""
        self._hidden -= {(node, exporter) for exporter in exporters or EXPORTERS}

    def garble(self, node: str) -> None:
        """Makes node_exporter say NaN wherever it means a number of the node."""
        self._garbled |= {node}

    def forget(self) -> None:
        """Drops all counters and what was done to nodes: the next test begins from nothing."""
        with self._lock:
            self._nodes.clear()
            self._hidden.clear()
            self._garbled.clear()
            self._observed = ((), ())

    def stop(self) -> None:
        """Ends both threads and frees the port."""
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        for thread in self._threads:
            thread.join()

    def _follow(self) -> None:
        while not self._stopping.wait(self._refresh_seconds):
            observed = self._observe()
            with self._lock:
                if observed != self._observed:
                    self._observed = observed
                    self._advance()
                    self._replace(*observed)

    def _advance(self) -> None:
        """Counts up to this very moment, so that scrapes see rates without jitter."""
        now, self._advanced_at_ms = time.monotonic(), time.time_ns() // 1_000_000
        for node in self._nodes.values():
            node.run(now - self._advanced)
        self._advanced = now

    def _replace(self, nodes: Objects, pods: Objects) -> None:
        known = self._nodes
        known_pods = {uid: pod for node in known.values() for uid, pod in node.pods.items()}
        self._nodes = {}
        for each in nodes:
            node = _node(each)
            if before := known.get(node.name):
                node.busy_seconds, node.idle_seconds = before.busy_seconds, before.idle_seconds
            self._nodes[node.name] = node
        for each in pods:
            host = self._nodes.get(each["spec"].get("nodeName", ""))
            if host is not None and each["status"].get("phase") == "Running":
                pod = _pod(each)
                if before_pod := known_pods.get(pod.uid):
                    pod.cpu_seconds = before_pod.cpu_seconds
                host.pods[pod.uid] = pod

    def targets(self, exporter: Exporter) -> Objects:
        """Describes the targets with the labels that the chart's relabelling would give them."""
        with self._lock:
            return [
                {
                    "targets": [self.address],
                    "labels": {
                        "__metrics_path__": f"/nodes/{node.name}/{exporter}",
                        "job": JOBS[exporter],
                        **_target_labels(node, exporter),
                    },
                }
                for node in self._nodes.values()
            ]

    @property
    def port(self) -> int:
        """The port on loopback of everything."""
        return int(self.address.rpartition(":")[2])

    def document(self, node_name: str, kind: str) -> str | None:
        """What a node exposes, or nothing if it is hidden or gone.

        It has the time of the counters, so that rates are right however late it is read.
        """
        with self._lock:
            self._advance()
            at_ms = self._advanced_at_ms
            node = self._nodes.get(node_name)
            if node is None or (node_name, kind) in self._hidden:
                return None
            samples = list(_SAMPLES[kind](node))
            if kind == "node-exporter" and node_name in self._garbled:
                samples = [(name, labels, math.nan) for name, labels, _ in samples]
        return "".join(_line(sample, at_ms) for sample in samples)


def _node(node: dict[str, Any]) -> _Node:
    metadata, status = node["metadata"], node["status"]
    own_cpu, own_memory = _usage(metadata)
    cores = quantity(status["capacity"]["cpu"])
    return _Node(
        name=metadata["name"],
        address=next(a["address"] for a in status["addresses"] if a["type"] == "InternalIP"),
        labels=metadata.get("labels") or {},
        cores=cores,
        memory=quantity(status["capacity"]["memory"]),
        own_cpu_demand=own_cpu,
        own_memory=own_memory,
        idle_seconds=cores * UPTIME_SECONDS,
    )


def _pod(pod: dict[str, Any]) -> _Pod:
    metadata = pod["metadata"]
    cpu, memory = _usage(metadata)
    return _Pod(
        uid=metadata["uid"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        containers=[container["name"] for container in pod["spec"]["containers"]],
        cpu_demand=cpu,
        memory=memory,
    )


def _usage(metadata: dict[str, Any]) -> tuple[float, float]:
    annotations = metadata.get("annotations") or {}
    return (
        quantity(annotations.get(CPU_ANNOTATION, "0")),
        quantity(annotations.get(MEMORY_ANNOTATION, "0")),
    )


def quantity(text: str) -> float:
    """Reads the quantities that the tests use, on its own rather than by the code under test."""
    parts = QUANTITY.fullmatch(text)
    if parts is None:
        raise ValueError(f"not a quantity: {text!r}")
    return float(Decimal(parts[1]) * FACTORS[parts[2]])


def _target_labels(node: _Node, exporter: Exporter) -> dict[str, str]:
    if exporter == "node-exporter":
        return {
            "instance": f"{node.address}:9100",
            "node": node.name,
            "namespace": "kube-system",
            "service": "prometheus-prometheus-node-exporter",
            "app_kubernetes_io_name": "prometheus-node-exporter",
        }
    mapped = {re.sub(r"\W", "_", name): value for name, value in node.labels.items()}
    return mapped | {"instance": node.name}


def _node_samples(node: _Node) -> Iterator[Sample]:
    cpus = max(1, round(node.cores))
    modes = {
        "idle": node.idle_seconds,
        "user": node.busy_seconds * 0.8,
        "system": node.busy_seconds * 0.2,
    } | dict.fromkeys(("iowait", "irq", "nice", "softirq", "steal"), 0.0)
    for cpu in range(cpus):
        for mode, seconds in modes.items():
            yield "node_cpu_seconds_total", {"cpu": str(cpu), "mode": mode}, seconds / cpus
    free = node.memory - node.used_memory
    yield "node_memory_MemTotal_bytes", {}, node.memory
    yield "node_memory_MemAvailable_bytes", {}, free
    yield "node_memory_MemFree_bytes", {}, free
    yield "node_memory_Buffers_bytes", {}, 0.0
    yield "node_memory_Cached_bytes", {}, 0.0
    yield "node_memory_Slab_bytes", {}, 0.0
    yield "node_memory_Inactive_file_bytes", {}, 0.0
    yield "node_uname_info", {"nodename": node.name, "sysname": "Linux"}, 1.0


def _pod_samples(node: _Node) -> Iterator[Sample]:
    """Yields the machine, each pod's cgroup and each container, which all count the same time."""
    yield "machine_cpu_cores", {}, node.cores
    yield "machine_memory_bytes", {}, node.memory
    yield from _cgroup_samples({"id": "/"}, node.busy_seconds, node.used_memory)
    for pod in node.pods.values():
        cgroup = f"/kubepods/burstable/pod{pod.uid}"
        labels = {"namespace": pod.namespace, "pod": pod.name}
        yield from _cgroup_samples({"id": cgroup, **labels}, pod.cpu_seconds, pod.memory)
        share = 1 / len(pod.containers)
        for container in pod.containers:
            yield from _cgroup_samples(
                {
                    "id": f"{cgroup}/{container}",
                    "name": f"{container}-{pod.uid}",
                    "image": "registry.invalid/image",
                    "container": container,
                    **labels,
                },
                pod.cpu_seconds * share,
                pod.memory * share,
            )


def _cgroup_samples(labels: dict[str, str], cpu_seconds: float, memory: float) -> Iterator[Sample]:
    yield "container_cpu_usage_seconds_total", {"cpu": "total", **labels}, cpu_seconds
    yield "container_memory_working_set_bytes", labels, memory
    yield "container_memory_rss", labels, memory


def _resource_samples(node: _Node) -> Iterator[Sample]:
    yield "node_cpu_usage_seconds_total", {}, node.busy_seconds
    yield "node_memory_working_set_bytes", {}, node.used_memory
    for pod in node.pods.values():
        share = 1 / len(pod.containers)
        for container in pod.containers:
            labels = {"container": container, "namespace": pod.namespace, "pod": pod.name}
            yield "container_cpu_usage_seconds_total", labels, pod.cpu_seconds * share
            yield "container_memory_working_set_bytes", labels, pod.memory * share


_SAMPLES: Mapping[str, Callable[[_Node], Iterator[Sample]]] = {
    "node-exporter": _node_samples,
    "cadvisor": _pod_samples,
    "resource": _resource_samples,
}
"""What each kind of document has; the last one is what the kubelet has at /metrics/resource."""


class _Server(ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, exporter: UsageExporter) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.exporter = exporter


class _Handler(StreamRequestHandler):
    """Speaks as much HTTP as Prometheus needs: to parse its headers would take most of the CPU."""

    server: _Server
    disable_nagle_algorithm = True

    def handle(self) -> None:
        with suppress(ConnectionError):  # Prometheus may have given up
            while line := self.rfile.readline():
                while self.rfile.readline().strip():
                    pass
                self._answer(*self._document(line.decode().split()[1]))

    def _document(self, path: str) -> tuple[HTTPStatus, str, str]:
        exporter = self.server.exporter
        match path.strip("/").split("/"):
            case ["discovery", ("node-exporter" | "cadvisor") as kind]:
                return HTTPStatus.OK, "application/json", json.dumps(exporter.targets(kind))
            case ["nodes", node, kind] if kind in _SAMPLES:
                return _document_of(exporter.document(node, kind))
            case _:
                return HTTPStatus.NOT_FOUND, "text/plain", "no such path"

    def _answer(self, status: HTTPStatus, content_type: str, body: str) -> None:
        payload = body.encode()
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\n"
            f"Content-Type: {content_type}\r\nContent-Length: {len(payload)}\r\n\r\n"
        )
        self.wfile.write(head.encode() + payload)


def _document_of(metrics: str | None) -> tuple[HTTPStatus, str, str]:
    if metrics is None:
        return HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", "no metrics of this node"
    return HTTPStatus.OK, "text/plain; version=0.0.4", metrics


def _line(sample: Sample, at_ms: int) -> str:
    name, labels, value = sample
    return f"{name}{{{_rendered(tuple(labels.items()))}}} {value!r} {at_ms}\n"


@lru_cache(maxsize=2**16)
def _rendered(labels: tuple[tuple[str, str], ...]) -> str:
    """Each series has the same labels in every scrape."""
    return ",".join(f"{key}={json.dumps(text)}" for key, text in labels)
