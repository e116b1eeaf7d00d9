"""A service of desched that lives through faults of the API server, one after the other.

Each good cycle makes requests of every kind. At the end one eviction is let through.
"""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path

from desched.adapters.kubernetes.objects.nodes import STEERED_UNTIL
from desched.adapters.kubernetes.watch import cluster, loop
from desched.model.cluster import STEERING_TAINT
from tests.controlplane.drill import (
    CYCLE_ENDS,
    Drill,
    began_at,
    ended_at,
    matching,
    timestamp_of,
)
from tests.controlplane.fault_cases import (
    EVICTION,
    EXPIRED,
    LIST,
    LIST_PODS,
    REQUEST_SECONDS,
    ROTATED,
    TAINT,
    WATCH,
    Case,
    Effect,
)
from tests.controlplane.fault_proxy import ActiveFault, Exchange, Fault, Seen
from tests.controlplane.faults import status
from tests.controlplane.files import replace
from tests.controlplane.forks import forget_failures
from tests.controlplane.manifests import Object
from tests.controlplane.sites import SITE, Sites

LONG_AGO = "2020-01-01T00:00:00Z"
LEASE = ("--lease-duration", "7s", "--renew-deadline", "5s", "--retry-period", "1s")
TIMEOUT = ("--api-server-timeout", f"{REQUEST_SECONDS}s")


class FaultDrill(Drill):
    """One whose API server begins with this fault."""

    def __init__(
        self, sites: Sites, site: str, beginning: Fault | None = None, *, watches: bool = True
    ) -> None:
        super().__init__(sites, site)
        self._beginning = None if beginning is None else self.api_server.inject(beginning)
        self._token_file = sites.directory / f"{site}.token"
        self.start(
            *(*LEASE, *TIMEOUT, *(() if watches else ("--watch=false",))),
            policy=sites.policy(site, nodeSelector=f"{SITE}={site}", steering="Always"),
            kubeconfig=kubeconfig_with_token_file(sites, self.api_server.url, self._token_file),
            prepare=_hurry,
        )

    # Each returns once the effect was seen; the next one begins when the service has recovered.

    def live_through(self, case: Case) -> None:
        """It does what the case says, stays ready, and asks for no eviction that it may not.

        A cycle that the fault came into the middle of may have been past what it changes.
        """
        self._recover(_is_back if case.effect is Effect.SKIPS else _is_good)
        with self.api_server.faulty(case.fault, case.method, case.path) as active:
            under_way_until = self._see(case, active)
            assert self.is_ready()
            if active.struck and not case.asks:
                asked = matching(EVICTION, self._since(active.struck[0]))
                assert [e for e in asked if timestamp_of(e.at_seconds) > under_way_until] == []

    def live_through_watching(self, case: Case) -> None:
        """The same for a service whose watches break off; before a list its version expires."""
        self._recover()
        with ExitStack() as faulty:
            active = faulty.enter_context(
                self.api_server.faulty(case.fault, case.method, case.path)
            )
            if LIST in case.path:
                path = case.path.replace(LIST, WATCH)
                faulty.enter_context(self.api_server.faulty(EXPIRED, case.method, path))
            self.api_server.end_watches()
            self._see(case, active)
            assert self.is_ready()
            if case.asks:
                self._recover()
                lists = matching(LIST_PODS, self._since(active.struck[0]))
                assert bool(lists) == (case.effect is Effect.LISTS)
            else:
                known = len(self.api_server.requests)
                self._see(case, active)
                assert matching(EVICTION, self.api_server.requests[known:]) == []

    def live_through_start(self, case: Case) -> None:
        """A process that has not seen anything yet is not ready, and stays alive."""
        assert self._beginning is not None
        self._see(case, self._beginning)
        assert not self.is_ready()
        self.api_server.remove(self._beginning)
        self._recover()
        assert self.is_ready()

    def live_through_rotation(self, case: Case) -> None:
        """The same for a token that is replaced, and no longer valid at once."""
        self._recover()
        refused = refusing(self._token_file.read_text())
        with self.api_server.faulty(refused, case.method, case.path) as active:
            replace(self._token_file, self._sites.new_token())
            self._see(case, active)

    def live_without_lease(self, case: Case) -> None:
        """It asks for no eviction once it has lost the Lease."""
        self._recover()
        with self.api_server.faulty(case.fault, case.method, case.path) as active:
            self._see(case, active)
            assert self.is_ready()
            known = len(active.struck)
            self.service.wait_until("two more attempts", lambda: len(active.struck) > known + 1)
            assert matching(EVICTION, self._since(active.struck[known])) == []

    def let_it_evict(self) -> None:
        """Until the one eviction is made that it has asked for all the time."""
        self._recover()
        self.let_through()
        self._wait_for_line("an eviction", lambda line: line.get("result") == "evicted")

    def _see(self, case: Case, active: ActiveFault) -> float:
        """Until the log shows the case; when the cycle ended that was under way, 0 if it shows it.

        What is not of a cycle may be struck at any time, such as the removal of a soft taint.
        """
        now, under_way_until = time.time(), 0.0

        def is_shown(line: Object) -> bool:
            nonlocal under_way_until
            if _shows(line, case, active):
                return True
            if not under_way_until and line["event"] in CYCLE_ENDS and ended_at(line) > now:
                under_way_until = ended_at(line)
            return False

        leave = self._leave_a_taint if case.of == TAINT else None
        self._wait_for_line(f"{case.event}: {case.says}", is_shown, leave)
        return under_way_until

    def _leave_a_taint(self) -> None:
        """As a dead service would; another one that is well may have taken the last one away."""
        node = {
            "metadata": {"annotations": {STEERED_UNTIL: LONG_AGO}},
            "spec": {"taints": [{"key": STEERING_TAINT.key, "effect": STEERING_TAINT.effect}]},
        }
        self._sites.plane.request("PATCH", f"/api/v1/nodes/{self.site}-cool", node)

    def _recover(self, recovered: Callable[[Object], bool] | None = None) -> None:
        """Wait for a cycle from now on in which nothing is wrong."""
        wanted, now = recovered or _is_good, time.time()
        self._wait_for_line("a good cycle", lambda line: wanted(line) and began_at(line) > now)

    def _wait_for_line(
        self,
        description: str,
        wanted: Callable[[Object], bool],
        meanwhile: Callable[[], object] | None = None,
    ) -> None:
        def found() -> bool:
            if meanwhile:
                meanwhile()
            return any(map(wanted, self.new_lines()))

        self.service.wait_until(description, found)

    def _since(self, first: Seen) -> Sequence[Seen]:
        """The requests from this one on."""
        requests = self.api_server.requests
        return requests[next(n for n, each in enumerate(requests) if each is first) :]


def _hurry() -> None:
    """Pauses do not grow from fault to fault, and no fault holds a cycle after it is over."""
    for module, name, seconds in (
        (loop, "STEADY_SECONDS", 0.0),
        (loop, "LONGEST_PAUSE_SECONDS", 1.0),
        (loop, "LONGEST_PAUSE_OF_LISTS_SECONDS", 1.0),
        (cluster, "REPAIR_SECONDS", float(REQUEST_SECONDS)),
    ):
        setattr(module, name, seconds)
    forget_failures(0.0)


def _shows(line: Object, case: Case, active: ActiveFault) -> bool:
    """Whether this line of the log is the case's; a cycle has to have met the fault."""
    if line["event"] != case.event or case.says not in json.dumps(line, ensure_ascii=False):
        return False
    if case.event != "cycle.completed":
        return True
    began, ended = began_at(line), ended_at(line)
    met = any(began < timestamp_of(seen.at_seconds) < ended for seen in active.struck)
    return met and line["result"] == case.result and list(line["verdicts"]) == [case.verdict]


def _is_back(line: Object) -> bool:
    """Whether it sees everything; it acts only when its first window is over."""
    return _is_good(line) or line.get("hold") == "just_started"


def _is_good(line: Object) -> bool:
    """Whether it asks for the eviction, with nothing else wrong."""
    return (
        line["event"] == "cycle.completed"
        and list(line["verdicts"]) == ["replaced"]
        and "taints_failed" not in line
    )


def kubeconfig_with_token_file(sites: Sites, server: str, token_file: Path) -> Path:
    """As desched's account at that server, by a token that may be replaced."""
    replace(token_file, sites.new_token())
    return sites.kubeconfig_at(server, token_file.stem, tokenFile=str(token_file))


def refusing(token: str) -> Fault:
    """Answers 401 to this token, and passes on what comes with another."""
    unauthorized = status(HTTPStatus.UNAUTHORIZED, "Unauthorized", reason="Unauthorized")

    def act(exchange: Exchange) -> None:
        if exchange.request.headers.get("Authorization") == f"Bearer {token}":
            unauthorized.act(exchange)
        else:
            exchange.reply(exchange.forwarded())

    return Fault(ROTATED, act)
