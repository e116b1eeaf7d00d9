"""What ran where, and when: the record from which mean load over a window is computed."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import NamedTuple


class Usage(NamedTuple):
    """What a pod (or the host itself) really uses, whatever it requests."""

    cpu_millicores: float = 0.0
    memory_bytes: float = 0.0

    def scaled(self, factor: float) -> "Usage":
        """This usage times a factor."""
        return Usage(self.cpu_millicores * factor, self.memory_bytes * factor)

    def plus(self, other: "Usage") -> "Usage":
        """The sum of both."""
        return Usage(
            self.cpu_millicores + other.cpu_millicores, self.memory_bytes + other.memory_bytes
        )

    def total(self, begin: float, end: float) -> tuple[float, float]:
        """Millicores and bytes, each times the seconds from `begin` to `end`."""
        seconds = end - begin
        return self.cpu_millicores * seconds, self.memory_bytes * seconds


IDLE = Usage()


class UsageSeries:
    """Usage that changes at regular times: a trace.

    The first level begins at second 0 of the clock, each holds for `step_seconds`, the last one
    for ever.
    """

    def __init__(self, step_seconds: float, levels: Sequence[Usage]) -> None:
        self._step_seconds = step_seconds
        self._levels = levels
        self._cpu_totals = [0.0, *accumulate(u.cpu_millicores * step_seconds for u in levels)]
        self._memory_totals = [0.0, *accumulate(u.memory_bytes * step_seconds for u in levels)]

    def at(self, second: float) -> Usage:
        """The level at a time."""
        return self._levels[self._step(second)]

    def total(self, begin: float, end: float) -> tuple[float, float]:
        """Millicores and bytes, each times seconds, from `begin` to `end`."""
        cpu_before, memory_before = self._until(begin)
        cpu, memory = self._until(end)
        return cpu - cpu_before, memory - memory_before

    def _until(self, second: float) -> tuple[float, float]:
        step = self._step(second)
        level, seconds = self._levels[step], second - step * self._step_seconds
        return (
            self._cpu_totals[step] + level.cpu_millicores * seconds,
            self._memory_totals[step] + level.memory_bytes * seconds,
        )

    def _step(self, second: float) -> int:
        return min(int(second // self._step_seconds), len(self._levels) - 1)


@dataclass
class Stay:
    """One user of resources on one node; `ended` is None while it goes on."""

    user: str
    node: str
    usage: Usage | UsageSeries
    began: float
    ended: float | None = None

    def total(self, begin: float, end: float) -> tuple[float, float]:
        """Millicores and bytes, each times the seconds of the stay from `begin` to `end`."""
        begin = max(begin, self.began)
        end = end if self.ended is None else min(end, self.ended)
        return self.usage.total(begin, end) if begin < end else (0.0, 0.0)


@dataclass
class _Record:
    """The stays of one user, or on one node, and what they came to by the times asked for."""

    stays: list[Stay] = field(default_factory=list)
    _totals: dict[float, tuple[float, float]] = field(default_factory=dict)

    def mean(self, begin: float, end: float) -> Usage:
        cpu_before, memory_before = self._until(begin)
        cpu, memory = self._until(end)
        return Usage(cpu - cpu_before, memory - memory_before).scaled(1 / (end - begin))

    def change(self, at: float) -> None:
        """Something begins or ends, so that later totals are no longer right."""
        self._totals = {second: total for second, total in self._totals.items() if second <= at}

    def _until(self, second: float) -> tuple[float, float]:
        if second not in self._totals:
            totals = [stay.total(0.0, second) for stay in self.stays]
            self._totals[second] = (sum(cpu for cpu, _ in totals), sum(used for _, used in totals))
        return self._totals[second]


class LoadHistory:
    """Usage over time; times are the clock's monotonic seconds.

    A mean is weighted by time over the whole window, as `rate` and `avg_over_time` do it: what
    moved a minute ago still counts for four of the five minutes where it was.
    """

    def __init__(self) -> None:
        self._by_user: defaultdict[str, _Record] = defaultdict(_Record)
        self._by_node: defaultdict[str, _Record] = defaultdict(_Record)

    def begin(self, user: str, node: str, usage: Usage | UsageSeries, at: float) -> None:
        """A user starts on a node; if it was somewhere already, that stay ends."""
        self.end(user, at)
        stay = Stay(user, node, usage, at)
        for record in (self._by_user[user], self._by_node[node]):
            record.stays.append(stay)
            record.change(at)

    def end(self, user: str, at: float) -> None:
        """A user is gone."""
        for stay in self._by_user[user].stays:
            if stay.ended is None:
                stay.ended = at
                self._by_user[user].change(at)
                self._by_node[stay.node].change(at)

    def node_mean(self, node: str, begin: float, end: float) -> Usage:
        """The mean usage of everything on a node."""
        return self._by_node[node].mean(begin, end)

    def user_mean(self, user: str, begin: float, end: float) -> Usage:
        """The mean usage of one user; time before it began counts as no usage."""
        return self._by_user[user].mean(begin, end)

    def began(self, user: str) -> float | None:
        """When the user first ran, None if it never did."""
        return min((stay.began for stay in self._by_user[user].stays), default=None)

    def stays(self) -> Iterator[Stay]:
        """All stays, in the order in which their users first ran."""
        return chain.from_iterable(record.stays for record in self._by_user.values())

    def stays_of(self, user: str) -> Iterator[Stay]:
        """Where one user has been, in order."""
        return iter(self._by_user[user].stays)
