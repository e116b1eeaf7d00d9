"""Measures what cycles cost a real Prometheus: `python -m benchmarks.real_prometheus --nodes 1000`.

Fills the Prometheus of the tests with the series of a synthetic cluster, every half minute a
sample, and plans cycle after cycle. The windows are of five minutes. The API server is a stand-in
that is read once. Later cycles begin at the times of the history, as those of a service with the
default interval do. CPU is user and system time of each process. To write the samples may take
longer than they last, so desched's clock and the times of its queries begin where the writing
began.
`--by-query` sends each query of a later cycle once more, alone, and prints what it costs.
"""

import argparse
import gc
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import urllib3
from msgspec.structs import replace

from benchmarks.api_server import cpu_seconds, memory_mib
from benchmarks.cycle import kubeconfig
from benchmarks.measured_cycles import Figures, Traffic, policy
from benchmarks.measures import measured_by
from benchmarks.real_api import row, running
from benchmarks.remote_write import History, measures_of, write
from benchmarks.synthetic import SyntheticCluster
from desched.adapters.kept_history import KeptPoints, Span
from desched.adapters.kubernetes.client.connection import connect
from desched.adapters.kubernetes.cluster_reader import KubernetesReader
from desched.adapters.prometheus.client import PrometheusClient
from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.cycle_queries import CycleQueries
from desched.adapters.prometheus.reader import PrometheusLoadReader
from desched.adapters.prometheus.session import PrometheusSession
from desched.cycle import run_cycle
from desched.cycle_report import CycleInfo
from desched.model.cluster import ClusterState
from desched.model.report import Mode
from desched.model.state import State
from desched.ports import World
from desched.service.process.clock import SystemClock
from tests.controlplane.binaries import find_or_build
from tests.controlplane.prometheus_server import PrometheusServer

CYCLES = 9
"""By default: the first, and twice the four of which one counts the CPUs of all modes."""
QUERY_RUNS = 5
SHOWN_CHARACTERS = 250
FLAGS = ("--web.enable-remote-write-receiver", "--storage.tsdb.min-block-duration=10h")


class OneCluster:
    """A ClusterReader that has read the cluster, without the time of that."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = replace(cluster, server_times=None)

    def read_cluster(self, *_: object) -> ClusterState:
        """The same cluster each time."""
        return self._cluster


def read_cluster(flags: argparse.Namespace, directory: str) -> ClusterState:
    """The synthetic cluster as desched reads it."""
    size = str(flags.nodes), str(flags.pods // flags.nodes), "fits"
    more = str(flags.overloaded / flags.nodes), str(flags.cpus)
    with running([sys.executable, "-m", "benchmarks.server", *size, *more]) as server:
        file = kubeconfig(server.done().strip(), directory)
        return KubernetesReader(connect(file, None)).read_cluster()


class ClockOfSamples(SystemClock):
    """A clock that begins now at this time, Unix seconds; queries are evaluated by it."""

    def __init__(self, begin: float) -> None:
        super().__init__()
        self._behind = timedelta(seconds=time.time() - begin)
        send = PrometheusSession.request

        def at_its_time(session: PrometheusSession, *, params: dict[str, str], **more: Any) -> Any:
            # A query over a range has its times.
            now = {} if "start" in params else {"time": f"{self.now().timestamp():.3f}"}
            return send(session, params=params | now, **more)

        PrometheusSession.request = at_its_time  # type: ignore[method-assign,assignment]

    def now(self) -> datetime:
        """The time, in UTC."""
        return super().now() - self._behind


def fill(url: str, flags: argparse.Namespace, now: float) -> int:
    """Write the past of all nodes, and return the number of series."""
    share = flags.overloaded / flags.nodes
    size = flags.nodes, flags.pods // flags.nodes, share
    cluster = SyntheticCluster(*size, cores=flags.cpus)
    pool, count = urllib3.PoolManager(), 0
    history = History(now, flags.past * 60)
    for node in range(flags.nodes):
        measures = list(measures_of(cluster, node, roots=flags.roots))
        write(url, history, measures, pool)
        count += len(measures)
    return count


def begin_a_step_later(*, near: bool) -> None:
    """Let each cycle read of the past what it would if the one before had been a step ago.

    If it is `near` to a regular time, as with the default interval, that is nothing, and else one
    point.
    """
    move = KeptPoints.move

    def moved(points: KeptPoints[Any], span: Span) -> None:
        move(points, span)
        points.read_again_after(span.last - 1)

    def near_to(span: Span, _now: float, _window_seconds: float) -> int | None:
        return span.last if near else None

    KeptPoints.move = moved  # type: ignore[method-assign,assignment]
    Span.near = near_to  # type: ignore[method-assign,assignment]


class Sent:
    """The queries of the latest cycle, each alone, with what sends it once more."""

    def __init__(self) -> None:
        self.queries: dict[tuple[str, str], Callable[..., Any]] = {}
        for method in ("vectors", "parts_of_pods", "grids", "points"):
            self._keep(method)

    def _keep(self, method: str) -> None:
        send = getattr(CycleQueries, method)

        def again(evaluated: Any, part: Any, *more: Any, client: PrometheusClient) -> Any:
            queries = CycleQueries(client)
            queries.evaluated = evaluated
            return send(queries, part, *more)

        def kept(queries: CycleQueries, parts: Mapping[str, Any], *more: Any) -> Any:
            for name, query in parts.items():
                once = partial(again, queries.evaluated, {name: query}, *more)
                self.queries[f"{method} {name}", query.promql] = once
            return send(queries, parts, *more)

        setattr(CycleQueries, method, kept)

    def measure(self, server: PrometheusServer) -> None:
        """Print what each costs, the dearest first."""
        client = PrometheusClient(PrometheusConnection(url=server.url), lambda _: False)
        costs: list[tuple[float, int, str, str]] = []
        for (name, promql), send in self.queries.items():
            found = []
            for _ in range(QUERY_RUNS):
                before = cpu_seconds(server.pid)
                (answer,) = send(client=client).values()
                found.append((cpu_seconds(server.pid) - before, len(answer)))
            costs.append((*sorted(found)[QUERY_RUNS // 2], name, promql))
        for seconds, series, name, promql in sorted(costs, reverse=True):
            print(f"{seconds:8.3f} {series:>7,} {name:<32} {promql[:SHOWN_CHARACTERS]}")


def measure(
    cluster: ClusterState, server: PrometheusServer, clock: ClockOfSamples, cycles: int
) -> None:
    """Print the figures of the first cycle, and the means of those after it."""
    traffic = Traffic()
    reader = PrometheusLoadReader(PrometheusConnection(url=server.url), lambda _: False)
    world = World(OneCluster(cluster), reader, clock, None)  # type: ignore[arg-type]

    def spent() -> Figures:
        return {
            "prometheus": cpu_seconds(server.pid),
            "desched": time.process_time(),
            "queries": traffic.requests["http"],
            "kib": traffic.received_bytes["http"] / 1024,
        }

    found: list[Figures] = []
    for number in range(cycles):
        before = spent()
        info = CycleInfo(number, Mode.DRY_RUN, "benchmark")
        report, _ = run_cycle(world, policy(), State(), info)
        assert report.plan.hold is None, report.plan.hold_detail
        after = spent()
        found.append({name: after[name] - before[name] for name in after})
        found[-1]["evictions"] = len(report.plan.evictions)
        gc.collect()
    means = {name: statistics.fmean(each[name] for each in found[1:]) for name in found[0]}
    for name, figures in (("first cycle", found[0]), ("later, means", means)):
        seconds = (f"{figures[key]:.2f}" for key in ("prometheus", "desched"))
        counts = (f"{figures[key]:.0f}" for key in ("queries", "kib", "evictions"))
        print(row(name, [*seconds, *counts]), flush=True)


def main(flags: argparse.Namespace) -> None:
    """Measure one cluster."""
    print(
        f"{measured_by()}, load {os.getloadavg()[0]:.0f}; {flags.nodes:,} nodes with {flags.cpus} "
        f"CPUs, {flags.overloaded:,} overloaded, {flags.pods:,} pods, cgroups that belong to no "
        f"pod are {'' if flags.roots else 'not '}kept"
    )
    sent = Sent() if flags.by_query else None
    begin_a_step_later(near=not flags.apart)
    binary = find_or_build(("prometheus",), print)["prometheus"]
    with tempfile.TemporaryDirectory() as directory:
        cluster = read_cluster(flags, directory)
        prometheus = PrometheusServer(binary, None, Path(directory), more_flags=FLAGS, variables={})
        with prometheus as server:
            began = time.time()
            count = fill(server.url, flags, began)
            seconds, memory = time.time() - began, memory_mib(server.pid)
            print(f"{count:,} series in {seconds:.0f} s, {memory:,.0f} MiB", flush=True)
            print(row("", ["Prom. s", "CPU s", "queries", "KiB", "evictions"]))
            measure(cluster, server, ClockOfSamples(began), flags.cycles)
            if sent is not None:
                sent.measure(server)


def parsed() -> argparse.Namespace:
    """The flags."""
    parser = argparse.ArgumentParser(prog="benchmarks.real_prometheus", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--pods", type=int, default=30_000)
    parser.add_argument("--overloaded", type=int, default=50, help="nodes")
    parser.add_argument("--cpus", type=int, default=8, help="of a node, as node_exporter has them")
    parser.add_argument(
        "--roots", action="store_true", help="with the cgroups of nodes and of all their pods"
    )
    parser.add_argument("--past", type=int, default=190, help="minutes; 12 suffice for windows")
    parser.add_argument(
        "--apart", action="store_true", help="later cycles are not near to the times that are kept"
    )
    parser.add_argument("--cycles", type=int, default=CYCLES, help="with the first one")
    parser.add_argument("--by-query", action="store_true", help="print what each query costs")
    return parser.parse_args()


if __name__ == "__main__":
    main(parsed())
