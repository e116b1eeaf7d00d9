"""Measures cycles against a real API server: `python -m benchmarks.real_api --nodes 1000`.

Starts etcd and kube-apiserver of the tests, fills etcd with a synthetic cluster, and runs one after
the other, each in a process of its own: informers of client-go, which only keep what a descheduler
needs, cycles that watch, and cycles that list. Between two cycles some pods change, and each node
renews its status. Prometheus is a stand-in. CPU is user and system time, which a busy machine
changes least.
"""

import argparse
import hashlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, NamedTuple

from benchmarks.api_server import ApiServer, cpu_seconds, memory_mib
from benchmarks.measured_cycles import Figures
from benchmarks.measures import measured_by
from benchmarks.synthetic import SyntheticCluster
from tests.controlplane.binaries import HERE, PinnedSet, find_or_build

STEADY_CYCLES = 5
ACTING_CYCLES = 3
CYCLES_A_DAY = 288
PROFILE = ("--function", "--gil", "--rate", "100")  # threads that wait count as idle
FLAME_GRAPH_TITLE = "What a service that watches spends its time on, by function"
INFORMERS = Path(__file__).parent / "informers"

SECONDS = ("read", "load", "plan", "act", "cpu", "interval_cpu", "api_cpu")
COUNTS = ("requests", "kib", "queries", "load_kib", "peak_mib")


class Scene(NamedTuple):
    """What all programs are measured on."""

    server: ApiServer
    cluster: SyntheticCluster
    changed: int
    prometheus_url: str

    def change(self, number: int) -> None:
        """Five minutes of a cluster."""
        first = number * self.changed
        self.server.change_pods(self.cluster, range(first, first + self.changed))
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for i in range(self.cluster.node_count):
            self.server.change_node(f"node-{i:05d}", now)


class Program:
    """A program that prints a line for what it has done."""

    def __init__(self, pid: int, lines: IO[str], commands: IO[str]) -> None:
        self.pid = pid
        self._lines = lines
        self._commands = commands

    def begin(self, command: str) -> None:
        """Let it do something."""
        self._commands.write(f"{command}\n")
        self._commands.flush()

    def done(self) -> str:
        """Wait until it has printed a line."""
        line = self._lines.readline()
        assert line, "the program has ended"
        return line


@contextmanager
def running(command: Sequence[str | Path]) -> Iterator[Program]:
    """The program, until its standard input ends."""
    with subprocess.Popen(  # noqa: S603 (a program of this package)
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Program(process.pid, process.stdout, process.stdin)
        process.stdin.close()


@contextmanager
def sampled(pid: int, flame_graph: Path | None) -> Iterator[None]:
    """Draw in which functions the process spends its time meanwhile."""
    if flame_graph is None:
        yield
        return
    command = [Path(sys.executable).with_name("py-spy"), "record", *PROFILE]
    options = ["--output", flame_graph, "--pid", str(pid)]
    with subprocess.Popen(  # noqa: S603 (of the bench group)
        [*map(str, command), *map(str, options)], stdout=subprocess.DEVNULL
    ) as profiler:
        yield
        profiler.send_signal(signal.SIGINT)
    flame_graph.write_text(still(flame_graph.read_text()))


def still(drawing: str) -> str:
    """The drawing with its title, without its script and what needs it; names are tooltips."""
    titled = re.sub(r'(<text id="title"[^>]*>)[^<]*', rf"\1{FLAME_GRAPH_TITLE}", drawing)
    parts = r'<script.*?</script>| onload="[^"]*"|<!--.*?-->|<text id="(?!title)[^>]*>[^<]*</text>'
    return re.sub(parts, "", titled, flags=re.DOTALL)


def informers(scene: Scene, binary: Path) -> None:
    """Print what keeping the caches takes at least."""
    before = scene.server.cpu_seconds
    with running([binary, scene.server.admin_kubeconfig]) as program:
        synced_seconds = float(program.done())
        first = {
            "read": synced_seconds,
            "cpu": cpu_seconds(program.pid),
            "api_cpu": scene.server.cpu_seconds - before,
            "peak_mib": memory_mib(program.pid),
        }
        show("informers, first sync", first)
        spent = []
        for number in range(1, STEADY_CYCLES + 1):
            before = cpu_seconds(program.pid)
            scene.change(number)
            spent.append(cpu_seconds(program.pid) - before)
        interval = statistics.median(spent)
        show("informers, later", {"interval_cpu": interval, "peak_mib": memory_mib(program.pid)})


def cycles(scene: Scene, mode: str, flame_graph: Path | None) -> None:
    """Print the figures of cycles of one mode, and draw where those after the first spend time."""
    command = [sys.executable, "-m", "benchmarks.measured_cycles", mode]
    command += ["--kubeconfig", str(scene.server.admin_kubeconfig)]
    command += ["--prometheus", scene.prometheus_url]
    orders = ["plan"] * STEADY_CYCLES + ["act"] * (ACTING_CYCLES if mode == "watching" else 0)
    with running(command) as program:
        program.done()  # with its imports
        show(f"{mode}, first cycle", measured(scene, program, "plan", 0))
        with sampled(program.pid, flame_graph):
            found = [measured(scene, program, order, n) for n, order in enumerate(orders, start=1)]
    planning = medians(found[:STEADY_CYCLES])
    show(f"{mode}, later", planning)
    for figures in found[STEADY_CYCLES:]:
        show(f"{mode}, {figures['evicted']:.0f} evictions", figures)
    day = planning["interval_cpu"] * CYCLES_A_DAY
    print(f"{mode}: {day:.0f} s of CPU for a day with a cycle every five minutes")


def measured(scene: Scene, program: Program, order: str, number: int) -> Figures:
    """One cycle, and, unless it is the first, the changes before it."""
    began = cpu_seconds(program.pid)
    if number:
        scene.change(number)
    api_began = scene.server.cpu_seconds
    program.begin(order)
    figures: Figures = json.loads(program.done())
    return figures | {
        "api_cpu": scene.server.cpu_seconds - api_began,
        "interval_cpu": cpu_seconds(program.pid) - began,
    }


def medians(found: Sequence[Figures]) -> Figures:
    """The median of each figure."""
    return {name: statistics.median(each[name] for each in found) for name in found[0]}


def show(name: str, figures: Mapping[str, float]) -> None:
    """One row."""
    seconds = (f"{figures[key]:.2f}" if key in figures else "-" for key in SECONDS)
    counts = (f"{figures[key]:.0f}" if key in figures else "-" for key in COUNTS)
    print(row(name, [*seconds, *counts]), flush=True)


def row(name: str, cells: Sequence[str]) -> str:
    """Cells below each other."""
    return f"{name:<24}" + "".join(f"{cell:>9}" for cell in cells)


def informers_binary() -> Path:
    """The informers, built as the control plane is; named by their source."""
    digest = hashlib.sha256((INFORMERS / "main.go").read_bytes()).hexdigest()[:8]
    name = f"informers-{digest}"
    module = os.path.relpath(INFORMERS, HERE)
    return find_or_build((name,), print, PinnedSet("go", {name: (module, ".")}))[name]


def main(flags: argparse.Namespace) -> None:
    """Measure all programs on one cluster, and print a table."""
    pods_per_node = max(1, flags.pods // flags.nodes)
    overloaded_share = flags.overloaded / flags.nodes
    cluster = SyntheticCluster(flags.nodes, pods_per_node, overloaded_share)
    print(
        f"{measured_by()}, load {os.getloadavg()[0]:.0f}; "
        f"{flags.nodes:,} nodes, {flags.overloaded:,} overloaded, {cluster.pod_count:,} pods, "
        f"{flags.changed:,} change between cycles"
    )
    stand_in = [sys.executable, "-m", "benchmarks.server"]
    stand_in += [str(flags.nodes), str(pods_per_node), "fits", str(overloaded_share)]
    binaries = find_or_build(("etcd", "kube-apiserver"), print)
    informers_file = informers_binary()
    with ApiServer(binaries) as server, running(stand_in) as prometheus:
        began = time.monotonic()
        scene = Scene(server, cluster, flags.changed, prometheus.done().strip())
        server.fill(cluster)
        server.wait_until_idle()
        print(f"filled in {time.monotonic() - began:.0f} s")
        names = [f"{name} s" for name in ("read", "load", "plan", "act", "CPU", "all CPU", "API")]
        print(row("", [*names, "requests", "KiB", "queries", "KiB", "peak MiB"]))
        if flags.flame_graph is None:
            informers(scene, informers_file)
        cycles(scene, "watching", flags.flame_graph)
        if flags.flame_graph is None:
            cycles(scene, "listing", None)


def parsed() -> argparse.Namespace:
    """The flags."""
    parser = argparse.ArgumentParser(prog="benchmarks.real_api", description=__doc__)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--pods", type=int, default=5_000)
    parser.add_argument("--overloaded", type=int, default=50, help="nodes")
    parser.add_argument("--changed", type=int, default=100, help="pods between two cycles")
    parser.add_argument(
        "--flame-graph", type=Path, help="an SVG of cycles that watch; needs py-spy"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main(parsed())
