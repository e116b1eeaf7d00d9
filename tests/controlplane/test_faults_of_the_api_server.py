"""Whatever the API server does wrong, nothing is evicted by mistake, and desched recovers itself.

A few services live through all of it side by side, each a process of its own; meanwhile single runs
meet the same faults. The rows in faults.md are what is seen here.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from desched.cli import ExitCode, main
from tests.controlplane.drill import Crew
from tests.controlplane.fault_cases import (
    ACTING,
    BLOCKED,
    DONE,
    EVICTED,
    EVICTION,
    LEADING,
    LONG_WINDOW_SECONDS,
    LOSING,
    NOT_DONE,
    OBSERVING,
    ROTATED,
    ROTATION,
    STARTING,
    TOO_LATE,
    WATCHING,
    Afterwards,
    Case,
    Deed,
    Effect,
)
from tests.controlplane.fault_drill import TIMEOUT, FaultDrill, kubeconfig_with_token_file
from tests.controlplane.fault_proxy import Exchange, Fault, FaultProxy
from tests.controlplane.fault_table import FaultTable
from tests.controlplane.faults import status
from tests.controlplane.files import replace
from tests.controlplane.installation import ALONE, lacks_samples
from tests.controlplane.manifests import Object
from tests.controlplane.sites import SITE, Sites, movable
from tests.controlplane.waiting import wait_for

WATCHING_SERVICES = ("first", "second", "third")
LISTING_SERVICES = ("fourth", "fifth")
SERVICES = WATCHING_SERVICES + LISTING_SERVICES
NOT_TRIED = "\N{EN DASH}"
STAYS = "stays"
"""The site whose pod no fault evicts."""


@pytest.fixture(scope="module")
def sites(empty_sites: Sites) -> Sites:
    empty_sites.install_permissions("overlays/evict")
    empty_sites.build(*map(movable, (*SERVICES, *DONE, STAYS, *NOT_DONE)))
    return empty_sites


LiveThrough = Callable[[FaultDrill, Case], None]


class Drills:
    """Services that watch, one of which begins with a fault, and services that list."""

    def __init__(self, sites: Sites, cleanup: ExitStack) -> None:
        starting, *watching = WATCHING_SERVICES
        self._watching = Crew(
            [
                FaultDrill(sites, starting, STARTING.fault),
                *(FaultDrill(sites, site) for site in watching),
            ],
            cleanup,
        )
        self._listing = Crew(
            [FaultDrill(sites, site, watches=False) for site in LISTING_SERVICES], cleanup
        )
        first, *others = OBSERVING
        self._seen: dict[Case, Future[None]] = {}
        for crew, live_through, case in (
            (self._watching, FaultDrill.live_through_start, STARTING),
            (self._listing, FaultDrill.live_through, first),
        ):
            beginner, *rest = crew.drills
            self._seen[case] = crew.begin_with(beginner, live_through, case)
            crew.rest(*rest)
        self._begin(self._watching, FaultDrill.live_through_watching, *WATCHING)
        self._begin(self._watching, FaultDrill.live_through_rotation, ROTATION)
        self._begin(self._watching, FaultDrill.live_through, *ACTING, *LEADING)
        self._begin(self._watching, FaultDrill.live_without_lease, *LOSING)
        self._begin(self._listing, FaultDrill.live_through, *others)

    def wait_for(self, case: Case) -> None:
        """Until a service has lived through it; fails if it has not."""
        self._seen[case].result()

    def let_evict(self) -> None:
        """Until each service has made its eviction, after all that it lives through."""
        for future in self._seen.values():
            future.exception()
        for crew in (self._watching, self._listing):
            crew.all_together(FaultDrill.let_it_evict)

    def _begin(self, crew: Crew[FaultDrill], live_through: LiveThrough, *cases: Case) -> None:
        for case in cases:
            self._seen[case] = crew.begin(live_through, case)


@pytest.fixture(scope="module")
def drills(sites: Sites) -> Iterator[Drills]:
    with ExitStack() as cleanup:
        yield Drills(sites, cleanup)


class SingleRuns:
    """Runs with --once, through a proxy of their own."""

    def __init__(self, sites: Sites, proxy: FaultProxy) -> None:
        self._sites = sites
        self.proxy = proxy
        self._token_file = sites.directory / "single.token"
        self._kubeconfig = kubeconfig_with_token_file(sites, proxy.url, self._token_file)

    def evicting(self, site: str, **rules: Any) -> Object:
        """The report of a run that evicts, and that was in time to observe everything.

        What became of earlier evictions is in the report that is returned.
        """
        settled: list[Object] = []

        def observed() -> Object | None:
            code, out, error = self.run(site, "--evict", ALONE, **rules)
            report: Object = json.loads(out or "{}")
            settled.extend(report.get("settled", ()))
            late = code == ExitCode.OBSERVATION or lacks_samples(report)
            if late and not report.get("outcomes"):
                return None
            assert code == exit_code(report), error
            return {**report, "settled": settled}

        found = wait_for("a run that observes the cluster", observed)
        assert found is not None
        return found

    def run(self, site: str, *flags: str, **rules: Any) -> tuple[int, str, str]:
        """The exit code, standard output and standard error of a run on this site."""
        command = self._sites.arguments(
            *("--once", "--output", "json", "--state-namespace", site, *TIMEOUT, *flags),
            policy=self._sites.policy("single", nodeSelector=f"{SITE}={site}", **rules),
            kubeconfig=self._kubeconfig,
        )
        with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as error:
            code = main(command[command.index("desched") + 1 :])
        return code, out.getvalue(), error.getvalue()

    def renewed_at_each_request(self) -> Fault:
        """Each request is refused once; its token is replaced at that moment."""
        used = {self._token_file.read_text()}

        def act(exchange: Exchange) -> None:
            token = exchange.request.headers["Authorization"].removeprefix("Bearer ")
            if token not in used:
                used.add(token)
                exchange.reply(exchange.forwarded())
                return
            replace(self._token_file, self._sites.new_token())
            status(401).act(exchange)

        return Fault(ROTATED, act)


@pytest.fixture(scope="module")
def single(sites: Sites) -> Iterator[SingleRuns]:
    with FaultProxy.before(sites.plane) as proxy:
        yield SingleRuns(sites, proxy)


@pytest.fixture(scope="module")
def table() -> FaultTable:
    columns = ("fault", "of", "what desched does", "a single run exits with", "afterwards")
    return FaultTable(
        "faults of the API server", columns, "tests/controlplane/" + Path(__file__).name
    )


def name_of(case: Case) -> str:
    return f"{case.of}-{case.fault.name}"


def test_a_service_that_cannot_see_anything_yet_is_not_ready(
    drills: Drills, table: FaultTable
) -> None:
    drills.wait_for(STARTING)
    table.add(STARTING.fault.name, STARTING.of, STARTING.does, NOT_TRIED, "becomes ready")


@pytest.mark.parametrize("case", OBSERVING, ids=name_of)
def test_a_cycle_that_cannot_see_everything_evicts_nothing(
    case: Case, drills: Drills, single: SingleRuns, table: FaultTable
) -> None:

    def exit_code_of_such_a_run() -> str:
        """On a machine that is too busy another request may meet its deadline, too."""
        with single.proxy.faulty(case.fault, case.method, case.path):
            code, _, error = single.run(SERVICES[0], "--dry-run")
        also_late = TOO_LATE in error.replace(case.says, "")
        as_said = code == 0 if case.asks else case.says in error and not also_late
        return str(code) if as_said else ""

    code = wait_for(f"a run as of {case}", exit_code_of_such_a_run)
    drills.wait_for(case)
    table.add(case.fault.name, case.of, case.does, code, "the next cycle acts")


def test_a_token_that_is_replaced_is_read_again(drills: Drills, table: FaultTable) -> None:
    drills.wait_for(ROTATION)
    table.add(ROTATION.fault.name, ROTATION.of, ROTATION.does, NOT_TRIED, "the next cycle acts")


@pytest.mark.parametrize("case", WATCHING, ids=name_of)
def test_a_service_that_watches_knows_what_it_may_have_missed(
    case: Case, drills: Drills, table: FaultTable
) -> None:
    drills.wait_for(case)
    table.add(case.fault.name, case.of, case.does, NOT_TRIED, "the next cycle acts")


@pytest.mark.parametrize("case", ACTING, ids=name_of)
def test_an_eviction_that_cannot_be_prepared_is_not_asked_for(
    case: Case, drills: Drills, table: FaultTable
) -> None:
    drills.wait_for(case)
    table.add(case.fault.name, case.of, case.does, NOT_TRIED, "the next cycle acts")


@pytest.mark.parametrize("case", [*LEADING, *LOSING], ids=name_of)
def test_a_service_that_cannot_keep_its_lease_acts_no_more(
    case: Case, drills: Drills, table: FaultTable
) -> None:
    drills.wait_for(case)
    table.add(
        case.fault.name, case.of, case.does, NOT_TRIED, "leads again, and the next cycle acts"
    )


def exit_code(report: Object) -> int:
    """How a single run ends after this report."""
    return 3 if report["result"] == "stopped" else 0


def pod_that_met(deed: Deed, site: str, sites: Sites, single: SingleRuns, table: FaultTable) -> str:
    """The pod whose eviction met the fault; the run ends as the deed says."""
    if "windows" in deed.rules:
        measured = f'node_memory_MemTotal_bytes{{node="{site}-hot"}}'
        sites.prometheus.wait_until_has(f"{measured} offset {LONG_WINDOW_SECONDS + 1}s")

    least = deed.asked if deed.afterwards is Afterwards.ASKED else 1  # it tries only once

    def met() -> tuple[Object, int] | None:
        """On a machine that is too busy a deadline may be over before it has asked as often."""
        with single.proxy.faulty(deed.fault, "POST", EVICTION) as active:
            report = single.evicting(site, **deed.rules)
        asked = len(active.struck)
        return (report, asked) if asked >= least else None

    found = wait_for(f"an eviction that meets {deed.fault.name}", met)
    assert found is not None
    report, asked = found
    (outcome,) = report["outcomes"]
    assert (report["result"], outcome["verdict"]) == (deed.result, deed.verdict)
    assert least <= asked <= deed.asked
    stopped = report["result"] == "stopped"
    did = "evicts nothing more in this cycle" if stopped else Effect.DOES_NOT_EVICT
    code = str(exit_code(report))
    table.add(deed.fault.name, EVICTED, f"{did} (`{outcome['verdict']}`)", code, deed.afterwards)
    name: str = outcome["pod"]["name"]
    return name


def accepted_evictions(sites: Sites, namespace: str) -> list[str]:
    """The pods that desched's account has evicted there."""
    account = sites.account
    events = sites.plane.audit_events(account["namespace"], account["name"])
    done = (event["objectRef"] for event in events if event["responseStatus"]["code"] == 201)
    return [
        about["name"]
        for about in done
        if (about.get("namespace"), about.get("subresource")) == (namespace, "eviction")
    ]


def check_that_accepted_are(sites: Sites, namespace: str, pods: list[str]) -> None:
    """The audit log has a request only a moment after it was answered."""
    sites.plane.wait_for(
        "the evictions in the audit log",
        lambda: len(accepted_evictions(sites, namespace)) >= len(pods),
    )
    assert accepted_evictions(sites, namespace) == pods


def names(objects: Iterable[Object]) -> set[str]:
    return {each["metadata"]["name"] for each in objects}


@pytest.mark.parametrize("site", DONE)
def test_an_eviction_that_took_effect_without_an_answer_is_followed_up_and_not_repeated(
    sites: Sites, single: SingleRuns, table: FaultTable, site: str
) -> None:
    pod = pod_that_met(DONE[site], site, sites, single, table)
    sites.plane.wait_for("the pod is gone", lambda: pod not in names(sites.plane.pods(site)))
    following = single.evicting(site)
    assert following["outcomes"] == []
    known = [*following["settled"], *following["state"]["evictions"]]
    assert pod in {record["pod"]["name"] for record in known}
    check_that_accepted_are(sites, site, [pod])


def test_after_an_eviction_that_a_budget_blocked_the_next_cycle_evicts_one_of_its_node(
    sites: Sites, single: SingleRuns, table: FaultTable
) -> None:
    before = names(sites.plane.pods(STAYS))
    pod_that_met(BLOCKED, STAYS, sites, single, table)
    assert names(sites.plane.pods(STAYS)) == before

    fault = single.renewed_at_each_request()
    with single.proxy.faulty(fault, "POST|PATCH", ".*/(configmaps|pods)") as active:
        report = single.evicting(STAYS)
    # Its pods use nearly the same, so which of them helps most may have changed.
    (evicted,) = [outcome["pod"]["name"] for outcome in report["outcomes"]]
    assert evicted in before
    check_that_accepted_are(sites, STAYS, [evicted])
    refused = [seen.path for seen in active.struck if seen.status == 401]
    assert len(refused) * 2 == len(active.struck)
    assert {path.rsplit("/")[-1] for path in refused} >= {"desched-state", "eviction"}
    of = f"{EVICTED}, and each writing of the state"
    table.add(fault.name, of, f"{Effect.ASKS_AGAIN} (`evicted`)", "0", NOT_TRIED)


@pytest.mark.parametrize("site", NOT_DONE)
def test_an_eviction_that_took_no_effect_lets_the_workload_rest(
    sites: Sites, single: SingleRuns, table: FaultTable, site: str
) -> None:
    deed = NOT_DONE[site]
    pod = pod_that_met(deed, site, sites, single, table)
    following = single.evicting(site)
    ended = {record["pod"]["name"]: record["result"] for record in following["settled"]}
    assert ended == ({pod: "stayed"} if deed.verdict == "unknown" else {})
    assert {refusal["reason"] for refusal in following["plan"]["refusals"]} == {"cooling_down"}
    assert accepted_evictions(sites, site) == []


def test_all_services_evict_once_when_nothing_is_wrong_any_more(
    sites: Sites, drills: Drills
) -> None:
    drills.let_evict()
    sites.plane.wait_for(
        "an eviction of each in the audit log",
        lambda: all(accepted_evictions(sites, site) for site in SERVICES),
    )
    assert [len(accepted_evictions(sites, site)) for site in SERVICES] == [1] * len(SERVICES)


def test_the_table_of_the_document_is_that_of_this_run(table: FaultTable) -> None:
    table.check()
