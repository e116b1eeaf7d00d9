"""What the API server says that the replicas did, read as it happens, and what was wrong."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import TextIO

from tests.controlplane.manifests import Object
from tests.controlplane.replicas import Replicas, Request, check_that_one_acted
from tests.controlplane.soak_cluster import PROTECTED, kind_of

_REMEMBERED = timedelta(minutes=2)


class AuditLog:
    """Reads the file as it grows, and goes on where the API server begins a new one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None
        self._rest = ""

    def events(self) -> Iterator[Object]:
        """Those that are new."""
        while self._file is not None or self._path.exists():
            self._file = self._file or self._path.open()
            yield from self._lines(self._file)
            if not self._path.exists() or _is_of(self._file, self._path):
                return
            yield from self._lines(self._file)  # what came between the two looks
            self.close()

    def close(self) -> None:
        """Read no more of this file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _lines(self, file: TextIO) -> Iterator[Object]:
        for part in file:
            self._rest += part
            if self._rest.endswith("\n"):
                line, self._rest = self._rest, ""
                yield json.loads(line)


def _is_of(file: TextIO, path: Path) -> bool:
    return os.path.samestat(os.fstat(file.fileno()), path.stat())


class Witness:
    """Follows what the replicas ask for.

    `asked` are their requests to evict. By the pod's name, as the state has it, `sources` are the
    nodes that evicted pods left, and `results` what became of them. `problems` are sentences about
    what must not be.
    """

    def __init__(
        self, replicas: Replicas, log: AuditLog, account: str, longest_tenure_seconds: float
    ) -> None:
        self._replicas = replicas
        self._log = log
        self._account = account
        self._longest_tenure_seconds = longest_tenure_seconds
        self._recent: list[Request] = []
        self._unjudged: list[Request] = []
        self._gone: set[str] = set()
        self.asked: list[Request] = []
        self.results: dict[str, str] = {}
        self.sources: dict[str, str] = {}
        self.statuses: Counter[int] = Counter()
        self.taints = Counter[str]()
        self.holder = ""
        self.problems: list[str] = []

    @property
    def accepted(self) -> list[Request]:
        """The evictions that took effect."""
        return [request for request in self.asked if request.done]

    @property
    def unexplained(self) -> list[str]:
        """Evicted pods of which the state never said what became of them."""
        return [r.name for r in self.accepted if r.name not in self.results]

    def look(self) -> None:
        """Read what is new, and judge the evictions of the look before.

        On a busy machine the audit log has a write after the eviction that it came before.
        """
        due, self._unjudged = self._unjudged, []
        for event in self._log.events():
            if event["user"]["username"] != self._account:
                continue
            request = self._replicas.request_in(event)
            if request is not None:
                self._see(request)
        for eviction in due:
            self._judge(eviction)

    def _see(self, request: Request) -> None:
        self.statuses[request.code] += 1
        match request.what:
            case "create leases" | "patch leases" if request.done:
                self.holder = request.body["spec"].get("holderIdentity", "").partition("_")[0]
                self._keep(request)
            case "create configmaps" | "patch configmaps" if request.done and not request.logs:
                self._read_memory(request)
                self._keep(request)
            case "patch nodes" if request.done:
                self.taints["changed"] += 1
            case "create pods/eviction":
                self._count(request)
                self._unjudged.append(request)
            case _:
                pass

    def _keep(self, request: Request) -> None:
        earliest = request.began - _REMEMBERED
        self._recent = [r for r in self._recent if r.ended >= earliest]
        self._recent.append(request)

    def _read_memory(self, write: Request) -> None:
        state = json.loads(write.body["data"]["state.json"])["state"]
        for record in state.get("evictions", ()):
            if "result" in record:
                self.results[record["pod"]["name"]] = record["result"]
            self.sources[record["pod"]["name"]] = record["node"]

    def _count(self, eviction: Request) -> None:
        self.asked.append(eviction)
        what = PROTECTED.get(kind_of(eviction.name))
        if what is not None:
            self.problems.append(f"forbidden: asked to evict {eviction.name}, a pod {what}")
        if eviction.done and eviction.name in self._gone:
            self.problems.append(f"double: {eviction.name} was evicted twice")
        if eviction.done:
            self._gone.add(eviction.name)

    def _judge(self, eviction: Request) -> None:
        earlier = [request for request in self._recent if request.began <= eviction.began]
        try:
            check_that_one_acted([*earlier, eviction], self._longest_tenure_seconds)
        except (AssertionError, ValueError) as error:
            self.problems.append(
                f"unfounded: {eviction.replica} evicted {eviction.name} at {eviction.began}: "
                f"{str(error)[:2000]}"
            )


def cycles_of(replicas: Replicas) -> list[Object]:
    """The lines of all completed cycles, oldest first."""
    lines = [line for replica in replicas.all.values() for line in replica.cycles]
    return sorted(lines, key=lambda line: datetime.fromisoformat(line["timestamp"]))


def complaints(replicas: Replicas) -> list[str]:
    """Lines of the logs that speak of a bug."""
    return [
        f"{replica.name}: {line[:2000]}"
        for replica in replicas.all.values()
        for line in replica.log.read_text().splitlines()
        if "Traceback" in line or '"exception"' in line or "_crashed" in line or ".crashed" in line
    ]
