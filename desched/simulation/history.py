"""What ran where, and when: the record from which mean load over a window is computed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

MOST_KEPT = 64
"""Of how many windows the means are kept; a cycle reads some of the windows of the last one."""


class Usage(NamedTuple):
    """What a pod (or the host itself) really uses, whatever it requests."""

    cpu_millicores: float = 0.0
    memory_bytes: float = 0.0


IDLE = Usage()
NONE = np.empty((0, 2))


class UsageSeries:
    """Usage that changes at regular times: a trace, step x (CPU, memory).

    The first level begins at second 0 of the clock, each holds for `step_seconds`, the last one
    for ever.
    """

    def __init__(self, step_seconds: float, levels: ArrayLike) -> None:
        self.step_seconds = step_seconds
        self.levels = np.array(levels, dtype=float).reshape(-1, 2)
        self.before = np.zeros_like(self.levels)
        """Millicores and bytes, each times seconds, until each level begins."""
        self.before[1:] = np.cumsum(self.levels * step_seconds, axis=0)[:-1]


@dataclass
class Stay:
    """One user of resources on one node; `ended` is infinite while it goes on."""

    user: str
    node: str
    usage: UsageSeries
    began: float
    ended: float = math.inf


class _Stays:
    """All stays as arrays, for as long as none begins or ends."""

    def __init__(self, stays: Sequence[Stay]) -> None:
        self.users = {user: i for i, user in enumerate(dict.fromkeys(s.user for s in stays))}
        self.nodes = {node: i for i, node in enumerate(dict.fromkeys(s.node for s in stays))}
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
        """What users, and nodes, used until a second: user or node x resource, times seconds."""
        moments = np.clip(second, self._began, self._ended)
        used = self._from_zero(moments) - self._before_stay
        by_user, by_node = np.zeros((len(self.users), 2)), np.zeros((len(self.nodes), 2))
        np.add.at(by_user, self._user_of, used)
        np.add.at(by_node, self._node_of, used)
        return by_user, by_node

    def _from_zero(self, moments: Floats) -> Floats:
        """What each stay's series comes to from second 0 until the stay's own moment."""
        step = np.minimum(moments // self._step_seconds, self._last_step).astype(int)
        row, since = self._first + step, moments - step * self._step_seconds
        total: Floats = self._before[row] + self._levels[row] * since[:, None]
        return total


class LoadHistory:
    """Usage over time; times are the clock's monotonic seconds.

    A mean is weighted by time over the whole window, as `rate` and `avg_over_time` do it: what
    moved a minute ago still counts for four of the five minutes where it was.
    """

    def __init__(self) -> None:
        self._by_user: dict[str, list[Stay]] = {}
        self._arrays: _Stays | None = None
        self._kept: dict[tuple[str, float, float], Mapping[str, Usage]] = {}

    def begin(self, user: str, node: str, usage: Usage | UsageSeries, at: float) -> None:
        """A user starts on a node; if it was somewhere already, that stay ends."""
        self.end(user, at)
        series = usage if isinstance(usage, UsageSeries) else UsageSeries(1.0, [usage])
        self._by_user.setdefault(user, []).append(Stay(user, node, series, at))

    def end(self, user: str, at: float) -> None:
        """A user is gone."""
        for stay in self.stays_of(user):
            stay.ended = min(stay.ended, at)
        self._arrays = None
        self._kept = {key: means for key, means in self._kept.items() if key[2] <= at}

    def node_means(self, begin: float, end: float) -> Mapping[str, Usage]:
        """The mean usage of everything on each node."""
        return self._means("node", begin, end)

    def user_means(self, begin: float, end: float) -> Mapping[str, Usage]:
        """The mean usage of each user; time before it began counts as no usage."""
        return self._means("user", begin, end)

    def by_step(self, nodes: Sequence[str], steps: int, step_seconds: float) -> Floats:
        """The mean usage in each of so many steps from second 0: node x step x resource."""
        arrays = self._as_arrays()
        totals = np.stack([arrays.totals(i * step_seconds)[1] for i in range(steps + 1)], axis=1)
        found: Floats = np.diff(totals, axis=1) / step_seconds
        return found[[arrays.nodes[node] for node in nodes]]

    def began(self, user: str) -> float | None:
        """When the user first ran, None if it never did."""
        return min((stay.began for stay in self.stays_of(user)), default=None)

    def stays_of(self, user: str) -> Sequence[Stay]:
        """Where one user has been, in order."""
        return self._by_user.get(user, ())

    def _as_arrays(self) -> _Stays:
        if self._arrays is None:
            self._arrays = _Stays([stay for stays in self._by_user.values() for stay in stays])
        return self._arrays

    def _means(self, of: Literal["user", "node"], begin: float, end: float) -> Mapping[str, Usage]:
        """Means of one window; kept until something changes them."""
        found = self._kept.get((of, begin, end))
        if found is None:
            arrays = self._as_arrays()
            names, kind = (arrays.users, 0) if of == "user" else (arrays.nodes, 1)
            used = arrays.totals(end)[kind] - arrays.totals(begin)[kind]
            means = map(Usage._make, (used * (1 / (end - begin))).tolist())
            found = dict(zip(names, means, strict=True))
            if len(self._kept) == MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[of, begin, end] = found
        return found
