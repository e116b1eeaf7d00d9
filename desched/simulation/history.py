"""The record of what ran where and when, from which mean usage over a window is computed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

MOST_CACHED = 64
"""The maximum number of cached windows."""


class Usage(NamedTuple):
    """What a pod, or the host itself, really uses, whatever it requests."""

    cpu_millicores: float = 0.0
    memory_bytes: float = 0.0


IDLE = Usage()
NONE = np.empty((0, 2))


class UsageSeries:
    """A trace: usage that changes at regular times, step x (CPU, memory).

    The first level begins at second 0 of the clock. Each level holds for `step_seconds`, the last
    one for ever.
    """

    def __init__(self, step_seconds: float, levels: ArrayLike) -> None:
        self.step_seconds = step_seconds
        self.levels = np.array(levels, dtype=float).reshape(-1, 2)
        self.before = np.zeros_like(self.levels)
        """The usage until each level begins, in millicore-seconds and byte-seconds."""
        self.before[1:] = np.cumsum(self.levels * step_seconds, axis=0)[:-1]


@dataclass
class Stay:
    """The time of one user of resources on one node; `ended` is infinite while it lasts."""

    user: str
    node: str
    usage: UsageSeries
    began: float
    ended: float = math.inf


class _Stays:
    """All stays as arrays, valid until one begins or ends."""

    def __init__(self, stays: Sequence[Stay]) -> None:
        self.users = {name: i for i, name in enumerate(dict.fromkeys(s.user for s in stays))}
        self.nodes = {name: i for i, name in enumerate(dict.fromkeys(s.node for s in stays))}
        self._user_of = np.array([self.users[stay.user] for stay in stays], dtype=int)
        self._node_of = np.array([self.nodes[stay.node] for stay in stays], dtype=int)
        self._began = np.array([stay.began for stay in stays])
        self._ended = np.array([stay.ended for stay in stays])
        series = [stay.usage for stay in stays]
        lengths = np.array([len(each.levels) for each in series], dtype=int)
        self._step_seconds = np.array([each.step_seconds for each in series])
        self._last_step = lengths - 1
        self._first = np.cumsum(lengths) - lengths  # row of each series' first level
        self._levels = np.concatenate([NONE, *(each.levels for each in series)])
        self._before = np.concatenate([NONE, *(each.before for each in series)])
        self._before_stay = self._from_zero(self._began)

    def totals(self, second: float) -> tuple[Floats, Floats]:
        """The usage of each user and of each node until a second, in unit-seconds, x resource."""
        moments = np.clip(second, self._began, self._ended)
        used = self._from_zero(moments) - self._before_stay
        by_user, by_node = np.zeros((len(self.users), 2)), np.zeros((len(self.nodes), 2))
        np.add.at(by_user, self._user_of, used)
        np.add.at(by_node, self._node_of, used)
        return by_user, by_node

    def _from_zero(self, moments: Floats) -> Floats:
        """The sum of each stay's series from second 0 until the stay's own moment."""
        step = np.minimum(moments // self._step_seconds, self._last_step).astype(int)
        row, since = self._first + step, moments - step * self._step_seconds
        total: Floats = self._before[row] + self._levels[row] * since[:, None]
        return total


class LoadHistory:
    """Usage over time; times are the clock's monotonic seconds.

    A mean is weighted by time over the whole window, as by `rate` and `avg_over_time`: a pod that
    moved a minute ago still counts for four of five minutes on its old node.
    """

    def __init__(self) -> None:
        self._by_user: dict[str, list[Stay]] = {}
        self._means = lru_cache(MOST_CACHED)(self._compute_means)

    def begin(self, user: str, node: str, usage: Usage | UsageSeries, at: float) -> None:
        """Start a user on a node; a stay elsewhere ends."""
        self.end(user, at)
        series = usage if isinstance(usage, UsageSeries) else UsageSeries(1.0, [usage])
        self._by_user.setdefault(user, []).append(Stay(user, node, series, at))

    def end(self, user: str, at: float) -> None:
        """End the stays of a user."""
        for stay in self.stays_of(user):
            stay.ended = min(stay.ended, at)
        self.__dict__.pop("_arrays", None)
        self._means.cache_clear()

    def node_means(self, begin: float, end: float) -> Mapping[str, Usage]:
        """The mean usage of everything on each node."""
        return self._means(begin, end, of_nodes=True)

    def user_means(self, begin: float, end: float) -> Mapping[str, Usage]:
        """The mean usage of each user; time before it began counts as no usage."""
        return self._means(begin, end, of_nodes=False)

    def by_step(self, nodes: Sequence[str], steps: int, step_seconds: float) -> Floats:
        """The mean usage in each step from second 0: node x step x resource."""
        moments = np.arange(steps + 1) * step_seconds
        totals = np.stack([self._arrays.totals(moment)[1] for moment in moments], axis=1)
        found: Floats = np.diff(totals, axis=1) / step_seconds
        return found[[self._arrays.nodes[node] for node in nodes]]

    def stays_of(self, user: str) -> Sequence[Stay]:
        """The stays of one user, in order."""
        return self._by_user.get(user, ())

    @cached_property
    def _arrays(self) -> _Stays:
        return _Stays([stay for stays in self._by_user.values() for stay in stays])

    def _compute_means(self, begin: float, end: float, *, of_nodes: bool) -> Mapping[str, Usage]:
        names = self._arrays.nodes if of_nodes else self._arrays.users
        used = self._arrays.totals(end)[of_nodes] - self._arrays.totals(begin)[of_nodes]
        means = map(Usage._make, (used * (1 / (end - begin))).tolist())
        return dict(zip(names, means, strict=True))
