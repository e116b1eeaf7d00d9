"""All attacks of the threat model at once, beside a normal load: `python -m drills.attacks`.

Two control planes have the same 50 nodes, 1,000 pods and changes of load, and tenants whose pods
really use the same. On one of them everything is harmless, on the other the tenants attack. It
fails unless desched stays within its bounds there, and relieves the nodes of others as well.
"""

import argparse
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

import urllib3

from desched.model.plan import HoldReason
from desched.model.report import EvictionVerdict
from tests.controlplane.attacks import Attack, Attackers, Gates
from tests.controlplane.binaries import BinariesUnavailableError, find_or_build
from tests.controlplane.cluster import BINARIES, ControlPlane
from tests.controlplane.logs import GrowingLog
from tests.controlplane.manifests import VOLCANO_GROUPS, Object, deployment
from tests.controlplane.process import free_ports
from tests.controlplane.prometheus_server import PrometheusServer
from tests.controlplane.replicas import Replica
from tests.controlplane.sites import SITE, Sites
from tests.controlplane.soak_agenda import Agenda, Journal
from tests.controlplane.soak_churn import Churn
from tests.controlplane.soak_cluster import (
    NAME,
    NAMESPACE,
    PROTECTED,
    SoakCluster,
    kind_of,
    use_by_node,
)
from tests.controlplane.soak_observer import HeatWatch
from tests.controlplane.soak_witness import AuditLog
from tests.controlplane.stranger import GPU_APP, Samples, Stranger, gpu_samples
from tests.controlplane.tenants import (
    FAILING,
    GPU_POOL,
    GPUS,
    POOL,
    STANDING,
    VGPU_MEMORY,
    VGPUS,
    Tenants,
    real_pods,
    storage_class,
)
from tests.controlplane.waiting import wait_for

NODES, SHARED, FORGED, GPU_NODES = 50, 18, 3, 2
"""Of the shared nodes, on which tenants run pods, some have forged metrics, and others GPUs."""

MOST_MEMORY_MIB = 512
PROBE_SECONDS, PROBE_TIMEOUT_SECONDS = 10.0, 5.0
TICK_SECONDS = 1.0
HOT_NODES, HOT_PACE, HEAT_SECONDS = 6, 3.0, 60.0
GPU_PODS_OF_NODE = 4
MOST_MORE_OVERLOAD, MOST_MORE_MINUTES = 1.2, 5.0
"""By which factor, and by how much beside that, nodes of others may be overloaded for longer."""


class Times(NamedTuple):
    """Of desched and of Prometheus, in seconds."""

    interval: int
    window: int
    scrape: int

    @property
    def load_aware(self) -> Object:
        """What the policy says beside what is published."""
        return {
            "nodeSelector": f"{SITE}={NAME}",
            "windows": {each: [f"{self.window}s"] for each in ("cpu", "memory", "gpu")},
            "targetThresholds": {"cpu": 80, "memory": 85, "gpu": 80},
            "gpuPods": "Allow",
            "thresholds": {"cpu": 30, "memory": 30, "gpu": 30},
        }


class Eviction(NamedTuple):
    """A pod that desched evicted; `was_hot` if its node really was overloaded in the window."""

    at: datetime
    namespace: str
    pod: str
    node: str
    reason: str
    was_hot: bool

    @property
    def app(self) -> str:
        """The workload of the pod."""
        return self.pod.rsplit("-", 2)[0]


class World:
    """A control plane with a load, tenants and a service of desched; `name` says which.

    `hot_minutes` is for how long each node really was overloaded.
    """

    def __init__(
        self,
        name: str,
        plane: ControlPlane,
        prometheus: PrometheusServer,
        files: Path,
        times: Times,
    ) -> None:
        self.name = name
        self.plane = plane
        self.tenants: Tenants
        self.service: Replica
        self.evictions: list[Eviction] = []
        self.asked = Counter[int]()
        self.results = Counter[str]()
        self.hot_minutes = defaultdict[str, float](float)
        self.unanswered: list[str] = []
        self.probes = 0
        self.stranger: Stranger
        self.gpu_exporter: Stranger
        self.gpu_nodes: Sequence[str] = ()
        self.forged: Sequence[str] = ()
        self._times = times
        self._sites = Sites(plane, prometheus, files)
        self._trail = GrowingLog(files / "evictions.jsonl")
        self._api_audit = AuditLog(plane.audit_log)
        self._heat = HeatWatch(plane, times.window + times.interval + 2 * times.scrape)
        self._read = 0
        self._began = self._looked_at = time.monotonic()

    def build(self, seed: str, *, harmful: bool) -> SoakCluster:
        """Make everything that runs, and return when it does."""
        plane = self.plane
        self._sites.install_permissions("overlays/evict")
        plane.serve(VOLCANO_GROUPS)
        plane.apply(storage_class())
        cluster = SoakCluster(plane, NODES, random.Random(seed))  # noqa: S311  reproducible
        pods = cluster.build()
        self._sites.allow_state_in(NAME)
        self.shared, self.gpu_nodes = cluster.nodes[:SHARED], cluster.nodes[:GPU_NODES]
        self.forged = cluster.nodes[GPU_NODES : GPU_NODES + FORGED]
        for node in self.shared:
            self._patch(node, {"metadata": {"labels": POOL}})
        for node in self.gpu_nodes:
            gpus = {GPUS: str(2 * GPU_PODS_OF_NODE), VGPUS: "8", VGPU_MEMORY: "320000"}
            self._patch(node, {"metadata": {"labels": GPU_POOL}})
            self._patch(f"{node}/status", {"status": {"capacity": gpus, "allocatable": gpus}})
        plane.apply(gpu_pods())
        self.tenants = Tenants(plane)
        pods += GPU_NODES * GPU_PODS_OF_NODE + self.tenants.create(real_pods(harmful=harmful))
        open_gates = Gates(self.tenants.of(FAILING[0]))

        def all_run() -> bool:
            return (harmful and open_gates() > 0) or self._running() >= pods

        plane.wait_for(f"{pods} Running pods", all_run, 600)
        return cluster

    def _patch(self, node: str, change: Object) -> None:
        status, answer = self.plane.request("PATCH", f"/api/v1/nodes/{node}", change)
        assert status == HTTPStatus.OK, answer

    def _running(self) -> int:
        return sum(pod["status"].get("phase") == "Running" for pod in self.plane.seen_pods)

    def start(self) -> None:
        """Start the service."""
        sites, (probes, pages) = self._sites, free_ports(2)
        command = sites.arguments(
            *("--evict", "--interval", f"{self._times.interval}s", "--log-format", "json"),
            *("--listen-address", f":{probes}", "--pages-address", f"127.0.0.1:{pages}"),
            *("--state-namespace", NAME, "--audit-log", str(self._trail.path)),
            policy=sites.policy(**self._times.load_aware),
            kubeconfig=sites.kubeconfig,
        )
        self._trail.path.touch()
        self.probes_port, self.pages_port = probes, pages
        self.service = Replica(f"desched-{self.name}", command, sites.directory, None)

    def wait_until_measured(self) -> None:
        """Until the windows of all pods are full."""
        sites, seconds = self._sites, self._times.window
        sites.prometheus.wait_until_has(
            f'count(container_memory_working_set_bytes{{container!=""}} offset {seconds}s)'
            f" >= {self._running()}",
            timeout=seconds + 300,
        )

    # What happens

    def look(self) -> None:
        """Look at the load, and at what desched has done since the last time."""
        now = time.monotonic()
        minutes, self._looked_at = (now - self._looked_at) / 60, now
        self._heat.look()
        for node, use in use_by_node(self.plane.seen_nodes, self.plane.seen_pods).items():
            if use.is_overloaded:
                self.hot_minutes[node] += minutes
        self._count_requests()
        for line in self._trail.events()[self._read :]:
            self._read += 1
            if line["event"] == "result":
                self.results[line["result"]] += 1
            elif line["verdict"] == EvictionVerdict.EVICTED:
                self.evictions.append(self._eviction(line))

    def has_begun(self) -> bool:
        """Whether a cycle has ended; it looks at what happens meanwhile."""
        self.look()
        return bool(self.service.cycles)

    def begin(self) -> None:
        """Count from here on."""
        self._began = self._looked_at = time.monotonic()
        self.hot_minutes.clear()

    def has_told_all(self) -> bool:
        """Whether desched has written down all evictions that the API server accepted."""
        self.look()
        return self.asked[HTTPStatus.CREATED] == len(self.evictions)

    def _eviction(self, line: Object) -> Eviction:
        pod, node, at = line["pod"], line["node"], datetime.fromisoformat(line["at"])
        hot = self._heat.was_hot(node, at)
        return Eviction(at, pod["namespace"], pod["name"], node, line["plan"]["reason"], hot)

    def _count_requests(self) -> None:
        account = self._sites.account
        user = f"system:serviceaccount:{account['namespace']}:{account['name']}"
        for event in self._api_audit.events():
            about = event.get("objectRef", {})
            if event["user"]["username"] == user and about.get("subresource") == "eviction":
                self.asked[event["responseStatus"]["code"]] += 1

    def probing(self, until: threading.Event) -> threading.Thread:
        """A thread that asks as the kubelet does."""
        thread = threading.Thread(target=self._probe, args=(until,), daemon=True)
        thread.start()
        return thread

    def _probe(self, until: threading.Event) -> None:
        http = urllib3.PoolManager(retries=False, timeout=PROBE_TIMEOUT_SECONDS)
        while not until.wait(PROBE_SECONDS):
            for path in ("/healthz", "/readyz"):
                self.probes += 1
                try:
                    url = f"http://127.0.0.1:{self.probes_port}{path}"
                    answer = http.request("GET", url, headers={"Connection": "close"})
                    failure = "" if answer.status == HTTPStatus.OK else str(answer.status)
                except urllib3.exceptions.HTTPError as error:
                    failure = str(error)
                if failure:
                    self.unanswered.append(f"{datetime.now(UTC):%H:%M:%S} {path}: {failure}")

    # What has happened

    def longest(self, field: str) -> float:
        """Of all cycles."""
        return max(float(cycle[field]) for cycle in self.service.cycles)

    @property
    def strangers(self) -> list[Eviction]:
        """Those of pods that are not the tenants'."""
        return [each for each in self.evictions if each.namespace not in self.tenants]

    def of_tenants(self) -> Counter[str]:
        """The evictions of tenants' pods, by namespace."""
        return Counter(each.namespace for each in self.evictions if each.namespace in self.tenants)

    def overloaded_minutes(self, *, shared: bool) -> float:
        """Of the nodes on which tenants run pods, or of all others."""
        return sum(
            minutes for node, minutes in self.hot_minutes.items() if (node in self.shared) == shared
        )

    def problems(self) -> Iterator[str]:
        """What must not be."""
        peak = self.service.most_memory_mib()
        if peak >= MOST_MEMORY_MIB:
            yield f"memory: {peak} MiB"
        yield from self._bad_cycles()
        yield from (f"probe: {each}" for each in self.unanswered)
        if self.asked[HTTPStatus.CREATED] != len(self.evictions):
            yield f"evictions: {self.asked} by the API server, {len(self.evictions)} by desched"
        for each in self.strangers:
            if not each.was_hot:
                yield f"needless: {each}"
            if each.namespace == NAMESPACE and kind_of(each.pod) in PROTECTED:
                yield f"forbidden: {each}"

    def _bad_cycles(self) -> Iterator[str]:
        due = (self._looked_at - self._began) // self._times.interval
        if len(self.service.cycles) < due:
            yield f"late: {len(self.service.cycles)} cycles, where {due:.0f} were due"
        for cycle in self.service.cycles:
            if cycle["duration_seconds"] >= self._times.interval:
                yield f"late: cycle {cycle['cycle']} took {cycle['duration_seconds']} s"
            if cycle.get("hold") not in {None, HoldReason.JUST_STARTED}:
                yield f"held: cycle {cycle['cycle']}: {cycle['hold']} {cycle.get('hold_detail')}"
        yield from (f"no cycle: {event}" for event in self.service.events(*NO_CYCLE))
        yield from (f"a bug: {event}" for event in self.service.events(*CRASHES))


NO_CYCLE = ("tick.skipped", "cycle.skipped", "cycle.abandoned")
CRASHES = ("cycle.crashed", "leadership.crashed", "logbook.crashed")


def gpu_pods() -> Object:
    """Pods of others that share GPUs."""
    manifest = deployment(
        GPU_APP,
        GPU_NODES * GPU_PODS_OF_NODE,
        "100m",
        NAMESPACE,
        cpu_request="100m",
        nodeSelector=GPU_POOL,
    )
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    container["resources"]["limits"] = {GPUS: "1"}
    return manifest


def gpu_reports(world: World) -> Callable[[], Samples]:
    """What the operator's exporter says of GPUs, which are used little."""
    return lambda: [each for node in world.gpu_nodes for each in gpu_samples(world.plane, node)]


class Drill:
    """Two worlds with the same load, side by side."""

    def __init__(self, without: World, beside: World, seed: int) -> None:
        self.without, self.beside = self._worlds = without, beside
        self.journal = Journal()
        self.loads: list[float] = []
        self._seed = seed
        self._over = threading.Event()

    def run(self, minutes: float, *, attacked: bool) -> list[Attack]:
        """Build both, attack one if that is wanted, and return the attacks."""
        with ThreadPoolExecutor() as pool:
            cluster, _ = pool.map(self._build, self._worlds, (False, attacked))
        for world in self._worlds:
            world.wait_until_measured()
            world.start()
        wait_for("a cycle of each", lambda: all(world.has_begun() for world in self._worlds))
        for world in self._worlds:
            world.begin()
        attackers = Attackers(self.beside, self._over) if attacked else None
        threads = [world.probing(self._over) for world in self._worlds]
        threads += attackers.start() if attackers else []
        try:
            self._live(cluster, minutes)
        finally:
            self._over.set()
            for thread in threads:
                thread.join()
        return attackers.attacks if attackers else []

    def _build(self, world: World, harmful: bool) -> SoakCluster:  # noqa: FBT001  of a pool
        return world.build(f"cluster {self._seed}", harmful=harmful)

    def _live(self, cluster: SoakCluster, minutes: float) -> None:
        agenda = Agenda(self.journal)
        chance = random.Random(f"load {self._seed}")  # noqa: S311  reproducible
        load = Churn(cluster, agenda, self.journal, chance, HOT_PACE)
        load.most_hot = HOT_NODES
        load.heated = [world.plane for world in self._worlds]
        self.journal.restart()
        until, heat_at = time.monotonic() + 60 * minutes, float(0)
        while (now := time.monotonic()) < until:
            if now >= heat_at:
                heat_at = now + HEAT_SECONDS
                agenda.attempt(load.heat)
                self.loads.append(os.getloadavg()[0])
            agenda.run_due()
            for world in self._worlds:
                world.look()
            time.sleep(TICK_SECONDS)
        with suppress(TimeoutError):  # then the counts differ, which is a problem
            for world in self._worlds:
                wait_for("all evictions", world.has_told_all, 60)


def report(drill: Drill, attacks: Sequence[Attack], minutes: float) -> Iterator[str]:
    """What was done, what came of it, and what only the attacked service evicted."""
    mean, most = statistics.fmean(drill.loads), max(drill.loads)
    yield f"{NODES} nodes, {SHARED} of them shared with tenants; {minutes:.0f} minutes"
    yield f"load average {mean:.1f}, at most {most:.1f}; {os.cpu_count()} CPUs"
    yield "\n| attack | |\n|---|---|"
    if attacks:
        pods = Counter(pod["metadata"]["namespace"] for pod in drill.beside.plane.seen_pods)
        yield from (f"| {pods[name]} pods {does} | |" for name, does in STANDING.items())
    for attack in attacks:
        failed = f", {attack.failed} failed: {attack.last_failure}" if attack.failed else ""
        yield f"| {attack.what} | {attack.count}{failed} |"
    worlds = (drill.without, drill.beside)
    yield "\n| | without | with |\n|---|---|---|"
    for what, figure in FIGURES.items():
        yield f"| {what} | {' | '.join(figure(world) for world in worlds)} |"
    known = Counter((each.app, each.node) for each in drill.without.strangers)
    more = [each for each in drill.beside.strangers if not known[each.app, each.node]]
    yield f"\nevicted from others with the attack alone: {len(more)}"
    for each in more:
        yield f"  {each.at:%H:%M:%S} {each.pod} from {each.node}, {_truth(each)}: {each.reason}"


def _truth(each: Eviction) -> str:
    return "which was overloaded" if each.was_hot else "which was NOT overloaded"


FIGURES: Mapping[str, Callable[[World], str]] = {
    "most memory, MiB": lambda world: str(world.service.most_memory_mib()),
    "cycles": lambda world: str(len(world.service.cycles)),
    "longest cycle, s": lambda world: f"{world.longest('duration_seconds'):.1f}",
    "longest planning, s": lambda world: f"{world.longest('plan_seconds'):.1f}",
    "probes, unanswered": lambda world: f"{world.probes}, {len(world.unanswered)}",
    "requests to evict, by answer": lambda world: str(dict(world.asked)),
    "evictions of others' pods": lambda world: str(len(world.strangers)),
    "of these from shared nodes": lambda world: str(
        sum(each.node in world.shared for each in world.strangers)
    ),
    "evictions of tenants' pods": lambda world: str(dict(world.of_tenants())),
    "results of moves": lambda world: str(dict(world.results)),
    "overloaded node-minutes, nodes of others": lambda world: (
        f"{world.overloaded_minutes(shared=False):.1f}"
    ),
    "overloaded node-minutes, shared nodes": lambda world: (
        f"{world.overloaded_minutes(shared=True):.1f}"
    ),
}


def problems(drill: Drill, attacks: Sequence[Attack]) -> Iterator[str]:
    """What must not be."""
    for attack in attacks:
        if attack.failed > attack.count:
            yield f"idle: {attack.what}: {attack.failed} of them failed"
    if not any(each.node not in drill.beside.shared for each in drill.beside.strangers):
        yield "idle: no node of others was relieved, so nothing was shown"
    yield from drill.beside.problems()
    yield from (f"without attack, {problem}" for problem in drill.without.problems())
    before, now = (
        world.overloaded_minutes(shared=False) for world in (drill.without, drill.beside)
    )
    if now > before * MOST_MORE_OVERLOAD + MOST_MORE_MINUTES:
        yield f"relief: {now:.1f} overloaded node-minutes of others, {before:.1f} without attack"


def main() -> int:
    """Print what happened, and say with the exit code whether desched stood it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--interval", type=int, default=60, metavar="SECONDS")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--harmless", action="store_true", help="attack nothing, for comparison")
    options = parser.parse_args()
    try:
        binaries = find_or_build(BINARIES, lambda line: print(line, file=sys.stderr, flush=True))
    except BinariesUnavailableError as unavailable:
        print(unavailable, file=sys.stderr)
        return 1
    # Without this, the API server takes 7 GiB for its caches of large objects.
    os.environ.setdefault("GOMEMLIMIT", "3GiB")
    times = Times(options.interval, 2 * options.interval, max(1, options.interval // 4))
    directory = Path(tempfile.mkdtemp(prefix="attacks-"))
    print(f"seed {options.seed}; logs in {directory}", flush=True)
    with ExitStack() as stack:
        without, beside = (
            stack.enter_context(world(name, binaries, directory, times))
            for name in ("without", "with")
        )
        drill = Drill(without, beside, options.seed)
        attacks = drill.run(options.minutes, attacked=not options.harmless)
        for line in report(drill, attacks, options.minutes):
            print(line)
        found = list(problems(drill, attacks))
    for problem in found:
        print(problem)
    print("all is well" if not found else f"{len(found)} problems")
    return 1 if found else 0


@contextmanager
def world(
    name: str, binaries: Mapping[str, Path], directory: Path, times: Times
) -> Iterator[World]:
    """A world that has its servers, and nothing else yet."""
    files = directory / name
    files.mkdir()
    with (
        ControlPlane(binaries, usage_refresh_seconds=times.scrape / 2) as plane,
        Stranger() as stranger,
        Stranger("dcgm-exporter") as gpus,
        plane.prometheus(f"{times.scrape}s", [stranger.job, gpus.job]) as prometheus,
    ):
        made = World(name, plane, prometheus, files, times)
        made.stranger, made.gpu_exporter = stranger, gpus
        gpus.exposing = gpu_reports(made)
        yield made


if __name__ == "__main__":
    sys.exit(main())
