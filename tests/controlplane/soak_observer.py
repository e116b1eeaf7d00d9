"""How the cluster and the processes fare, looked at every few seconds."""

import os
import statistics
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from desched.adapters.kubernetes.objects.nodes import STEERED_UNTIL
from desched.model.cluster import STEERING_TAINT
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.manifests import Object
from tests.controlplane.replicas import Replica
from tests.controlplane.soak_cluster import use_by_node

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Sample(NamedTuple):
    """The cluster at one time; load as shares of capacity."""

    seconds: float
    highest_cpu_ratio: float
    mean_cpu_ratio: float
    highest_memory_ratio: float
    mean_memory_ratio: float
    overloaded: int
    tainted: int
    nodes: int
    pods: int
    pending: int
    evictions: int


def sample(plane: ControlPlane, seconds: float, evictions: int) -> Sample:
    """The cluster as it was seen last."""
    nodes, pods = plane.seen_nodes, plane.seen_pods
    used = use_by_node(nodes, pods).values()
    cpu = [use.cpu_ratio for use in used] or [0.0]
    memory = [use.memory_ratio for use in used] or [0.0]
    return Sample(
        seconds,
        max(cpu),
        statistics.fmean(cpu),
        max(memory),
        statistics.fmean(memory),
        sum(use.is_overloaded for use in used),
        len(steered(nodes)),
        len(nodes),
        len(pods),
        sum(pod["status"].get("phase") == "Pending" for pod in pods),
        evictions,
    )


def steered(nodes: Sequence[Object]) -> dict[str, datetime | None]:
    """Nodes with desched's taint, and until when it was meant to be there."""
    found = {}
    for node in nodes:
        until = (node["metadata"].get("annotations") or {}).get(STEERED_UNTIL)
        taints = node["spec"].get("taints") or []
        if until or any(taint["key"] == STEERING_TAINT.key for taint in taints):
            found[node["metadata"]["name"]] = datetime.fromisoformat(until) if until else None
    return found


class HeatWatch:
    """Tells whether nodes were overloaded not long ago, by what really runs on them."""

    def __init__(self, plane: ControlPlane, memory_seconds: float) -> None:
        self._plane = plane
        self._memory_seconds = memory_seconds
        self._hot_at: dict[str, datetime] = {}

    def look(self) -> None:
        """Look at what runs now."""
        for node, use in use_by_node(self._plane.seen_nodes, self._plane.seen_pods).items():
            if use.may_seem_overloaded:
                self._hot_at[node] = datetime.now(UTC)

    def was_hot(self, node: str, at: datetime) -> bool:
        """Whether it was then, or within the time before that this remembers."""
        hot_at = self._hot_at.get(node)
        return hot_at is not None and (at - hot_at).total_seconds() < self._memory_seconds


class TaintWatch:
    """Finds taints that outlast their time although nothing keeps the replicas from removing them.

    `patience_seconds` is what they may take for it: a cycle or two, and a change of the leader.
    """

    def __init__(self, patience_seconds: float) -> None:
        self._patience_seconds = patience_seconds
        self.longest_seconds = 0.0
        self.problems: list[str] = []

    def look(self, nodes: Sequence[Object], calm_since_seconds: float | None) -> None:
        """Look at the nodes; `calm_since_seconds` as of `Chaos`."""
        for node, until in steered(nodes).items():
            if calm_since_seconds is None or until is None:
                continue
            over_seconds = (datetime.now(UTC) - until).total_seconds()
            calm_seconds = time.monotonic() - calm_since_seconds
            late_seconds = min(over_seconds, calm_seconds)
            self.longest_seconds = max(self.longest_seconds, late_seconds)
            if late_seconds > self._patience_seconds:
                problem = f"left over: the taint of {node} was to go at {until}"
                if problem not in self.problems:
                    self.problems.append(problem)


@dataclass
class Life:
    """One process from its start to its end, each list an entry for each look.

    `most_mib` is the most memory that it has had at a time.

    `led_seconds` is for how long it had led by then: who stands by runs no cycles, and so does not
    use the memory that they need.
    """

    name: str
    seconds: list[float] = field(default_factory=list)
    rss_bytes: list[int] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)
    led_seconds: list[float] = field(default_factory=list)
    most_mib: int = 0

    def look(self, pid: int, seconds: float, *, leads: bool) -> None:
        """Look at the process, unless it has just ended."""
        try:
            resident_pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        except (OSError, IndexError):
            return
        since_last_seconds = seconds - self.seconds[-1] if self.seconds and leads else 0.0
        self.led_seconds.append(sum(self.led_seconds[-1:]) + since_last_seconds)
        self.seconds.append(seconds)
        self.rss_bytes.append(resident_pages * _PAGE_BYTES)
        self.descriptors.append(descriptors)

    def after(self, warm_up_seconds: float) -> "Growth | None":
        """What grew once it had led for so long, None if it did not live long enough."""
        warm = [i for i, led in enumerate(self.led_seconds) if led >= warm_up_seconds]
        fifth = len(warm) // 5
        if fifth < 2:
            return None
        first, last = warm[:fifth], warm[-fifth:]
        return Growth(
            self.name,
            self.seconds[warm[-1]] - self.seconds[warm[0]],
            statistics.median(self.rss_bytes[i] for i in first),
            statistics.median(self.rss_bytes[i] for i in last),
            statistics.median(self.descriptors[i] for i in first),
            statistics.median(self.descriptors[i] for i in last),
        )


class Growth(NamedTuple):
    """Medians of the first and of the last fifth of a process' life after its warm-up."""

    name: str
    lasted_seconds: float
    first_rss_bytes: float
    last_rss_bytes: float
    first_descriptors: float
    last_descriptors: float

    @property
    def rss_ratio(self) -> float:
        """By which share the memory grew."""
        return self.last_rss_bytes / self.first_rss_bytes - 1


class Processes:
    """The lives of all replicas."""

    def __init__(self) -> None:
        self.lives: dict[str, Life] = {}

    def look(self, running: list[Replica], seconds: float, leader: str) -> None:
        """Look at those that run."""
        for replica in running:
            life = self.lives.setdefault(replica.name, Life(replica.name))
            life.look(replica.pid, seconds, leads=replica.name == leader)
            with suppress(OSError, ValueError):  # it has just ended
                life.most_mib = max(life.most_mib, replica.most_memory_mib())

    def growth(self, warm_up_seconds: float) -> list[Growth]:
        """Of all that led for long enough."""
        found = (life.after(warm_up_seconds) for life in self.lives.values())
        return [growth for growth in found if growth is not None]
