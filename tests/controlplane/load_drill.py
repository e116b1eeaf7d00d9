"""A service of desched that lives through faults of Prometheus, one after the other.

Its evictions are answered with a conflict, so that each good cycle asks for the same one again and
nothing changes. At the end one eviction is let through.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import urllib3
import yaml

from tests.controlplane.fault_cases import EVICTION
from tests.controlplane.fault_drill import REPLACED
from tests.controlplane.fault_proxy import REFUSED, ActiveFault, Fault, FaultProxy
from tests.controlplane.installation import ALONE
from tests.controlplane.manifests import Object
from tests.controlplane.replicas import Replica
from tests.controlplane.sites import SITE, Sites
from tests.controlplane.waiting import PATIENCE_SECONDS

QUERY_SECONDS = 3
"""For one query with its retries."""

TIMEOUT = ("--prometheus-timeout", f"{QUERY_SECONDS}s")
SKIPPED = "skipped"
CYCLE_ENDS = frozenset({"cycle.completed", "cycle.skipped"})
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


class LoadDrill:
    """A service on a site of its own, with a proxy of its own before each server.

    It starts while Prometheus refuses connections, until `begin`.
    """

    def __init__(self, sites: Sites, site: str) -> None:
        self.site = site
        self._sites = sites
        self.proxies = proxies_of(sites)
        self._refusal = self.proxies[API_SERVER].inject(REPLACED, "POST", EVICTION)
        command = sites.arguments(
            *("--evict", "--interval", "1s", "--log-format", "json", ALONE, *TIMEOUT),
            *("--listen-address", "127.0.0.1:0", "--state-namespace", site),
            *("--prometheus-url", self.prometheus.url, "--watch=false"),
            policy=policy_for(sites, site),
            kubeconfig=kubeconfig_through(self.proxies[API_SERVER], sites, site),
        )
        self._absence = self.prometheus.inject(REFUSED)
        self.service = Replica(site, command, sites.directory)
        self._position = 0

    def begin(self) -> None:
        """Wait until it has not found Prometheus and is not ready, and then for a good cycle."""
        self.service.wait_until("a cycle", lambda: self.service.events("cycle.skipped"))
        assert not self.is_ready()
        self.prometheus.remove(self._absence)
        self.wait_for_good_cycle()
        assert self.is_ready()

    @property
    def prometheus(self) -> FaultProxy:
        """What stands before Prometheus."""
        return self.proxies[PROMETHEUS]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.service.stop()
        for proxy in self.proxies.values():
            proxy.__exit__(kind, error, traceback)

    def pause(self) -> None:
        """Do nothing until `go_on`: cycles that nobody looks at cost CPU."""
        self.service.freeze()

    def go_on(self) -> None:
        """After a pause, as a machine does that stalled."""
        self.service.thaw()

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
                for line in self._log():
                    if case.shown_by(line) and _struck_at(active, began) < _at(line):
                        return line
                    # When it began is not quite known: a cycle writes more than its duration says.
                    ended = _at(line) if line["event"] in CYCLE_ENDS else 0.0
                    if not under_way_until and ended > _timestamp(began):
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
                line.get("verdicts") == {"replaced": 1} and _at(line) - _seconds(line) > began
                for line in self._log()
            )

        self.service.wait_until("a good cycle", good)

    def let_it_evict(self) -> str:
        """Let its eviction through, and tell where the replacement runs."""
        before = self._sites.where(self.site, "web")
        self.proxies[API_SERVER].remove(self._refusal)
        (node,) = self.service.wait_until("a replacement", lambda: self._new_nodes(before))
        self.service.wait_until("its answer", self.evictions)
        return node

    def _new_nodes(self, before: Mapping[str, str]) -> list[str]:
        pods = self._sites.plane.pods(self.site, "app=web")
        new = [pod for pod in pods if pod["metadata"]["name"] not in before]
        return [pod["spec"]["nodeName"] for pod in new if pod["spec"].get("nodeName")]

    def evictions(self) -> int:
        """How many of its requests to evict the API server has accepted."""
        asked = self.proxies[API_SERVER].requests
        return sum(seen.status == 201 for seen in asked if re.match(EVICTION, seen.path))

    def most_memory_mib(self) -> int:
        """The most memory that its process has had at a time."""
        status = Path(f"/proc/{self.service.pid}/status").read_text()
        (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
        return int(peak) // 1024

    def is_ready(self) -> bool:
        """Whether it says so to the kubelet."""
        (started,) = self.service.events("service.started")
        url = f"http://127.0.0.1:{started['port']}/readyz"
        with urllib3.PoolManager(retries=False, timeout=PATIENCE_SECONDS) as http:
            return bool(http.request("GET", url).status == 200)

    def _evictions_since(self, timestamp: float) -> list[str]:
        asked = self.proxies[API_SERVER].requests
        later = [seen for seen in asked if _timestamp(seen.at_seconds) > timestamp]
        return [seen.path for seen in later if re.match(EVICTION, seen.path)]

    def _log(self) -> Iterator[Object]:
        """The lines that nobody has looked at yet."""
        with self.service.log.open("rb") as log:
            log.seek(self._position)
            for line in log:
                if not line.endswith(b"\n"):
                    return
                self._position += len(line)
                if line.startswith(b"{"):
                    event: Object = json.loads(line)
                    assert event["event"] != "cycle.crashed", event
                    yield event


def proxies_of(sites: Sites) -> dict[str, FaultProxy]:
    """A proxy before each server, by the server's name."""
    plane = sites.plane
    return {
        PROMETHEUS: FaultProxy(sites.prometheus.url),
        API_SERVER: FaultProxy(plane.url, plane.ca_file, plane.key_file),
    }


def policy_for(sites: Sites, site: str) -> Path:
    """For a site where one of three cool nodes may be unknown, and the pod land there."""
    return sites.policy(site, nodeSelector=f"{SITE}={site}", maxLandingRisk=0.5)


def kubeconfig_through(proxy: FaultProxy, sites: Sites, name: str) -> Path:
    """As desched's account, at the proxy."""
    document = yaml.safe_load(sites.kubeconfig.read_text())
    document["clusters"][0]["cluster"]["server"] = proxy.url
    path = sites.directory / f"{name}.kubeconfig"
    path.write_text(yaml.safe_dump(document))
    path.chmod(0o600)
    return path


def _struck_at(active: ActiveFault, otherwise: float) -> float:
    """The timestamp of the first request that was struck; of those refused none is known."""
    first = [seen.at_seconds for seen in active.struck[:1]]
    return _timestamp(first[0] if first else otherwise)


def _timestamp(monotonic_seconds: float) -> float:
    return time.time() - time.monotonic() + monotonic_seconds


def _at(line: Object) -> float:
    return datetime.fromisoformat(line["timestamp"]).timestamp()


def _seconds(line: Object) -> float:
    seconds: float = line.get("duration_seconds", 0.0)
    return seconds
