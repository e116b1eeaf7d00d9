"""Runs a descheduler on a real control plane, in a world that is faster than the clock.

Each pod begins on its node of the day; from then on kube-scheduler decides.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec

from benchmarks.api_server import cpu_seconds
from benchmarks.faster_service import faster_policy
from benchmarks.live_load import LiveLoad
from desched.lab.closed_loop import Day, Deployment, LoopResult, Pace
from desched.lab.history import Floats, UsageSeries
from desched.model.cluster import PodRef
from desched.model.landing import LandingChance
from desched.model.plan import NodeClass
from desched.model.report import EvictionVerdict
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.installation import ALONE, REPOSITORY
from tests.controlplane.logs import events_in
from tests.controlplane.manifests import Object, deployment
from tests.controlplane.process import Server
from tests.controlplane.prometheus_server import PrometheusServer
from tests.controlplane.sites import Sites
from tests.controlplane.soak_observer import steered

SCRAPE_SECONDS, LOOKBACK_SECONDS, GRACE_SECONDS = 30, 300, 30
"""Of the day: a usual scrape interval, and defaults of Prometheus and of pods."""

REFRESH_SECONDS = 0.2
START_SECONDS = 3.0
"""What the service takes until its first cycle."""
STOP_SECONDS = 20.0
BUILD_SECONDS = 300.0
AUDIT = "audit.jsonl"
LINGER = "desched.test/linger"
"""The annotation by which KWOK lets pods take all of their grace period."""


class Times(NamedTuple):
    """For how long a run lasts, and how fast it is."""

    pace: Pace
    hours: int
    speed: int

    @property
    def interval(self) -> str:
        """The time from one cycle to the next on the clock."""
        return f"{self.pace.interval_seconds / self.speed:.0f}s"

    @property
    def seconds(self) -> float:
        """What counts of the day."""
        return self.hours * 3600.0

    @property
    def end(self) -> float:
        """The end in seconds of the day."""
        return self.pace.begins_at + self.seconds


class Lag(msgspec.Struct, frozen=True):
    """Whether everything kept up; times are seconds of the day.

    `cycles` of `due_cycles` were completed; the first one ended `first_cycle` later than it was to
    begin. `longest_cycle` is the longest of them, `longest_interval` the longest time from the end
    of one to that of the next. `unknown_loads` counts nodes of unknown load over all cycles.
    `scrapes_share` is the share of its scrapes that the worst target had, `unseen` the longest time
    from one look at the pods to the next.
    """

    due_cycles: int
    cycles: int
    first_cycle: float
    longest_cycle: float
    longest_interval: float
    unknown_loads: int
    scrapes_share: float
    unseen: float


Service = Callable[[Sites, Times], Sequence[str | Path]]
"""The command of a descheduler that acts on a cluster until it is stopped."""


class RealOutcome(NamedTuple):
    """What happened, as in a simulation; `named`, `results` and taints are as of `Tally`.

    `holds` counts the cycles in which desched held all evictions, by reason.
    """

    result: LoopResult
    named: Mapping[PodRef, LandingChance]
    results: Mapping[str, int]
    holds: Mapping[str, int]
    taints: int
    most_tainted: int
    cpu_seconds: float
    lag: Lag


def run_for_real(
    day: Day, times: Times, targets: Floats, binaries: Mapping[str, Path], service: Service
) -> RealOutcome:
    """Let a descheduler act on a control plane of its own."""
    load, speed, taints = LiveLoad(day, times.speed), times.speed, _Taints()
    with TemporaryDirectory(prefix="real-day-") as folder:
        directory = Path(folder)
        with ControlPlane(
            binaries, usage_refresh_seconds=REFRESH_SECONDS, with_usage=load.with_usage
        ) as plane:
            prometheus = PrometheusServer(
                binaries["prometheus"],
                plane.metrics,
                directory / "prometheus",
                f"{SCRAPE_SECONDS * 1000 // speed}ms",
                more_flags=[f"--query.lookback-delta={LOOKBACK_SECONDS * 1000 // speed}ms"],
            )
            sites = Sites(plane, prometheus, directory)
            sites.install_permissions("overlays/evict")
            pods = _built(sites, day, speed)
            with prometheus:
                load.begin(pods)
                begun_at = time.time()
                first_at = times.pace.begins_at + times.pace.interval_seconds
                time.sleep(max(0.0, (first_at - load.now) / speed - START_SECONDS))
                with _running(service(sites, times), directory) as process:

                    def over() -> bool:
                        taints.look(plane.seen_nodes)
                        return load.now >= times.end

                    left_seconds = (times.end - load.now) / speed
                    process.wait_until("the hours are over", over, left_seconds + STOP_SECONDS)
                    used = cpu_seconds(process.pid)
                    scrapes = _scrapes_share(prometheus, times)
        cycles = [e for e in events_in(process.log) if e.get("event") == "cycle.completed"]
        lines = events_in(directory / AUDIT)
    return RealOutcome(
        load.result(targets, times.pace, times.seconds),
        named_in(lines),
        Counter(line["result"] for line in lines if line["event"] == "result"),
        Counter(cycle["hold"] for cycle in cycles if "hold" in cycle),
        taints.count,
        taints.most,
        used,
        lag_of(cycles, begun_at, times, scrapes, load.longest_gap_seconds),
    )


@contextmanager
def _running(command: Sequence[str | Path], directory: Path) -> Iterator[Server]:
    (directory / AUDIT).touch()
    process = Server("descheduler", command, directory, {"PYTHONPATH": str(REPOSITORY)})
    try:
        yield process
    finally:
        process.stop(grace=STOP_SECONDS)


class _Taints:
    """Counts the soft taints that are seen."""

    def __init__(self) -> None:
        self.count = self.most = 0
        self._before: set[str] = set()

    def look(self, nodes: Sequence[Object]) -> None:
        now = set(steered(nodes))
        self.count += len(now - self._before)
        self.most = max(self.most, len(now))
        self._before = now


def _built(sites: Sites, day: Day, speed: int) -> list[tuple[Object, UsageSeries]]:
    """Make the cluster, with each pod on its node of the day; returns the pods and their usage."""
    plane = sites.plane
    (size,) = set(day.nodes.values())
    plane.add_node(*day.nodes, cpu=f"{size.cpu_millicores}m", memory=f"{size.memory_bytes}")
    for namespace in sorted({each.namespace for each in day.deployments}):
        plane.create_namespace(namespace)
    with plane.paused_scheduler():
        plane.apply(*(_manifest(each, speed) for each in day.deployments))
        wanted = sum(len(each.nodes) for each in day.deployments)
        plane.wait_for("all pods", lambda: len(_pods_of(plane)) == wanted, BUILD_SECONDS)
        found: list[tuple[Object, UsageSeries]] = []
        of_app: dict[str, list[Object]] = {}
        for pod in _pods_of(plane):
            of_app.setdefault(pod["metadata"]["labels"]["app"], []).append(pod)
        for each in day.deployments:
            used = each.template.usage_by_replica
            for pod, series, node in zip(of_app[each.name], used, each.nodes, strict=True):
                assert isinstance(series, UsageSeries)
                found.append((pod, series))
                if node:
                    sites.bind(each.namespace, pod["metadata"]["name"], node)
    plane.wait_for("running pods", lambda: _count_running(plane) >= wanted, BUILD_SECONDS)
    return found


def _pods_of(plane: ControlPlane) -> list[Object]:
    return [pod for pod in plane.seen_pods if "app" in (pod["metadata"].get("labels") or {})]


def _count_running(plane: ControlPlane) -> int:
    return sum(pod["status"].get("phase") == "Running" for pod in _pods_of(plane))


def _manifest(each: Deployment, speed: int) -> Object:
    """The Deployment; its pods take all of their grace period to end."""
    requests = each.template.scheduling.requests
    amounts = {"cpu": f"{requests.cpu_millicores}m", "memory": f"{requests.memory_bytes}"}
    container = {"name": "app", "image": "app", "resources": {"requests": amounts}}
    found = deployment(
        each.name,
        len(each.nodes),
        "0",
        each.namespace,
        containers=[container],
        terminationGracePeriodSeconds=max(1, GRACE_SECONDS // speed),
    )
    found["spec"]["template"]["metadata"]["annotations"][LINGER] = "true"
    return found


def desched(policy: str) -> Service:
    """Desched with this policy and the rights that `deploy/` ships."""

    def command(sites: Sites, times: Times) -> Sequence[str | Path]:
        file = sites.directory / "policy.yaml"
        file.write_text(faster_policy(policy, times.speed, sites.prometheus.url))
        return [
            *(sys.executable, "-m", "benchmarks.faster_service", str(times.speed), "--evict"),
            *("--policy", file, "--kubeconfig", sites.kubeconfig, "--interval", times.interval),
            *("--listen-address", "127.0.0.1:0", "--log-format", "json", ALONE),
            *("--audit-log", sites.directory / AUDIT),
        ]

    return command


def _scrapes_share(prometheus: PrometheusServer, times: Times) -> float:
    wall_seconds = int(times.seconds / times.speed)
    (worst,) = prometheus.query(f"min(sum_over_time(up[{wall_seconds}s]))")
    return float(worst["value"][1]) * SCRAPE_SECONDS / times.seconds


def named_in(audit: Iterable[Object]) -> dict[PodRef, LandingChance]:
    """The likeliest node of each replacement by an audit log, by the evicted pod."""
    found = {}
    for line in audit:
        if line["event"] == "eviction" and line["verdict"] == EvictionVerdict.EVICTED:
            landing = msgspec.convert(line["forecast"]["landing"], list[LandingChance])
            if landing:
                found[msgspec.convert(line["pod"], PodRef)] = landing[0]
    return found


def lag_of(
    cycles: Sequence[Object],
    begun_at: float,
    times: Times,
    scrapes_share: float,
    unseen_seconds: float,
) -> Lag:
    """How a service kept up, by the `cycle.completed` lines of its log.

    The day began at `begun_at` of the clock.
    """
    ends = [datetime.fromisoformat(cycle["timestamp"]).timestamp() for cycle in cycles]
    between = [later - earlier for earlier, later in pairwise(ends)]
    first_at = times.speed * (min(ends, default=begun_at) - begun_at)
    return Lag(
        due_cycles=int(times.seconds // times.pace.interval_seconds) - 1,
        cycles=len(cycles),
        first_cycle=first_at - times.pace.begins_at - times.pace.interval_seconds,
        longest_cycle=times.speed * max((c["duration_seconds"] for c in cycles), default=0.0),
        longest_interval=times.speed * max(between, default=0.0),
        unknown_loads=sum(cycle["nodes"].get(NodeClass.UNKNOWN, 0) for cycle in cycles),
        scrapes_share=scrapes_share,
        unseen=unseen_seconds,
    )
