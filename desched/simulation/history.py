"""What ran where, and when: the record from which mean load over a window is computed."""

from collections.abc import Iterable
from dataclasses import dataclass, field
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


IDLE = Usage()


@dataclass
class _Stay:
    """One user of resources on one node at one level; `ended` is None while it goes on."""

    user: str
    node: str
    usage: Usage
    began: float
    ended: float | None = None

    def overlap_seconds(self, begin: float, end: float) -> float:
        own_end = end if self.ended is None else min(end, self.ended)
        return max(0.0, own_end - max(begin, self.began))


@dataclass
class LoadHistory:
    """Usage over time; times are the clock's monotonic seconds.

    A mean is weighted by time over the whole window, as `rate` and `avg_over_time` do it: what
    moved a minute ago still counts for four of the five minutes where it was.
    """

    _stays: list[_Stay] = field(default_factory=list)

    def begin(self, user: str, node: str, usage: Usage, at: float) -> None:
        """A user starts on a node; if it was somewhere already, that stay ends."""
        self.end(user, at)
        self._stays.append(_Stay(user, node, usage, at))

    def end(self, user: str, at: float) -> None:
        """A user is gone."""
        for stay in self._stays:
            if stay.user == user and stay.ended is None:
                stay.ended = at

    def node_mean(self, node: str, begin: float, end: float) -> Usage:
        """The mean usage of everything on a node."""
        return self._mean((stay for stay in self._stays if stay.node == node), begin, end)

    def user_mean(self, user: str, begin: float, end: float) -> Usage:
        """The mean usage of one user; time before it began counts as no usage."""
        return self._mean((stay for stay in self._stays if stay.user == user), begin, end)

    def began(self, user: str) -> float | None:
        """When the user first ran, None if it never did."""
        return min((stay.began for stay in self._stays if stay.user == user), default=None)

    @staticmethod
    def _mean(stays: Iterable[_Stay], begin: float, end: float) -> Usage:
        total = IDLE
        for stay in stays:
            total = total.plus(stay.usage.scaled(stay.overlap_seconds(begin, end)))
        return total.scaled(1 / (end - begin))
