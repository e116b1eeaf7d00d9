"""Load is true whatever the time of cAdvisor's samples, which are older than their scrape.

Each node is scraped at another moment, and its kubelet looks at another, so that one reading sees
all phases at once.
"""

import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.reader import PrometheusLoadReader
from desched.model.cluster import ClusterState, Node, Pod, SchedulingClass
from desched.model.load import ClusterLoad, Measured, PodChoice
from desched.model.resources import Amounts, Resource
from desched.policy.policy import MetricsSource, Policy, ResourceRule
from desched.ports import ChoosePods, all_pods
from tests.controlplane.prometheus_server import PrometheusServer
from tests.controlplane.written_history import (
    HISTORY_SECONDS,
    NEWEST_SECONDS_AGO,
    Curve,
    History,
    Times,
    rising,
    scraped,
    write_blocks,
)

PHASES = 20
NAMES = [f"n-{phase:02d}" for phase in range(PHASES)]
NODE_RATIO, POD_RATIO = 0.96, 0.72
TWO_POINTS = 0.02

ROOT_LOOKS_SECONDS, CONTAINER_LOOKS_SECONDS = (10, 11), (10, 18)
"""How often a kubelet looks at a cgroup: seldomer for containers, with jitter."""


class Case(NamedTuple):
    """How often is scraped, and a window that is long enough for it."""

    scrape_seconds: int
    window_seconds: int
    exporters: bool


CASES = [
    Case(scrape, window, exporters)
    for exporters, windows in (
        (True, ((15, 60), (15, 300), (30, 120), (30, 300), (60, 300))),
        # Of 1m and 2m, the older samples of cAdvisor alone do not cover enough.
        (False, ((15, 300), (30, 300), (60, 300), (60, 900))),
    )
    for scrape, window in windows
]


def looked(scrapes: Times, every: tuple[int, int], chance: Random) -> Times:
    """The times of the newest looks at the cgroup at these scrapes."""
    ago = scrapes[0] + every[1]
    looks = [ago]
    while ago > NEWEST_SECONDS_AGO:
        ago -= chance.uniform(*every)
        looks.append(ago)
    newest = (min(look for look in looks if look >= scrape) for scrape in scrapes)
    return sorted(set(newest), reverse=True)


def write_nodes(history: History, scrape_seconds: int, *, exporters: bool) -> None:
    """Nodes of one CPU with one pod, each scraped at its own moment."""
    for phase, name in enumerate(NAMES):
        chance = Random(f"{scrape_seconds} {phase}")  # noqa: S311  (the same each time)
        late = phase * scrape_seconds / PHASES
        scrapes = scraped(until=NEWEST_SECONDS_AGO + late, every=scrape_seconds)
        on_node = {"node": name, "instance": f"{name}:10250"}
        web = {
            "namespace": "a",
            "pod": f"web-{name}",
            "container": "c",
            "id": f"/kubepods/{name}/c",
        }
        root_times = looked(scrapes, ROOT_LOOKS_SECONDS, chance)
        web_times = looked(scrapes, CONTAINER_LOOKS_SECONDS, chance)
        history.container_cpu({**on_node, "id": "/"}, NODE_RATIO, root_times)
        history.container_cpu({**on_node, **web}, POD_RATIO, web_times)
        for machine in ("machine_cpu_cores", "machine_memory_bytes"):
            history.gauge(machine, on_node, 1.0, scrapes)
        if exporters:
            for mode, share in (("idle", 1 - NODE_RATIO), ("user", NODE_RATIO)):
                labels = {"instance": name, "cpu": "0", "mode": mode}
                history.series("node_cpu_seconds_total", labels, scrapes, rising(share))


RESET = Case(15, 300, exporters=True)
RESET_SECONDS_AGO = 60


def write_resets(history: History) -> None:
    """The counters of n-00 begin anew, as after a boot, while its exporter's go on."""

    def begun_anew(ratio: float) -> Curve:
        reset = HISTORY_SECONDS - RESET_SECONDS_AGO
        return lambda t: ratio * (t if t < reset else t - reset)

    times, on_node = scraped(every=RESET.scrape_seconds), {"node": "n-00"}
    web = {"namespace": "a", "pod": "web-n-00", "container": "c"}
    name = "container_cpu_usage_seconds_total"
    history.series(name, {**on_node, "id": "/"}, times, begun_anew(NODE_RATIO))
    history.series(name, {**on_node, **web}, times, begun_anew(POD_RATIO))
    for mode, share in (("idle", 1 - NODE_RATIO), ("user", NODE_RATIO)):
        labels = {"instance": "n-00", "cpu": "0", "mode": mode}
        history.series("node_cpu_seconds_total", labels, times, rising(share))


@pytest.fixture(scope="module")
def url(binaries: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    histories = []
    now = time.time()
    for scrape_seconds, exporters in {(case.scrape_seconds, case.exporters) for case in CASES}:
        history = History(now, {"stack": f"{scrape_seconds}s {exporters}"})
        write_nodes(history, scrape_seconds, exporters=exporters)
        histories.append(history)
    histories.append(History(now, {"stack": "reset"}))
    write_resets(histories[-1])
    server = PrometheusServer(binaries["prometheus"], None, tmp_path_factory.mktemp("sample-times"))
    write_blocks(histories, server.data)
    with server:
        yield server.url


def read(
    url: str, case: Case, choose: ChoosePods = all_pods, stack: str | None = None
) -> ClusterLoad:
    long_ago = datetime.now(UTC) - timedelta(days=1)
    core = Amounts(cpu_millicores=1000, memory_bytes=1)
    scheduling = SchedulingClass(core)
    cluster = ClusterState(
        nodes=tuple(Node(name, name, long_ago, {}, core, core) for name in NAMES),
        pods=tuple(
            Pod("a", f"web-{name}", f"uid-{name}", scheduling, long_ago, node=name)
            for name in NAMES
        ),
    )
    rule = ResourceRule(Resource.CPU, 0.3, 0.8, 0.05, 0.1, (case.window_seconds,))
    matchers = {"stack": stack or f"{case.scrape_seconds}s {case.exporters}"}
    policy = Policy("test", "", (rule,), MetricsSource(url, matchers, {}, {}))
    reader = PrometheusLoadReader(PrometheusConnection(url=url), lambda _: False)
    try:
        return reader.read_load(cluster, policy, choose)
    finally:
        reader.close()


def measured(load: ClusterLoad, name: str) -> Measured:
    found = load.nodes[name][Resource.CPU]
    assert isinstance(found, Measured), found
    return found


@pytest.mark.parametrize("case", CASES)
def test_nodes_pods_and_the_kubelets_check_are_within_two_points_at_every_phase(
    url: str, case: Case
) -> None:
    load = read(url, case)

    assert load.problems == ()
    for name in NAMES:
        found = measured(load, name)
        assert found.levels[0].ratio == pytest.approx(NODE_RATIO, abs=TWO_POINTS)
        if case.exporters:
            assert found.kubelet_ratio == pytest.approx(NODE_RATIO, abs=TWO_POINTS)
        (millicores,) = load.pods["a", f"web-{name}"].cpu_millicores
        assert millicores / 1000 == pytest.approx(POD_RATIO, abs=TWO_POINTS)


@pytest.mark.parametrize("case", CASES)
def test_sums_and_the_past_are_within_two_points_at_every_phase(url: str, case: Case) -> None:
    every = frozenset(NAMES)
    load = read(url, case, lambda _: PodChoice(sums=every, pasts=every))
    known_seconds = HISTORY_SECONDS - case.window_seconds

    for name in NAMES:
        (millicores,) = load.pod_sums[name][Resource.CPU]
        assert millicores / 1000 == pytest.approx(POD_RATIO, abs=TWO_POINTS)
        history = load.history[name][Resource.CPU]
        used = load.pod_pasts["a", f"web-{name}"].cpu_millicores
        assert len(used) == len(history.ratios)
        points = [
            (ratio, used_then)
            for age, ratio, used_then in zip(
                history.ages_seconds, history.ratios, used, strict=True
            )
            if age < known_seconds
        ]
        assert len(points) >= 2
        for ratio, used_then in points:
            assert ratio == pytest.approx(NODE_RATIO, abs=TWO_POINTS)
            assert used_then is not None
            assert used_then / 1000 == pytest.approx(POD_RATIO, abs=TWO_POINTS)


def test_counters_that_begin_anew_are_no_usage_of_their_window(url: str) -> None:
    load = read(url, RESET, stack="reset")

    found = measured(load, "n-00")
    assert found.levels[0].ratio == pytest.approx(NODE_RATIO, abs=TWO_POINTS)
    assert found.kubelet_ratio == 0.0
    assert load.pods == {}
