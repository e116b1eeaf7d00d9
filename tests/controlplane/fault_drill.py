"""A service of desched that lives through faults of the API server, one after the other.

Its evictions are answered with a conflict, so that it goes on asking for the same one: each good
cycle makes requests of every kind, and changes nothing. At the end one eviction is let through.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import urllib3
import yaml

from desched.adapters.kubernetes.objects.nodes import STEERED_UNTIL
from desched.adapters.kubernetes.watch import cluster, loop
from desched.model.cluster import STEERING_TAINT
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
from tests.controlplane.fault_proxy import ActiveFault, Exchange, Fault, FaultProxy, Seen
from tests.controlplane.faults import status
from tests.controlplane.files import replace
from tests.controlplane.manifests import Object
from tests.controlplane.replicas import Replica
from tests.controlplane.sites import SITE, Sites
from tests.controlplane.waiting import PATIENCE_SECONDS

LONG_AGO = "2020-01-01T00:00:00Z"
LEASE = ("--lease-duration", "7s", "--renew-deadline", "5s", "--retry-period", "1s")
TIMEOUT = ("--api-server-timeout", f"{REQUEST_SECONDS}s")
REPLACED = status(HTTPStatus.CONFLICT, "the pod is another one", reason="Conflict")


class Drill:
    """A service on a site of its own, behind a proxy of its own, which begins with this fault."""

    def __init__(
        self, sites: Sites, site: str, beginning: Fault | None = None, *, watches: bool = True
    ) -> None:
        self.site = site
        self._sites = sites
        self._proxy = FaultProxy(sites.plane.url, sites.plane.ca_file, sites.plane.key_file)
        self._conflict = self._proxy.inject(REPLACED, "POST", EVICTION)
        self._beginning = None if beginning is None else self._proxy.inject(beginning)
        self._token_file = sites.directory / f"{site}.token"
        command = sites.arguments(
            *("--evict", "--interval", "1s", "--log-format", "json", *LEASE, *TIMEOUT),
            *("--listen-address", "127.0.0.1:0", "--state-namespace", site),
            *(() if watches else ("--watch=false",)),
            policy=sites.policy(site, nodeSelector=f"{SITE}={site}", steering="Always"),
            kubeconfig=kubeconfig_with_token_file(sites, self._proxy.url, self._token_file),
        )
        self._service = Replica(site, command, sites.directory, _hurry)
        self._position = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._service.stop()
        self._proxy.__exit__(kind, error, traceback)

    def pause(self) -> None:
        """Do nothing until `go_on`: cycles that nobody looks at cost CPU."""
        self._service.freeze()

    def go_on(self) -> None:
        """After a pause, as a machine does that stalled."""
        self._service.thaw()

    # Each returns once the effect was seen; the next one begins when the service has recovered.

    def live_through(self, case: Case) -> None:
        """It does what the case says, stays ready, and asks for no eviction that it may not."""
        self._recover(_is_back if case.effect is Effect.SKIPS else _is_good)
        with self._proxy.faulty(case.fault, case.method, case.path) as active:
            self._see(case, active)
            assert self._readiness() == HTTPStatus.OK
            if active.struck and not case.asks:
                assert self._matching(EVICTION, self._since(active.struck[0])) == []

    def live_through_watching(self, case: Case) -> None:
        """The same for a service whose watches break off; before a list its version expires."""
        self._recover()
        with ExitStack() as faulty:
            active = faulty.enter_context(self._proxy.faulty(case.fault, case.method, case.path))
            if LIST in case.path:
                path = case.path.replace(LIST, WATCH)
                faulty.enter_context(self._proxy.faulty(EXPIRED, case.method, path))
            self._proxy.end_watches()
            self._see(case, active)
            assert self._readiness() == HTTPStatus.OK
            if case.asks:
                self._recover()
                lists = self._matching(LIST_PODS, self._since(active.struck[0]))
                assert bool(lists) == (case.effect is Effect.LISTS)
            else:
                known = len(self._proxy.requests)
                self._see(case, active)
                assert self._matching(EVICTION, self._proxy.requests[known:]) == []

    def live_through_start(self, case: Case) -> None:
        """A process that has not seen anything yet is not ready, and stays alive."""
        assert self._beginning is not None
        self._see(case, self._beginning)
        assert self._readiness() == HTTPStatus.SERVICE_UNAVAILABLE
        self._proxy.remove(self._beginning)
        self._recover()
        assert self._readiness() == HTTPStatus.OK

    def live_through_rotation(self, case: Case) -> None:
        """The same for a token that is replaced, and no longer valid at once."""
        self._recover()
        refused = refusing(self._token_file.read_text())
        with self._proxy.faulty(refused, case.method, case.path) as active:
            replace(self._token_file, new_token(self._sites))
            self._see(case, active)

    def live_without_lease(self, case: Case) -> None:
        """It asks for no eviction once it has lost the Lease."""
        self._recover()
        with self._proxy.faulty(case.fault, case.method, case.path) as active:
            self._see(case, active)
            assert self._readiness() == HTTPStatus.OK
            known = len(active.struck)
            self._service.wait_until("two more attempts", lambda: len(active.struck) > known + 1)
            assert self._matching(EVICTION, self._since(active.struck[known])) == []

    def let_it_evict(self) -> None:
        """Until the one eviction is made that it has asked for all the time."""
        self._recover()
        self._proxy.remove(self._conflict)
        self._wait_for_line("an eviction", lambda line: line.get("result") == "evicted")

    def _see(self, case: Case, active: ActiveFault) -> None:
        def is_shown(line: Object) -> bool:
            return _shows(line, case, active)

        leave = self._leave_a_taint if case.of == TAINT else None
        self._wait_for_line(f"{case.event}: {case.says}", is_shown, leave)

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
        self._wait_for_line("a good cycle", lambda line: wanted(line) and _began(line) > now)

    def _wait_for_line(
        self,
        description: str,
        wanted: Callable[[Object], bool],
        meanwhile: Callable[[], object] | None = None,
    ) -> None:
        def found() -> bool:
            if meanwhile:
                meanwhile()
            return any(map(wanted, self._log()))

        self._service.wait_until(description, found)

    def _log(self) -> Iterator[Object]:
        """The lines that nobody has looked at yet; none of them tells of a bug."""
        with self._service.log.open("rb") as log:
            log.seek(self._position)
            for text in log:
                if not text.endswith(b"\n"):
                    return
                self._position += len(text)
                if text.startswith(b"{"):
                    line = json.loads(text)
                    assert not line["event"].endswith(".crashed"), line
                    yield line

    def _since(self, first: Seen) -> Sequence[Seen]:
        """The requests from this one on."""
        requests = self._proxy.requests
        return requests[next(n for n, each in enumerate(requests) if each is first) :]

    def _matching(self, path: str, requests: Sequence[Seen]) -> list[Seen]:
        return [each for each in requests if re.match(path, each.path)]

    def _readiness(self) -> int:
        (started,) = self._service.events("service.started")
        url = f"http://127.0.0.1:{started['port']}/readyz"
        with urllib3.PoolManager(retries=False, timeout=PATIENCE_SECONDS) as http:
            return http.request("GET", url).status


def _hurry() -> None:
    """Pauses do not grow from fault to fault."""
    for module, name, seconds in (
        (loop, "STEADY_SECONDS", 0.0),
        (loop, "LONGEST_PAUSE_SECONDS", 1.0),
        (loop, "LONGEST_PAUSE_OF_LISTS_SECONDS", 1.0),
        (cluster, "REPAIR_SECONDS", float(REQUEST_SECONDS)),
    ):
        setattr(module, name, seconds)


def _shows(line: Object, case: Case, active: ActiveFault) -> bool:
    """Whether this line of the log is the case's; a cycle has to have met the fault."""
    if line["event"] != case.event or case.says not in json.dumps(line, ensure_ascii=False):
        return False
    if case.event != "cycle.completed":
        return True
    began, ended = _began(line), _at(line)
    monotonic_zero = time.time() - time.monotonic()
    met = any(began < monotonic_zero + seen.at_seconds < ended for seen in active.struck)
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


def _began(line: Object) -> float:
    return _at(line) - float(line["duration_seconds"])


def _at(line: Object) -> float:
    return datetime.fromisoformat(line["timestamp"]).timestamp()


def new_token(sites: Sites) -> str:
    """A further token of desched's account."""
    return sites.plane.token_for(sites.account["namespace"], sites.account["name"])


def kubeconfig_with_token_file(sites: Sites, server: str, token_file: Path) -> Path:
    """As desched's account at that server, by a token that may be replaced."""
    replace(token_file, new_token(sites))
    document: Any = yaml.safe_load(sites.kubeconfig.read_text())
    document["users"][0]["user"] = {"tokenFile": str(token_file)}
    document["clusters"][0]["cluster"]["server"] = server
    path = token_file.with_suffix(".kubeconfig")
    path.write_text(yaml.safe_dump(document))
    path.chmod(0o600)
    return path


def refusing(token: str) -> Fault:
    """Answers 401 to this token, and passes on what comes with another."""
    unauthorized = status(HTTPStatus.UNAUTHORIZED, "Unauthorized", reason="Unauthorized")

    def act(exchange: Exchange) -> None:
        if exchange.request.headers.get("Authorization") == f"Bearer {token}":
            unauthorized.act(exchange)
        else:
            exchange.reply(exchange.forwarded())

    return Fault(ROTATED, act)
