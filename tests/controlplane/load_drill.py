"""A service of desched that lives through faults of Prometheus, one after the other.

At the end one eviction is let through.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from tests.controlplane.drill import (
    CYCLE_ENDS,
    Drill,
    began_at,
    ended_at,
    matching,
    timestamp_of,
)
from tests.controlplane.fault_cases import EVICTION
from tests.controlplane.fault_proxy import REFUSED, ActiveFault, Fault, FaultProxy
from tests.controlplane.installation import ALONE
from tests.controlplane.manifests import Object
from tests.controlplane.sites import SITE, Sites

QUERY_SECONDS = 3
"""For one query with its retries."""

TIMEOUT = ("--prometheus-timeout", f"{QUERY_SECONDS}s")
SKIPPED = "skipped"
PROMETHEUS, API_SERVER = "Prometheus", "the API server"


@dataclass(frozen=True)
class Case:
    """A fault of some answers, and what desched does about it.

    `path` is the beginning of the path with its query, as the proxy of `server` takes it, and `of`
    says it in words. `result` is that of the cycle, `skipped` if there is none; `says` are words of
    the line in its log. `acts` is true where it evicts all the same.
    """

    fault: Fault
    of: str
    path: str
    result: str
    says: tuple[str, ...] = ()
    exit_code: int = 3
    server: str = PROMETHEUS
    acts: bool = False
    times: int | None = None

    def shown_by(self, line: Object) -> bool:
        """Whether this line of the log is it."""
        result = SKIPPED if line["event"] == "cycle.skipped" else line.get("result")
        text = json.dumps(line, ensure_ascii=False)
        return result == self.result and all(said in text for said in self.says)


class LoadDrill(Drill):
    """One with a proxy before Prometheus, too; it starts while that refuses, until `begin`."""

    def __init__(self, sites: Sites, site: str) -> None:
        self.prometheus = FaultProxy(sites.prometheus.url)
        super().__init__(sites, site, self.prometheus)
        self.proxies = {PROMETHEUS: self.prometheus, API_SERVER: self.api_server}
        self._absence = self.prometheus.inject(REFUSED)
        self.start(
            *(ALONE, *TIMEOUT, "--prometheus-url", self.prometheus.url, "--watch=false"),
            policy=policy_for(sites, site),
            kubeconfig=sites.kubeconfig_at(self.api_server.url, site),
        )

    def begin(self) -> None:
        """Wait until it has not found Prometheus and is not ready, and then for a good cycle."""
        self.service.wait_until("a cycle", lambda: self.service.events("cycle.skipped"))
        assert not self.is_ready()
        self.prometheus.remove(self._absence)
        self.wait_for_good_cycle()
        assert self.is_ready()

    def live_through(self, case: Case) -> Object:
        """The line of its log that shows what it does, beginning after a good cycle.

        It stays ready, and asks for no eviction that it may not ask for. A cycle that the fault
        came into the middle of may have been past what it changes.
        """
        self.wait_for_good_cycle()
        under_way_until = 0.0
        with self.proxies[case.server].faulty(case.fault, "GET", case.path, case.times) as active:

            def shown() -> Object | None:
                nonlocal under_way_until
                for line in self.new_lines():
                    if case.shown_by(line) and _struck_at(active, began) < ended_at(line):
                        return line
                    # When it began is not quite known: a cycle writes more than its duration says.
                    ended = ended_at(line) if line["event"] in CYCLE_ENDS else 0.0
                    if not under_way_until and ended > timestamp_of(began):
                        under_way_until = ended
                return None

            began = time.monotonic()
            line = self.service.wait_until(f"{case.fault.name}: {case}", shown)
            assert line is not None
            assert self.is_ready()
            assert line.get("planned", 0) == int(case.acts)
            if not case.acts:
                since = max(_struck_at(active, time.monotonic()), under_way_until)
                assert not self._evictions_since(since)
        return line

    def wait_for_good_cycle(self) -> None:
        """Until a whole further cycle has asked for the eviction, and skip the log up to it."""
        began = time.time()

        def good() -> bool:
            return any(
                line.get("verdicts") == {"replaced": 1} and began_at(line) > began
                for line in self.new_lines()
            )

        self.service.wait_until("a good cycle", good)

    def let_it_evict(self) -> str:
        """Let its eviction through, and tell where the replacement runs."""
        before = self._sites.where(self.site, "web")
        self.let_through()
        (node,) = self.service.wait_until("a replacement", lambda: self._new_nodes(before))
        self.service.wait_until("its answer", self.evictions)
        return node

    def _new_nodes(self, before: Mapping[str, str]) -> list[str]:
        pods = self._sites.plane.pods(self.site, "app=web")
        new = [pod for pod in pods if pod["metadata"]["name"] not in before]
        return [pod["spec"]["nodeName"] for pod in new if pod["spec"].get("nodeName")]

    def evictions(self) -> int:
        """How many of its requests to evict the API server has accepted."""
        asked = matching(EVICTION, self.api_server.requests)
        return sum(seen.status == HTTPStatus.CREATED for seen in asked)

    def _evictions_since(self, timestamp: float) -> list[str]:
        asked = matching(EVICTION, self.api_server.requests)
        return [seen.path for seen in asked if timestamp_of(seen.at_seconds) > timestamp]


def proxies_of(sites: Sites) -> dict[str, FaultProxy]:
    """A proxy before each server, by the server's name."""
    return {
        PROMETHEUS: FaultProxy(sites.prometheus.url),
        API_SERVER: FaultProxy.before(sites.plane),
    }


def policy_for(sites: Sites, site: str) -> Path:
    """For a site where one of three cool nodes may be unknown, and the pod land there."""
    return sites.policy(site, nodeSelector=f"{SITE}={site}", maxLandingRisk=0.5)


def _struck_at(active: ActiveFault, otherwise: float) -> float:
    """The timestamp of the first request that was struck; of those refused none is known."""
    first = [seen.at_seconds for seen in active.struck[:1]]
    return timestamp_of(first[0] if first else otherwise)
