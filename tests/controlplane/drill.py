"""A service of desched that lives through faults, and a crew of them that share the cases.

Its evictions are answered with a conflict, so that each good cycle asks for the same one again and
nothing changes.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from queue import SimpleQueue
from typing import Concatenate, Generic, ParamSpec, Self, TypeVar

import urllib3

from tests.controlplane.fault_cases import EVICTION
from tests.controlplane.fault_proxy import FaultProxy, Seen
from tests.controlplane.faults import status
from tests.controlplane.forks import Prepare, as_it_is
from tests.controlplane.manifests import Object
from tests.controlplane.replicas import Replica
from tests.controlplane.sites import Sites
from tests.controlplane.waiting import PATIENCE_SECONDS

REPLACED = status(HTTPStatus.CONFLICT, "the pod is another one", reason="Conflict")


class Drill:
    """A service on a site of its own, with a proxy of its own before the API server.

    `start` starts it. The context ends it, its proxy, and the `others`.
    """

    service: Replica

    def __init__(self, sites: Sites, site: str, *others: FaultProxy) -> None:
        self.site = site
        self.api_server = FaultProxy.before(sites.plane)
        self._sites = sites
        self._others = others
        self._conflict = self.api_server.inject(REPLACED, "POST", EVICTION)
        self._position = 0

    def start(
        self, *flags: str, policy: Path, kubeconfig: Path, prepare: Prepare = as_it_is
    ) -> None:
        """Start the service with these flags beside those that every drill has."""
        command = self._sites.arguments(
            *("--evict", "--interval", "1s", "--log-format", "json", *flags),
            *("--listen-address", "127.0.0.1:0", "--state-namespace", self.site),
            policy=policy,
            kubeconfig=kubeconfig,
        )
        self.service = Replica(self.site, command, self._sites.directory, prepare)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.service.stop()
        for proxy in (self.api_server, *self._others):
            proxy.__exit__(*error)

    def is_ready(self) -> bool:
        """Whether it says so to the kubelet; what is neither yes nor no fails."""
        (started,) = self.service.events("service.started")
        url = f"http://127.0.0.1:{started['port']}/readyz"
        with urllib3.PoolManager(retries=False, timeout=PATIENCE_SECONDS) as http:
            answer = http.request("GET", url).status
        assert answer in {HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE}
        return answer == HTTPStatus.OK

    def let_through(self) -> None:
        """From now on its evictions reach the API server."""
        self.api_server.remove(self._conflict)

    def new_lines(self) -> Iterator[Object]:
        """The lines of its log that nobody has looked at yet; none of them tells of a bug."""
        with self.service.log.open("rb") as log:
            log.seek(self._position)
            for text in log:
                if not text.endswith(b"\n"):
                    return
                self._position += len(text)
                if text.startswith(b"{"):
                    line: Object = json.loads(text)
                    assert not line["event"].endswith(".crashed"), line
                    yield line


CYCLE_ENDS = frozenset({"cycle.completed", "cycle.skipped"})
"""The events of the log at which a cycle has ended."""

D = TypeVar("D", bound=Drill)
P = ParamSpec("P")
R = TypeVar("R")


class Crew(Generic[D]):
    """Services that take cases in turn, each by whichever has time; those without are paused.

    Cycles that nobody looks at would cost CPU.
    """

    def __init__(self, drills: Iterable[D], cleanup: ExitStack) -> None:
        self.drills: list[D] = []
        for drill in drills:
            cleanup.enter_context(drill)
            self.drills.append(drill)
        self._idle: SimpleQueue[D] = SimpleQueue()
        self._pool = cleanup.enter_context(ThreadPoolExecutor(len(self.drills)))

    def begin_with(
        self, first: D, do: Callable[Concatenate[D, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> Future[R]:
        """This service begins with this, and has time for others only afterwards."""
        return self._pool.submit(lambda: self._busy(first, do, *args, **kwargs))

    def begin(
        self, do: Callable[Concatenate[D, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> Future[R]:
        """Begin as soon as a service has time."""
        return self._pool.submit(lambda: self._busy(self._idle.get(), do, *args, **kwargs))

    def rest(self, *drills: D) -> None:
        """These have time from now on."""
        for drill in drills:
            self._idle.put(drill)

    def all_together(self, do: Callable[[D], R]) -> list[R]:
        """Until each of them has done it, none of which is paused any more."""
        for drill in self.drills:
            drill.service.thaw()
        return list(self._pool.map(do, self.drills))

    def _busy(
        self, drill: D, do: Callable[Concatenate[D, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        drill.service.thaw()
        try:
            return do(drill, *args, **kwargs)
        finally:
            drill.service.freeze()
            self._idle.put(drill)


def matching(path: str, requests: Sequence[Seen]) -> list[Seen]:
    """The requests of such a path."""
    return [each for each in requests if re.match(path, each.path)]


def ended_at(line: Object) -> float:
    """The timestamp of a line of the log."""
    return datetime.fromisoformat(line["timestamp"]).timestamp()


def began_at(line: Object) -> float:
    """When the cycle of a line began; without a duration, the timestamp of the line."""
    return ended_at(line) - float(line.get("duration_seconds", 0.0))


def timestamp_of(monotonic_seconds: float) -> float:
    """The same moment by the clock of the log."""
    return time.time() - time.monotonic() + monotonic_seconds
