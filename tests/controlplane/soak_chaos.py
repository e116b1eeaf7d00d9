"""Random faults for two replicas: of the API server, of Prometheus, of exporters, of themselves."""

import random
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple, Self

from tests.controlplane.faults import (
    BROKEN_OFF,
    CUT_SHORT,
    MALFORMED,
    NEVER,
    REFUSED,
    Answer,
    Fault,
    FaultProxy,
    answer,
    edited,
    late,
    nulls,
    status,
)
from tests.controlplane.process import free_ports
from tests.controlplane.replicas import Replica, Replicas
from tests.controlplane.sites import Sites
from tests.controlplane.soak_agenda import Agenda, Journal

MOST_AT_ONCE = 2


class _Strike(NamedTuple):
    fault: Fault
    method: str = ".*"
    path: str = ""


_PODS, _EVICTIONS, _STATE = "/api/v1/pods", ".*/eviction", ".*/configmaps"

_OF_THE_API_SERVER = (
    _Strike(REFUSED),
    _Strike(status(401)),
    _Strike(status(429, retry_after_seconds=2)),
    _Strike(status(503)),
    _Strike(late(20.0)),
    _Strike(BROKEN_OFF, "GET", _PODS),
    _Strike(CUT_SHORT, "GET", _PODS),
    _Strike(MALFORMED, "GET", _PODS),
    _Strike(NEVER, "GET", _PODS),
    _Strike(nulls("metadata"), "GET", _PODS),
    _Strike(status(403, reason="Forbidden"), "GET", _PODS),
    _Strike(status(500), "GET", "/api/v1/nodes"),
    _Strike(BROKEN_OFF, "POST", _EVICTIONS),
    _Strike(NEVER, "POST", _EVICTIONS),
    _Strike(status(429, cause="DisruptionBudget"), "POST", _EVICTIONS),
    _Strike(status(500, after_effect=True), "POST", _EVICTIONS),
    _Strike(BROKEN_OFF, "PATCH", _STATE),
    _Strike(status(409, reason="Conflict"), "PATCH", _STATE),
    _Strike(status(500, after_effect=True), "PATCH", _STATE),
    _Strike(status(403, reason="Forbidden"), "PATCH", "/api/v1/nodes"),
    _Strike(NEVER, ".*", ".*/leases"),
)


def _with_warning(answer: Any) -> Any:
    return {**answer, "warnings": ["a store did not answer"]}


def _half(answer: Any) -> Any:
    answer["data"]["result"] = answer["data"]["result"][::2]
    return answer


def _nan(answer: Any) -> Any:
    for series in answer["data"]["result"]:
        if "value" in series:
            series["value"][1] = "NaN"
    return answer


_OF_PROMETHEUS = (
    REFUSED,
    BROKEN_OFF,
    CUT_SHORT,
    MALFORMED,
    NEVER,
    answer("status 503", Answer(503, {"Content-Type": "text/plain"}, b"overloaded")),
    edited("warnings", _with_warning),
    edited("half of the series", _half),
    edited("NaN", _nan),
)


class Chaos:
    """Two replicas behind proxies, and what befalls them; all ends with the context.

    `pace` shortens (or lengthens) how long faults last, `leader` names the replica that acts, and
    at one of `ports` each replica answers probes.
    `calm_since_seconds`, of the monotonic clock, is None while there is a fault.
    """

    def __init__(
        self,
        sites: Sites,
        agenda: Agenda,
        journal: Journal,
        chance: random.Random,
        pace: float,
        leader: Callable[[], str],
    ) -> None:
        plane = sites.plane
        self._sites = sites
        self._agenda = agenda
        self._journal = journal
        self._chance = chance
        self._pace = pace
        self._leader = leader
        self._active = 0
        self._dead: set[str] = set()
        self._ended = time.monotonic()
        self._stack = ExitStack()
        self._api = [self._kept(FaultProxy.before(plane)) for _ in range(2)]
        self._load = self._kept(FaultProxy(sites.prometheus.url))
        self.ports = free_ports(len(self._api))

    def _kept(self, proxy: FaultProxy) -> FaultProxy:
        return self._stack.enter_context(proxy)

    def start(self, replicas: Replicas, flags: tuple[str, ...]) -> None:
        """Start both replicas."""
        self._replicas = replicas
        self._flags = flags
        self.running = [self._replica(which) for which in range(len(self._api))]

    def _replica(self, which: int) -> Replica:
        flags = ("--prometheus-url", self._load.url)
        address = ("--listen-address", f"127.0.0.1:{self.ports[which]}")
        return self._replicas.start(self._api[which].url, *self._flags, *flags, *address)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def calm_since_seconds(self) -> float | None:
        """When the last fault ended, if there is none now."""
        return None if self._active else self._ended

    def forget_requests(self) -> None:
        """What the proxies have seen; the audit log has it too."""
        for proxy in (*self._api, self._load):
            proxy.requests.clear()

    def strike(self) -> None:
        """One more fault, unless there are as many as there may be."""
        if self._active >= MOST_AT_ONCE:
            return
        action = self._chance.choices(
            (
                self._api_server,
                self._prometheus,
                self._exporters,
                lambda: self._freeze(self._chance.randrange(2)),
                lambda: self._kill(self._chance.randrange(2)),
            ),
            weights=(9, 5, 2, 2, 1),
        )[0]
        action()

    def _begin(self, kind: str, text: str, seconds: float, end: Callable[[], None]) -> None:
        self._journal.note("fault", kind, f"{text}, {seconds:.0f} s".lstrip(", "))
        self._active += 1

        def over() -> None:
            end()
            self._active -= 1
            self._ended = time.monotonic()

        self._agenda.later(seconds, over)

    def _lasting(self, seconds: float) -> float:
        return seconds * self._pace * self._chance.uniform(0.5, 1.5)

    def _api_server(self) -> None:
        fault, method, path = self._chance.choice(_OF_THE_API_SERVER)
        leader = [
            p for p, r in zip(self._api, self.running, strict=True) if r.name == self._leader()
        ]
        proxies = self._chance.choice((self._api, leader or self._api[:1]))
        injected = [proxy.inject(fault, method, path) for proxy in proxies]

        def end() -> None:
            for proxy, active in zip(proxies, injected, strict=True):
                proxy.remove(active)

        where = "both" if len(proxies) > 1 else "the leader"
        about = f"{method} {path}".strip(".* ")
        self._begin("API server", f"{fault.name} {about} for {where}", self._lasting(30), end)

    def _prometheus(self) -> None:
        fault = self._chance.choice(_OF_PROMETHEUS)
        active = self._load.inject(fault)
        end = lambda: self._load.remove(active)  # noqa: E731
        self._begin("Prometheus", fault.name, self._lasting(30), end)

    def _exporters(self) -> None:
        metrics = self._sites.plane.metrics
        nodes = [node["metadata"]["name"] for node in self._sites.plane.items("/api/v1/nodes")]
        gone = self._chance.sample(nodes, max(1, len(nodes) // 40))
        for node in gone:
            metrics.hide(node)

        def end() -> None:
            for node in gone:
                metrics.show(node)

        self._begin("exporters gone", ", ".join(gone), self._lasting(60), end)

    def cut_off(self) -> Callable[[], None]:
        """Refuse all connections to the API server; returns what lets them through again."""
        injected = [proxy.inject(REFUSED) for proxy in self._api]
        self._active += 1
        self._journal.note("fault", "API server", f"{REFUSED.name} for both")

        def end() -> None:
            for proxy, active in zip(self._api, injected, strict=True):
                proxy.remove(active)
            self._active -= 1
            self._ended = time.monotonic()

        return end

    def lie(self, fault: Fault, path: str, seconds: float) -> None:
        """Let Prometheus answer so for a while."""
        active = self._load.inject(fault, path=path)
        self._begin("Prometheus", fault.name, seconds, lambda: self._load.remove(active))

    def freeze_leader(self) -> None:
        """Let it stand still for a while."""
        self._freeze(self._leading())

    def kill_leader(self) -> None:
        """End it, and start another one after a while."""
        self._kill(self._leading())

    def _leading(self) -> int:
        names = [replica.name for replica in self.running]
        return names.index(self._leader()) if self._leader() in names else 0

    def _freeze(self, which: int) -> None:
        replica = self.running[which]
        if replica.name in self._dead:
            return
        replica.freeze()

        def thaw() -> None:
            with suppress(ProcessLookupError):  # it was killed meanwhile
                replica.thaw()

        self._begin("SIGSTOP", replica.name, self._lasting(20), thaw)

    def _kill(self, which: int) -> None:
        replica = self.running[which]
        if replica.name in self._dead:
            return
        replica.stop()
        self._dead.add(replica.name)

        def restart() -> None:
            self.running[which] = self._replica(which)

        self._begin("kill -9", replica.name, self._lasting(15), restart)
