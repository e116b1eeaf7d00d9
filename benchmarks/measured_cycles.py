"""Runs cycles in this process, one for each line of standard input, and prints what each costs.

`python -m benchmarks.measured_cycles watching --kubeconfig FILE --prometheus URL`; a line is `plan`
or `act`. Standard output has a line when it begins, and then one line of JSON for each.
"""

import argparse
import json
import resource
import socket
import ssl
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
from urllib3.connectionpool import HTTPConnectionPool

from benchmarks.cycle import POLICY
from desched.adapters.kubernetes.client.connection import connect
from desched.adapters.kubernetes.cluster_reader import KubernetesReader
from desched.adapters.kubernetes.events import EventWriter
from desched.adapters.kubernetes.evictor import KubernetesEvictor
from desched.adapters.kubernetes.state_store import KubernetesStateStore
from desched.adapters.kubernetes.taints import KubernetesSteerer
from desched.adapters.kubernetes.watch.cluster import ClusterWatch
from desched.adapters.kubernetes.watch.loop import WatchClient
from desched.adapters.kubernetes.watch.reader import WatchingReader
from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.reader import PrometheusLoadReader
from desched.cycle import run_cycle
from desched.cycle_report import CycleInfo
from desched.model.cluster import ClusterState
from desched.model.report import EvictionVerdict, Mode
from desched.model.state import State
from desched.policy.policy import Policy
from desched.policy_file.loading import parse_policy
from desched.ports import ClusterReader, MaybeFreshPod, PodToRead, World
from desched.service.process.clock import SystemClock
from desched.service.process.logs import configure_logs

MODES = ("watching", "listing")
NAMESPACE = "desched-system"
EVICTIONS = 10
UNPACED = 1000  # a minute: what the pace waits is not measured

Figures = dict[str, float]


class Traffic:
    """What this process asks of servers, by `https` for the API server and `http` for Prometheus.

    Bytes are as received, compressed where the server does that.
    """

    def __init__(self) -> None:
        self.requests = {"https": 0, "http": 0}
        self.received_bytes = {"https": 0, "http": 0}
        self._count_bytes(ssl.SSLSocket, "https")
        self._count_bytes(socket.socket, "http")
        send = HTTPConnectionPool.urlopen

        def counted(pool: HTTPConnectionPool, *arguments: Any, **more: Any) -> Any:
            self.requests[pool.scheme or "http"] += 1
            return send(pool, *arguments, **more)

        HTTPConnectionPool.urlopen = counted  # type: ignore[method-assign,assignment]

    def _count_bytes(self, kind: type[socket.socket], scheme: str) -> None:
        receive = kind.recv_into

        def recv_into(*arguments: Any, **more: Any) -> int:
            count: int = receive(*arguments, **more)
            self.received_bytes[scheme] += count
            return count

        kind.recv_into = recv_into  # type: ignore[method-assign]


class TimedReader:
    """A ClusterReader; `read_seconds` is how long the last reading took."""

    def __init__(self, reader: ClusterReader) -> None:
        self._reader = reader
        self.read_seconds = 0.0

    def read_cluster(self, *named: Sequence[str]) -> ClusterState:
        """The whole cluster."""
        began = time.perf_counter()
        try:
            return self._reader.read_cluster(*named)
        finally:
            self.read_seconds = time.perf_counter() - began

    def read_around(self, pods: Sequence[PodToRead]) -> Sequence[MaybeFreshPod]:
        """Fresh looks."""
        return self._reader.read_around(pods)


def policy() -> Policy:
    """The policy of the benchmarks, with at most ten evictions in a cycle."""
    found = parse_policy(POLICY, "benchmark").policy
    limits = msgspec.structs.replace(
        found.limits, total=EVICTIONS, per_minute=UNPACED, slow_start=False
    )
    return msgspec.structs.replace(found, limits=limits)


class Cycles:
    """Cycles of one process; `end` ends its watches."""

    def __init__(self, mode: str, kubeconfig: Path, prometheus_url: str) -> None:
        self._traffic, stop = Traffic(), Event()
        kubernetes = connect(kubeconfig, None)
        lister = KubernetesReader(kubernetes)
        watch = ClusterWatch(WatchClient(connect(kubeconfig, None, stop.wait), stop, lambda: 0.5))
        self.end = watch.end
        watching = mode == "watching"
        self._reader = TimedReader(
            WatchingReader(lister, watch, Event().wait) if watching else lister
        )
        clock = SystemClock()
        self._world = World(
            self._reader,
            PrometheusLoadReader(PrometheusConnection(url=prometheus_url), lambda _: False),
            clock,
            KubernetesEvictor(kubernetes, EventWriter(kubernetes, clock)),
            steerer=KubernetesSteerer(kubernetes),
        )
        self._store = KubernetesStateStore(kubernetes, NAMESPACE)
        self._store.load()
        self._policy = policy()

    def run(self, mode: Mode) -> Figures:
        """One cycle."""
        before = self._spent()
        began = time.perf_counter()
        info = CycleInfo(1, mode, "benchmark")
        report, _ = run_cycle(self._world, self._policy, State(), info, self._store.save)
        seconds = time.perf_counter() - began
        spent = self._spent()
        plan = report.plan
        assert plan.hold is None, plan.hold_detail
        observed, planned = report.observe_seconds, report.plan_seconds
        evicted = sum(each.verdict is EvictionVerdict.EVICTED for each in report.outcomes)
        return {
            "read": self._reader.read_seconds,
            "load": observed - self._reader.read_seconds,
            "plan": planned,
            "act": seconds - observed - planned if mode is Mode.EVICT else 0.0,
            "planned": len(plan.evictions),
            "evicted": evicted,
            **{name: spent[name] - before[name] for name in spent},
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }

    def _spent(self) -> Figures:
        traffic = self._traffic
        return {
            "cpu": time.process_time(),
            "requests": traffic.requests["https"],
            "kib": traffic.received_bytes["https"] / 1024,
            "queries": traffic.requests["http"],
            "load_kib": traffic.received_bytes["http"] / 1024,
        }


def main(mode: str, kubeconfig: Path, prometheus_url: str, lines: Callable[[], str]) -> None:
    """A cycle for each line, until there are no more."""
    configure_logs("console", "warning", sys.stderr)
    cycles = Cycles(mode, kubeconfig, prometheus_url)
    print("ready", flush=True)
    while line := lines():
        found = cycles.run(Mode.EVICT if line.strip() == "act" else Mode.DRY_RUN)
        print(json.dumps(found), flush=True)
    cycles.end()


def parsed() -> argparse.Namespace:
    """The flags."""
    parser = argparse.ArgumentParser(prog="benchmarks.measured_cycles", description=__doc__)
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--prometheus", required=True)
    return parser.parse_args()


if __name__ == "__main__":
    flags = parsed()
    main(flags.mode, flags.kubeconfig, flags.prometheus, sys.stdin.readline)
