"""What a real Prometheus would have recorded of a simulated cluster, as OpenMetrics text.

The labels are those of kube-prometheus: node_exporter, cAdvisor through the kubelet, and
kube-state-metrics.
"""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from desched.lab.history import host_of
from desched.lab.world import Simulation
from desched.model.cluster import Node, Pod
from desched.model.resources import Amounts

Floats = NDArray[np.float64]
Labels = Mapping[str, str]

OBJECTS_EVERY = 4
"""Every so many scrapes the objects are recorded: less than the five minutes after which they would
be stale."""

EXPORTER = {"job": "node-exporter"}
KUBELET = {"job": "kubelet", "metrics_path": "/metrics/cadvisor"}
KUBE_STATE = {"job": "kube-state-metrics"}


class RecordedDay:
    """Lets a simulation pass without a descheduler, and records it as if scraped regularly."""

    def __init__(self, simulation: Simulation, seconds: int, scrape_seconds: int = 60) -> None:
        self._cluster, clock = simulation.cluster, simulation.clock
        self._began = int(clock.now().timestamp())
        self._scrape_seconds = scrape_seconds
        self._scrapes = seconds // scrape_seconds
        self._pods: dict[str, Pod] = {}
        self._nodes: dict[str, Node] = {}
        self._seen: dict[str, tuple[int, int]] = {}
        for scrape in range(1, self._scrapes + 1):
            clock.advance(scrape * scrape_seconds - clock.monotonic())
            self._look(scrape)
        self._usage = self._measured()

    def _look(self, scrape: int) -> None:
        state = self._cluster.read_cluster()
        for node in state.nodes:
            self._nodes[node.name] = node
        for pod in state.pods:
            if pod.node:
                self._pods[pod.uid] = pod
        for key in [*(n.name for n in state.nodes), *(p.uid for p in state.pods if p.node)]:
            first, _ = self._seen.get(key, (scrape, scrape))
            self._seen[key] = first, scrape

    def _measured(self) -> dict[str, Floats]:
        """What each pod and each whole node used in each scrape interval."""
        history, length = self._cluster.history, float(self._scrape_seconds)
        users, nodes = list(self._pods), list(self._nodes)
        of_users, of_nodes = [], []
        for end in range(1, self._scrapes + 1):
            of_users.append(history.of_users(users, (end - 1) * length, end * length))
            of_nodes.append(history.of_nodes(nodes, (end - 1) * length, end * length))
        found = dict(zip(users, np.stack(of_users, axis=1), strict=True))
        return found | dict(zip(map(host_of, nodes), np.stack(of_nodes, axis=1), strict=True))

    def write(self, file: TextIO) -> None:
        """Write the text: each metric with all its series, and each series with all samples."""
        for kind, metric, series in self._metrics():
            file.write(f"# TYPE {metric.removesuffix('_total')} {kind}\n")
            for labels, first, values, every in series:
                inside = ",".join(f'{name}="{value}"' for name, value in labels.items())
                head = f"{metric}{{{inside}}} "
                at = self._began + first * self._scrape_seconds
                step = every * self._scrape_seconds
                lines = (f"{head}{v!r} {at + i * step}\n" for i, v in enumerate(values))
                file.writelines(lines)
        file.write("# EOF\n")

    def _metrics(self) -> Iterator[tuple[str, str, Iterator["_Series"]]]:
        yield "counter", "node_cpu_seconds_total", self._node_cpu()
        yield "gauge", "node_memory_MemTotal_bytes", self._node_memory(available=False)
        yield "gauge", "node_memory_MemAvailable_bytes", self._node_memory(available=True)
        yield "counter", "container_cpu_usage_seconds_total", self._pod_cpu()
        yield "gauge", "container_memory_working_set_bytes", self._pod_memory()
        yield from self._objects_of_pods()
        yield from self._objects_of_nodes()

    def _node_cpu(self) -> Iterator["_Series"]:
        for name, node in self._nodes.items():
            cores = node.capacity.cpu_millicores / 1000
            busy = np.minimum(self._usage[host_of(name)][:, 0] / 1000, cores)
            for mode, used in (("idle", cores - busy), ("user", busy)):
                total = np.cumsum(used) * self._scrape_seconds
                labels = {"mode": mode, "cpu": "0", "instance": name} | EXPORTER
                yield self._all_of(name, labels, total)

    def _node_memory(self, *, available: bool) -> Iterator["_Series"]:
        for name, node in self._nodes.items():
            size = node.capacity.memory_bytes
            used = np.minimum(self._usage[host_of(name)][:, 1], size) if available else 0.0
            values = np.round(size - used + np.zeros(self._scrapes))
            yield self._all_of(name, {"instance": name} | EXPORTER, values)

    def _pod_cpu(self) -> Iterator["_Series"]:
        for uid, pod in self._pods.items():
            total = np.cumsum(self._usage[uid][:, 0] / 1000) * self._scrape_seconds
            yield self._all_of(uid, _of_container(pod), total)

    def _pod_memory(self) -> Iterator["_Series"]:
        for uid, pod in self._pods.items():
            yield self._all_of(uid, _of_container(pod), np.round(self._usage[uid][:, 1]))

    def _objects_of_pods(self) -> Iterator[tuple[str, str, Iterator["_Series"]]]:
        pods = self._pods
        yield (
            "gauge",
            "kube_pod_info",
            (
                self._object(uid, _of_pod(p) | {"node": p.node} | _owned(p))
                for uid, p in pods.items()
            ),
        )
        yield (
            "gauge",
            "kube_pod_created",
            (self._object(uid, _of_pod(p), p.created_at.timestamp()) for uid, p in pods.items()),
        )
        yield (
            "gauge",
            "kube_pod_container_resource_requests",
            (
                self._object(uid, _of_pod(p) | {"container": "main", "resource": name}, amount)
                for uid, p in pods.items()
                for name, amount in _amounts(p.scheduling.requests)
                if name != "pods"
            ),
        )
        workloads = self._cluster.read_cluster().workloads
        owners = {p.owner.uid: p for p in pods.values() if p.owner}
        yield (
            "gauge",
            "kube_replicaset_owner",
            (
                self._object(
                    p.uid,
                    KUBE_STATE
                    | {"namespace": p.namespace, "replicaset": p.owner.name}
                    | {"owner_kind": "Deployment", "owner_name": workload.name},
                )
                for uid, p in owners.items()
                if p.owner and (workload := workloads.get((p.namespace, uid)))
            ),
        )

    def _objects_of_nodes(self) -> Iterator[tuple[str, str, Iterator["_Series"]]]:
        nodes = self._nodes
        for which in ("capacity", "allocatable"):
            yield (
                "gauge",
                f"kube_node_status_{which}",
                (
                    self._object(name, KUBE_STATE | {"node": name, "resource": resource}, amount)
                    for name, node in nodes.items()
                    for resource, amount in _amounts(getattr(node, which))
                ),
            )
        yield (
            "gauge",
            "kube_node_info",
            (
                self._object(name, KUBE_STATE | {"node": name, "internal_ip": "10.0.0.1"})
                for name in nodes
            ),
        )
        yield (
            "gauge",
            "kube_node_created",
            (
                self._object(name, KUBE_STATE | {"node": name}, node.created_at.timestamp())
                for name, node in nodes.items()
            ),
        )
        condition = {"condition": "Ready", "status": "true"}
        yield (
            "gauge",
            "kube_node_status_condition",
            (self._object(name, KUBE_STATE | {"node": name} | condition) for name in nodes),
        )

    def _all_of(self, key: str, labels: Labels, values: Floats) -> "_Series":
        first, last = self._seen[key]
        return labels, first, values[first - 1 : last].tolist(), 1

    def _object(self, key: str, labels: Labels, value: float = 1) -> "_Series":
        first, last = self._seen[key]
        count = (last - first) // OBJECTS_EVERY + 1
        return labels, first, [value] * count, OBJECTS_EVERY


_Series = tuple[Labels, int, Sequence[float], int]
"""Its labels, the first scrape, the values, and the scrapes from one value to the next."""


def _of_container(pod: Pod) -> Labels:
    names = {"namespace": pod.namespace, "pod": pod.name, "container": "main"}
    return names | {"node": pod.node} | KUBELET


def _of_pod(pod: Pod) -> dict[str, str]:
    return {"namespace": pod.namespace, "pod": pod.name, "uid": pod.uid} | KUBE_STATE


def _owned(pod: Pod) -> dict[str, str]:
    if pod.owner is None:
        return {"created_by_kind": "<none>", "created_by_name": "<none>"}
    return {"created_by_kind": pod.owner.kind, "created_by_name": pod.owner.name}


def _amounts(amounts: Amounts) -> Iterator[tuple[str, float]]:
    yield "cpu", amounts.cpu_millicores / 1000
    yield "memory", amounts.memory_bytes
    yield "pods", amounts.pods


def backfilled(day: RecordedDay, promtool: Path, directory: Path) -> None:
    """Make blocks of the day in the directory, as promtool does for Prometheus to read."""
    text = directory.parent / "day.openmetrics"
    with text.open("w") as file:
        day.write(file)
    subprocess.run(
        [
            promtool,
            *("tsdb", "create-blocks-from", "openmetrics", "--quiet"),
            *("--max-block-duration=48h", text, directory),
        ],
        check=True,
        capture_output=True,
    )
    text.unlink()
