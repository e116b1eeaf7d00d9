"""Measures cycles against a real API server: `python -m benchmarks.real_api --nodes 200`.

Starts etcd and kube-apiserver of the tests, fills etcd with a synthetic cluster, and runs cycles
that watch and cycles that list, each in a process of its own. Between two cycles some pods change.
Prometheus is a stand-in. CPU is user and system time, which a busy machine changes least.
"""

import argparse
import base64
import json
import os
import platform
import resource
import ssl
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import urllib3

from benchmarks.cycle import POLICY
from benchmarks.synthetic import Object, SyntheticCluster
from desched import __version__
from desched.adapters.kubernetes.client.connection import connect
from desched.adapters.kubernetes.cluster_reader import KubernetesReader
from desched.adapters.kubernetes.watch.cluster import ClusterWatch
from desched.adapters.kubernetes.watch.loop import WatchClient
from desched.adapters.kubernetes.watch.reader import WatchingReader
from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.reader import PrometheusLoadReader
from desched.cycle import decide
from desched.model.snapshot import Snapshot
from desched.model.state import State
from desched.policy.loading import parse_policy
from desched.service.process.logs import configure_logs
from tests.controlplane.binaries import find_or_build
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import Server

CYCLES = 6  # the first one is the first sync
MODES = ("watching", "listing")
FIELDS = ("cluster", "load", "plan", "cpu", "api_cpu", "requests", "kib")
PUTS_PER_REQUEST = 100

Report = dict[str, float]


class ApiServer(ControlPlane):
    """Etcd and the API server alone: controllers would change the synthetic objects."""

    def _start(self) -> None:
        self._servers: dict[str, Server] = {}
        self._start_etcd()
        self._start_api_server()

    def _serve(self, binary: str, *arguments: str | Path) -> Server:
        self._servers[binary] = server = super()._serve(binary, *arguments)
        return server

    def fill(self, cluster: SyntheticCluster) -> None:
        """Put all objects into etcd, past validation and admission, which would take minutes."""
        puts: list[Object] = []
        for key, value in _stored(cluster):
            puts.append({"requestPut": {"key": _encoded(key.encode()), "value": _encoded(value)}})
            if len(puts) == PUTS_PER_REQUEST:
                self._put(puts)
                puts.clear()
        self._put(puts)

    def _put(self, puts: list[Object]) -> None:
        url = f"http://127.0.0.1:{self._etcd_port}/v3/kv/txn"
        answer = self._plain_http.request("POST", url, json={"success": puts})
        assert answer.status == 200, answer.data

    @property
    def cpu_seconds(self) -> float:
        """The CPU that the API server and etcd have used."""
        return sum(_cpu_seconds(server.pid) for server in self._servers.values())

    def change(self, cluster: SyntheticCluster, pods: range) -> None:
        """Change a label of these pods, as a controller might."""
        for index in pods:
            i = index % cluster.pod_count
            path = f"/api/v1/namespaces/{cluster.pod_namespace(i)}/pods/{cluster.pod_name(i)}"
            labels = {"changed": str(index)}
            status, answer = self.request("PATCH", path, {"metadata": {"labels": labels}})
            assert status == 200, answer


def _stored(cluster: SyntheticCluster) -> Iterator[tuple[str, bytes]]:
    """Keys and values of etcd."""
    for kind, version, folder, objects in (
        ("Node", "v1", "minions", cluster.nodes()),
        ("Namespace", "v1", "namespaces", _namespaces(cluster)),
        ("Pod", "v1", "pods", cluster.pods()),
        ("ReplicaSet", "apps/v1", "replicasets", _with_templates(cluster, cluster.replica_sets())),
        ("Deployment", "apps/v1", "deployments", _with_templates(cluster, cluster.deployments())),
    ):
        for item in objects:
            metadata = {k: v for k, v in item["metadata"].items() if k != "resourceVersion"}
            steps = (folder, metadata.get("namespace"), metadata["name"])
            value = {"apiVersion": version, "kind": kind, **item, "metadata": metadata}
            yield "/registry/" + "/".join(filter(None, steps)), msgspec.json.encode(value)


def _namespaces(cluster: SyntheticCluster) -> Iterator[Object]:
    for name in sorted({cluster.pod_namespace(i) for i in range(cluster.pod_count)}):
        yield {"metadata": {"name": name}, "status": {"phase": "Active"}}


def _with_templates(cluster: SyntheticCluster, controllers: Iterator[Object]) -> Iterator[Object]:
    """The controllers as an API server stores them; pod number n is of workload number n."""
    for number, item in enumerate(controllers):
        pod = cluster.pod(number)
        labels = pod["metadata"]["labels"]
        spec = {name: value for name, value in pod["spec"].items() if name != "nodeName"}
        template = {"metadata": {"labels": labels}, "spec": spec}
        selector = {"matchLabels": labels}
        yield item | {"spec": {"selector": selector, **item["spec"], "template": template}}


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Traffic:
    """What this process asks of the API server: requests, and bytes before they are inflated."""

    def __init__(self) -> None:
        self.requests = self.received_bytes = 0
        receive, request = ssl.SSLSocket.recv_into, urllib3.PoolManager.request

        def recv_into(*arguments: Any, **more: Any) -> int:
            count: int = receive(*arguments, **more)
            self.received_bytes += count
            return count

        def counted(*arguments: Any, **more: Any) -> urllib3.BaseHTTPResponse:
            self.requests += 1
            return request(*arguments, **more)

        ssl.SSLSocket.recv_into = recv_into  # type: ignore[method-assign]
        urllib3.PoolManager.request = counted  # type: ignore[method-assign]


def measure(mode: str, kubeconfig: Path, prometheus_url: str) -> None:
    """Run a cycle for each line of standard input, and print its figures as JSON."""
    configure_logs("console", "info", sys.stderr)
    traffic, stop = Traffic(), Event()
    lister = KubernetesReader(connect(kubeconfig, None))
    client = WatchClient(connect(kubeconfig, None, stop.wait), stop, lambda: 0.5)
    watch = ClusterWatch(client)
    reader = WatchingReader(lister, watch, Event().wait) if mode == "watching" else lister
    load_reader = PrometheusLoadReader(PrometheusConnection(url=prometheus_url), lambda _: False)
    policy = parse_policy(POLICY, "benchmark").policy
    before = (time.process_time(), 0, 0)
    for _ in sys.stdin:
        began = time.perf_counter()
        cluster = reader.read_cluster()
        read = time.perf_counter()
        load = load_reader.read_load(cluster, policy)
        observed = time.perf_counter()
        plan = decide(Snapshot(cluster, load, datetime.now(UTC)), policy, State()).plan
        planned = time.perf_counter()
        assert plan.hold is None, plan.hold_detail
        now = (time.process_time(), traffic.requests, traffic.received_bytes)
        figures = {
            "cluster": read - began,
            "load": observed - read,
            "plan": planned - observed,
            "cpu": now[0] - before[0],
            "requests": now[1] - before[1],
            "kib": (now[2] - before[2]) / 1024,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        before = now
        del cluster, load, plan
        print(json.dumps(figures), flush=True)
    watch.end()


def cycles(
    mode: str, server: ApiServer, prometheus_url: str, change: Callable[[int], None]
) -> list[Report]:
    """The figures of all cycles of one mode."""
    command = [sys.executable, "-m", "benchmarks.real_api", "--measure", mode]
    command += ["--kubeconfig", str(server.admin_kubeconfig), "--prometheus", prometheus_url]
    found = []
    with subprocess.Popen(  # noqa: S603 (this very module)
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in range(CYCLES):
            if number:
                change(number)
            before = server.cpu_seconds
            process.stdin.write("cycle\n")
            process.stdin.flush()
            report: Report = json.loads(process.stdout.readline())
            found.append(report | {"api_cpu": server.cpu_seconds - before})
        process.stdin.close()
    return found


def show(name: str, report: Report) -> None:
    """One row."""
    seconds = "".join(f"{report[field]:>9.3f}" for field in FIELDS[:5])
    print(
        f"{name:<22}{seconds}{report['requests']:>10.0f}{report['kib']:>10.0f}"
        f"{report['peak_mib']:>10.0f}",
        flush=True,
    )


def main(node_count: int, pod_count: int, changed: int) -> None:
    """Measure both modes on one cluster, and print a table."""
    pods_per_node = max(1, pod_count // node_count)
    cluster = SyntheticCluster(node_count, pods_per_node, overloaded_share=0.05)
    print(
        f"desched {__version__}, Python {platform.python_version()}, {platform.machine()}, "
        f"{len(os.sched_getaffinity(0))} cores; {node_count:,} nodes, {cluster.pod_count:,} pods, "
        f"{changed:,} pods change between cycles"
    )
    columns = ("read s", "load s", "plan s", "CPU s", "API CPU s", "requests", "KiB", "peak MiB")
    stand_in = [sys.executable, "-m", "benchmarks.server"]
    stand_in += [str(node_count), str(pods_per_node), "fits"]
    binaries = find_or_build(("etcd", "kube-apiserver"), print)
    with (
        ApiServer(binaries) as server,
        subprocess.Popen(  # noqa: S603 (a module beside this one)
            stand_in, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as prometheus,
    ):
        assert prometheus.stdin is not None
        assert prometheus.stdout is not None
        url = prometheus.stdout.readline().strip()
        server.fill(cluster)
        print(
            f"{'':<22}" + "".join(f"{name:>9}" for name in columns[:5]) + "  requests"
            "       KiB  peak MiB"
        )
        for mode in MODES:
            found = cycles(
                mode,
                server,
                url,
                lambda number: server.change(
                    cluster, range(number * changed, (number + 1) * changed)
                ),
            )
            show(f"{mode}, first cycle", found[0])
            steady = {key: statistics.median(r[key] for r in found[1:]) for key in found[0]}
            show(f"{mode}, later ones", steady)
        prometheus.stdin.close()


def parsed() -> argparse.Namespace:
    """The flags; those of `--measure` are for the processes that this module starts."""
    parser = argparse.ArgumentParser(prog="benchmarks.real_api", description=__doc__)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--pods", type=int, default=5_000)
    parser.add_argument("--changed", type=int, default=100, help="pods between two cycles")
    parser.add_argument("--measure", choices=MODES, help=argparse.SUPPRESS)
    parser.add_argument("--kubeconfig", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--prometheus", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    flags = parsed()
    if flags.measure:
        measure(flags.measure, flags.kubeconfig, flags.prometheus)
    else:
        main(flags.nodes, flags.pods, flags.changed)
