"""Whatever Prometheus does wrong, nothing is evicted by mistake, and desched recovers by itself.

A few services live through all of it side by side, each a process of its own; meanwhile single runs
meet the same faults. The rows in faults.md are what is seen here.
"""

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest

from desched.cli import main
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.drill import Crew
from tests.controlplane.fault_table import FaultTable
from tests.controlplane.load_drill import (
    API_SERVER,
    PROMETHEUS,
    SKIPPED,
    TIMEOUT,
    Case,
    LoadDrill,
    policy_for,
    proxies_of,
)
from tests.controlplane.load_faults import CASES, STRANGERS
from tests.controlplane.manifests import Object
from tests.controlplane.sites import Site, Sites
from tests.controlplane.waiting import PATIENCE_SECONDS, wait_for

SERVICES = ("first", "second", "third", "fourth", "fifth")
SINGLE = "single"
COOL_NODES = 3
GOOD_CYCLES = 3
LEAST_QUERIES, MOST_QUERIES = 2, 4
"""Of a cycle."""

MOST_MEMORY_MIB = 512
"""Half of what the Deployment in deploy/ may use."""


def hot(name: str) -> Site:
    """A hot node that one of two pods would relieve, and cool ones."""
    site = Site(name)
    site.node("hot", uses="2400m")
    site.node(*(f"cool{number}" for number in range(1, COOL_NODES + 1)))
    site.workload("web", ("hot", "hot"), "500m", cpu_request="1200m")
    return site


@pytest.fixture(scope="module")
def sites(
    running_control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sites]:
    directory: Path = tmp_path_factory.mktemp("faults_of_prometheus")
    with running_control_plane.prometheus("2s") as prometheus:  # a busy exporter is late in one
        built = Sites(running_control_plane, prometheus, directory)
        try:
            built.build(*map(hot, (*SERVICES, SINGLE)))
            yield built
        finally:
            running_control_plane.reset()


class Drills:
    """Services that take the cases in turn.

    `begun` are over when each of them has asked for little over connections that it had already.
    """

    def __init__(self, sites: Sites, cleanup: ExitStack) -> None:
        self._crew = Crew((LoadDrill(sites, site) for site in SERVICES), cleanup)
        self.all = self._crew.drills
        self.begun = [self._crew.begin_with(drill, _begin) for drill in self.all]
        self.found: dict[Case, Future[Object]] = {
            case: self._crew.begin(LoadDrill.live_through, case) for case in CASES
        }

    def wait(self) -> None:
        """Until they have lived through all."""
        for future in self.found.values():
            future.exception()


def _begin(drill: LoadDrill) -> None:
    """Let it find Prometheus, and then see some good cycles.

    A query that a busy machine does not answer in time costs a connection; then more are seen.
    """
    drill.begin()
    wait_for(f"good cycles of {drill.site}", lambda: _asks_little(drill))


def _asks_little(drill: LoadDrill) -> bool:
    """Whether some good cycles put a few queries each, over the connections that were there."""
    proxy = drill.prometheus
    queries, connections, cycles = len(proxy.requests), proxy.connections, len(drill.service.cycles)
    for _ in range(GOOD_CYCLES):
        drill.wait_for_good_cycle()
    queries, cycles = len(proxy.requests) - queries, len(drill.service.cycles) - cycles
    few = LEAST_QUERIES * (cycles - 1) <= queries <= MOST_QUERIES * (cycles + 1)
    return few and proxy.connections == connections


@pytest.fixture(scope="module")
def drills(sites: Sites) -> Iterator[Drills]:
    with ExitStack() as cleanup:
        yield Drills(sites, cleanup)


class Ran(NamedTuple):
    """The exit code, standard output and standard error of a run."""

    code: int
    out: str
    error: str


class Single:
    """Single runs, with proxies of their own."""

    def __init__(self, sites: Sites) -> None:
        self.proxies = proxies_of(sites)
        self._command = sites.arguments(
            *("--once", "--dry-run", "--output", "json", "--state-namespace", SINGLE),
            *("--prometheus-url", self.proxies[PROMETHEUS].url),
            policy=policy_for(sites, SINGLE),
            kubeconfig=sites.kubeconfig_at(self.proxies[API_SERVER].url, SINGLE),
        )

    def meets(self, case: Case) -> bool:
        """Whether a run ends as it should; it never plans what would not be right.

        That it does not may be the machine's fault, which was too busy to measure for a while.
        """
        with self.proxies[case.server].faulty(case.fault, "GET", case.path, case.times):
            # What takes long in this process would keep its exporters from being scraped.
            run = self._run_as_process() if case is STRANGERS else self._run()
        if case.result == SKIPPED:
            return run.code == case.exit_code and all(said in run.error for said in case.says)
        if not run.out:
            return False
        report = json.loads(run.out)
        assert len(report["plan"]["evictions"]) <= int(case.acts)
        result = "planned" if case.acts else case.result
        ended = (run.code, report["result"]) == (case.exit_code, result)
        return ended and all(said in run.out for said in case.says)

    def _run(self) -> Ran:
        arguments = [*self._command[self._command.index("desched") + 1 :], *TIMEOUT]
        with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as error:
            code = main(arguments)
        return Ran(code, out.getvalue(), error.getvalue())

    def _run_as_process(self) -> Ran:
        done = subprocess.run(
            self._command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )
        return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def single(sites: Sites) -> Iterator[Single]:
    runs = Single(sites)
    with ExitStack() as cleanup:
        for proxy in runs.proxies.values():
            cleanup.enter_context(proxy)
        yield runs


@pytest.fixture(scope="module")
def table() -> FaultTable:
    columns = ("fault", "of", "what desched does", "exit code of a single run", "afterwards")
    module = "tests/controlplane/test_faults_of_prometheus.py"
    return FaultTable("faults of Prometheus", columns, module)


def name_of(case: Case) -> str:
    return f"{case.fault.name}-{case.of}"


def test_a_service_that_starts_without_prometheus_is_ready_once_it_is_there(
    drills: Drills, table: FaultTable
) -> None:
    for future in drills.begun:
        future.result()  # which began with that
    told = "`cycle.skipped`, and is not ready"
    table.add("connection refused at the start", "every query", told, "3", "it gets ready and acts")


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_nothing_is_evicted_that_the_answers_do_not_justify(
    case: Case, drills: Drills, single: Single, table: FaultTable
) -> None:
    wait_for(f"a run as of {case}", lambda: single.meets(case))
    line = drills.found[case].result()
    assert case.shown_by(line)
    code = str(case.exit_code)
    table.add(case.fault.name, case.of, effect(case), code, "the next cycle acts")


def effect(case: Case) -> str:
    """What was seen, as a cell of the table."""
    if case.result == SKIPPED:
        return f"`cycle.skipped`: “{case.says[0]}”"
    result = "acts all the same" if case.acts else f"`{case.result}`"
    codes = [f"`{said}`" if said.replace("_", "").isalpha() else f"“{said}”" for said in case.says]
    return ", ".join([result, *codes])


def test_connections_to_prometheus_are_reused_and_few(drills: Drills) -> None:
    for future in drills.begun:
        future.result()
    drills.wait()
    assert max(drill.prometheus.most_open for drill in drills.all) <= 2


def test_memory_stays_small_whatever_the_answers(drills: Drills) -> None:
    drills.wait()
    assert max(drill.service.most_memory_mib() for drill in drills.all) < MOST_MEMORY_MIB


def test_each_service_evicts_once_nothing_is_wrong_any_more(drills: Drills) -> None:
    drills.wait()
    for drill in drills.all:
        drill.service.thaw()
        drill.wait_for_good_cycle()
        assert drill.evictions() == 0
        assert drill.let_it_evict().startswith(f"{drill.site}-cool")
        assert drill.evictions() == 1


def test_the_document_says_what_was_seen(table: FaultTable) -> None:
    table.check()
