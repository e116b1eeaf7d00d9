"""The record of what ran where and when, from which mean usage over a window is computed."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]

MOST_CACHED = 64
"""The maximum number of cached windows."""

FEW_NODES_SHARE = 0.25
"""For a smaller share of the nodes, only their own stays are looked at."""


class Usage(NamedTuple):
    """What a pod, or the host itself, really uses, whatever it requests."""

    cpu_millicores: float = 0.0
    memory_bytes: float = 0.0


IDLE = Usage()


def host_of(node: str) -> str:
    """The user of resources that stands for all processes of a node outside of pods."""
    return f"host of {node}"


class UsageBank:
    """Usage series of many users in one array, which any number of runs share.

    A series of n levels has n + 1 rows in `before`: the usage until each level begins and until the
    last one ends, x (CPU, memory), in millicore-seconds and byte-seconds. `missing` counts the
    unknown levels until each row; None if all are known.
    """

    def __init__(
        self, step_seconds: float, before: Floats, missing: NDArray[np.uint16] | None = None
    ) -> None:
        self.step_seconds = step_seconds
        self.before = before
        self.missing = missing

    def series(self, first: int, levels: int, begins_at: float = 0.0) -> "UsageSeries":
        """The series of this number of levels whose first row is `first`."""
        return UsageSeries.of_bank(self, first, levels, begins_at)


class UsageSeries:
    """Usage that changes at regular times, step x (CPU, memory).

    The first level begins at second `begins_at` of the clock. Each level holds for `step_seconds`;
    the first holds before its time, and the last for ever.
    """

    def __init__(self, step_seconds: float, levels: ArrayLike, begins_at: float = 0.0) -> None:
        rows = np.array(levels, dtype=float).reshape(-1, 2)
        before = np.zeros((len(rows) + 1, 2))
        np.cumsum(rows * step_seconds, axis=0, out=before[1:])
        self._set(UsageBank(step_seconds, before), 0, len(rows), begins_at, shared=False)

    @classmethod
    def of_bank(cls, bank: UsageBank, first: int, levels: int, begins_at: float) -> "UsageSeries":
        """A part of a bank, which is not copied."""
        series = cls.__new__(cls)
        series._set(bank, first, levels, begins_at, shared=True)  # noqa: SLF001  (its own class)
        return series

    @property
    def amounts(self) -> Floats:
        """The usage in each level: level x (CPU, memory)."""
        until = self.bank.before[self.first : self.first + self.levels + 1]
        found: Floats = np.diff(until, axis=0) / self.bank.step_seconds
        return found

    def _set(
        self, bank: UsageBank, first: int, levels: int, begins_at: float, *, shared: bool
    ) -> None:
        self.bank, self.first, self.levels, self.begins_at = bank, first, levels, begins_at
        self.shared = shared


@dataclass
class Stay:
    """The time of one user of resources on one node; `ended` is infinite while it lasts."""

    user: str
    node: str
    usage: UsageSeries
    began: float
    row: int
    ended: float = math.inf


class _Banks:
    """The banks of a history; series that share none are copied into the first."""

    def __init__(self) -> None:
        self._own = UsageBank(1.0, np.zeros((64, 2)))
        self._used = 0
        self._all = [self._own]
        self._copied: dict[int, tuple[int, UsageSeries]] = {}

    def place(self, series: UsageSeries) -> tuple[int, int]:
        """The position of the bank, and the first row of the series in it."""
        if series.shared:
            if series.bank not in self._all:
                self._all.append(series.bank)
            return self._all.index(series.bank), series.first
        if id(series) not in self._copied:
            rows = series.bank.before
            if self._used + len(rows) > len(self._own.before):
                more = max(len(self._own.before), len(rows))
                self._own.before = np.concatenate([self._own.before, np.zeros((more, 2))])
            self._own.before[self._used : self._used + len(rows)] = rows
            self._copied[id(series)] = self._used, series  # kept, so that no other has its id
            self._used += len(rows)
        return 0, self._copied[id(series)][0]

    def parts(self, bank_of: Integers) -> Iterator[tuple[UsageBank, Mask | slice]]:
        """Each bank that occurs, with its positions."""
        for position, bank in enumerate(self._all):
            chosen = bank_of == position
            if chosen.all():
                yield bank, slice(None)
                return
            if chosen.any():
                yield bank, chosen


class _StayTable:
    """All stays as arrays that grow."""

    def __init__(self) -> None:
        self.users: dict[str, int] = {}
        self.nodes: dict[str, int] = {}
        self.banks = _Banks()
        self._size = 0
        self._times = np.zeros((64, 4))  # began, ended, first level begins, length of a level
        # user, node, bank, first row, last level, whether the user is the host
        self._places = np.zeros((64, 6), dtype=np.int64)

    def add(self, user: str, node: str, usage: UsageSeries, began: float) -> int:
        """Add a stay that lasts; returns its row."""
        if self._size == len(self._times):
            self._times = np.concatenate([self._times, np.zeros_like(self._times)])
            self._places = np.concatenate([self._places, np.zeros_like(self._places)])
        row = self._size
        bank, first = self.banks.place(usage)
        self._times[row] = began, math.inf, usage.begins_at, usage.bank.step_seconds
        user_number = self.users.setdefault(user, len(self.users))
        node_number = self.nodes.setdefault(node, len(self.nodes))
        is_host = user == host_of(node)
        self._places[row] = user_number, node_number, bank, first, usage.levels - 1, is_host
        self._size += 1
        return row

    def end(self, row: int, at: float) -> None:
        """End a stay."""
        self._times[row, 1] = at

    def during(self, begin: float, end: float, nodes: Sequence[int] | None = None) -> Integers:
        """The rows of the stays that overlap this time; with `nodes` only those on these."""
        began, ended = self._times[: self._size, 0], self._times[: self._size, 1]
        chosen = (ended > begin) & (began < end)
        if nodes is not None:
            chosen &= np.isin(self._places[: self._size, 1], nodes)
        return np.flatnonzero(chosen)

    def users_during(self, begin: float, end: float, nodes: Sequence[int]) -> list[int]:
        """The users, but for hosts, with a stay on these nodes that overlaps this time."""
        rows = self.during(begin, end, nodes)
        places = self._places[rows]
        users: list[int] = np.unique(places[places[:, 5] == 0, 0]).tolist()
        return users

    def until(self, moment: float, rows: Integers | None = None) -> "_Until":
        """What stays used until a moment; what they used before they began is in all of them."""
        chosen = slice(self._size) if rows is None else rows
        times, places = self._times[chosen], self._places[chosen]
        amounts, missing = np.zeros((len(times), 2)), np.zeros((len(times), 2), dtype=np.uint16)
        moments = np.clip(moment, times[:, 0], times[:, 1])
        for bank, part in self.banks.parts(places[:, 2]):
            levels = _Levels(times[part, 2], times[part, 3], places[part, 3], places[part, 4])
            amounts[part] = levels.until(moments[part], bank)
            if bank.missing is not None:
                missing[part] = levels.missing(moments[part], bank.missing)
        return _Until(amounts, missing)

    def used(self, rows: Integers, before: "_Until", after: "_Until") -> "_Used":
        """What some stays used between two times."""
        # Each column by itself: results are kept, and a column of a copy keeps all of the copy.
        users, nodes, is_host = (self._places[rows, column] for column in (0, 1, 5))
        unknown: Mask = after.missing[:, 1] != before.missing[:, 0]
        amounts = after.amounts - before.amounts
        return _Used(users, nodes, is_host == 1, amounts, unknown)

    def latest(self) -> "LatestStays":
        """The latest stay of each user."""
        times, places = self._times[: self._size], self._places[: self._size]
        began, lasting = np.zeros(len(self.users)), np.zeros(len(self.users), dtype=bool)
        nodes = np.zeros(len(self.users), dtype=np.int64)
        users = places[:, 0]  # of a user's stays, the latest is the last one
        began[users], nodes[users] = times[:, 0], places[:, 1]
        lasting[users] = np.isinf(times[:, 1]) & (places[:, 5] == 0)
        return LatestStays(began, nodes, lasting)


class LatestStays(NamedTuple):
    """The latest stay of each user, by the user's number: its begin, and the node's number.

    `lasting` is false for users that have left, and for hosts.
    """

    began: Floats
    nodes: Integers
    lasting: Mask


class _Until(NamedTuple):
    """The usage of all stays until a moment, in unit-seconds.

    `missing` has the unknown levels before the level of this moment, and those until its end.
    """

    amounts: Floats
    missing: NDArray[np.uint16]

    def of(self, rows: Integers) -> "_Until":
        """The same for some of these stays."""
        return _Until(self.amounts[rows], self.missing[rows])


class _Used(NamedTuple):
    """The usage of some stays in a time, in unit-seconds; `unknown` if a part is not known."""

    users: Integers
    nodes: Integers
    of_hosts: Mask
    amounts: Floats
    unknown: Mask


class _Levels(NamedTuple):
    """Where the levels of some stays are, and when each of them begins."""

    begins_at: Floats
    step_seconds: Floats
    first: Integers
    last: Integers

    def until(self, moments: Floats, bank: UsageBank) -> Floats:
        """The usage of each series until its own moment."""
        since = moments - self.begins_at
        step = np.clip(since // self.step_seconds, 0, self.last).astype(int)
        before, after = bank.before[self.first + step], bank.before[self.first + step + 1]
        seconds = (since - step * self.step_seconds) / self.step_seconds
        total: Floats = before + (after - before) * seconds[:, None]
        return total

    def missing(self, moments: Floats, missing: NDArray[np.uint16]) -> NDArray[np.uint16]:
        """How many levels are unknown before each moment: without and with its own level."""
        since = (moments - self.begins_at) / self.step_seconds
        first = np.clip(np.floor(since), 0, self.last).astype(int)
        after = np.clip(np.ceil(since), 1, self.last + 1).astype(int)
        is_missing: NDArray[np.uint16] = missing[
            self.first[:, None] + np.stack([first, after], axis=1)
        ]
        return is_missing


class LoadHistory:
    """Usage over time; times are the clock's monotonic seconds.

    A mean is weighted by time over the whole window, as by `rate` and `avg_over_time`: a pod that
    moved a minute ago still counts for four of five minutes on its old node.
    """

    def __init__(self) -> None:
        self._by_user: dict[str, list[Stay]] = {}
        self._table = _StayTable()
        self._until = lru_cache(MOST_CACHED)(self._table.until)
        self._used = lru_cache(MOST_CACHED)(self._between)

    def begin(self, user: str, node: str, usage: Usage | UsageSeries, at: float) -> None:
        """Start a user on a node; a stay elsewhere ends."""
        self.end(user, at)
        series = usage if isinstance(usage, UsageSeries) else UsageSeries(1.0, [usage])
        row = self._table.add(user, node, series, at)
        self._by_user.setdefault(user, []).append(Stay(user, node, series, at, row))

    def end(self, user: str, at: float) -> None:
        """End the stays of a user."""
        for stay in self.stays_of(user):
            if stay.ended > at:
                stay.ended = at
                self._table.end(stay.row, at)
        self._until.cache_clear()
        self._used.cache_clear()

    def of_nodes(self, names: Sequence[str], begin: float, end: float) -> Floats:
        """The mean usage of everything on each of these nodes, x (CPU, memory).

        NaN if the usage of the host itself is not known.
        """
        table = self._table
        numbers = [table.nodes[name] for name in names]
        if len(numbers) < len(table.nodes) * FEW_NODES_SHARE:
            rows = table.during(begin, end, numbers)
            used = table.used(rows, table.until(begin, rows), table.until(end, rows))
        else:
            used = self._used(begin, end)
        totals = _sums(used.nodes, used.amounts, len(table.nodes)) / (end - begin)
        totals[used.nodes[used.of_hosts & used.unknown]] = np.nan
        found: Floats = totals[numbers]
        return found

    def of_users(self, names: Iterable[str], begin: float, end: float) -> Floats:
        """The mean usage of each of these users, x (CPU, memory); NaN if it is not known.

        Time before a user began counts as no usage.
        """
        found: Floats = self.by_number(begin, end)[self.numbers(names)]
        return found

    def by_number(self, begin: float, end: float) -> Floats:
        """The same of all users, by their numbers."""
        used = self._used(begin, end)
        totals = _sums(used.users, used.amounts, len(self._table.users)) / (end - begin)
        totals[used.users[used.unknown]] = np.nan
        return totals

    def numbers(self, names: Iterable[str]) -> list[int]:
        """The numbers of users."""
        users = self._table.users
        return [users[name] for name in names]

    def latest(self) -> LatestStays:
        """The latest stay of each user; the names of the nodes are in `nodes`."""
        return self._table.latest()

    @property
    def nodes(self) -> Mapping[str, int]:
        """The numbers of nodes."""
        return self._table.nodes

    def node_means(self, begin: float, end: float) -> Mapping[str, Usage]:
        """The mean usage of everything on each node."""
        names = list(self._table.nodes)
        return _as_usage(names, self.of_nodes(names, begin, end))

    def user_means(self, begin: float, end: float) -> Mapping[str, Usage]:
        """The mean usage of each user; time before it began counts as no usage."""
        names = list(self._table.users)
        return _as_usage(names, self.of_users(names, begin, end))

    def users_on(self, nodes: Iterable[str], since: float) -> list[str]:
        """The users, but for hosts, that have been on one of these nodes since then, in order."""
        table = self._table
        numbers = [table.nodes[name] for name in nodes if name in table.nodes]
        numbers_on = table.users_during(since, math.inf, numbers)
        names = list(table.users)
        return [names[number] for number in numbers_on]

    def stays_of(self, user: str) -> Sequence[Stay]:
        """The stays of one user, in order."""
        return self._by_user.get(user, ())

    def _between(self, begin: float, end: float) -> _Used:
        """What all stays used between two times."""
        rows = self._table.during(begin, end)
        return self._table.used(rows, self._until(begin).of(rows), self._until(end).of(rows))


def _sums(group_of: Integers, amounts: Floats, groups: int) -> Floats:
    columns = [np.bincount(group_of, amounts[:, i], groups) for i in range(amounts.shape[1])]
    return np.stack(columns, axis=1)


def _as_usage(names: Sequence[str], means: Floats) -> Mapping[str, Usage]:
    return dict(zip(names, map(Usage._make, means.tolist()), strict=True))
