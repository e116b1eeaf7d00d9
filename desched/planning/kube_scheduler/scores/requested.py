"""What the pods of every node request, as kube-scheduler's resource scores look at it."""

import msgspec
import numpy as np

from desched.model.cluster import SchedulingClass
from desched.planning.arrays import Floats, Ints, Positions
from desched.planning.kube_scheduler.scores.plugins import Capacity, balance


class Requested(msgspec.Struct, frozen=True):
    """Requested CPU and memory of every node; a value with a row for each alternative, or one.

    `amounts`, shape (alternatives or 1, 4, nodes), are those of `requested_amounts`. `balance`,
    shape (alternatives or 1, nodes), is how alike the requested shares of CPU and memory are; it
    is kept since a pod changes it on its own node only.
    """

    amounts: Floats
    balance: Ints
    capacity: Capacity

    @classmethod
    def of(cls, totals: Ints, capacity: Capacity) -> "Requested":
        """One row: the totals of each node, shape (nodes, 4)."""
        amounts = totals.T[None].astype(float, order="C")
        return cls(amounts, balance(amounts[:, :2], capacity), capacity)

    def in_alternatives(self, count: int) -> "Requested":
        """The same in so many rows, of which it has as many or one."""
        if len(self.amounts) == count:
            return self
        rows = self.amounts.repeat(count, axis=0), self.balance.repeat(count, axis=0)
        return Requested(*rows, self.capacity)

    def having(self, pod: SchedulingClass, nodes: Positions | int, sign: int = 1) -> "Requested":
        """With one such pod more (sign 1) or less (-1) on a node, or on one for each row."""
        amounts, balanced = self.amounts.copy(), self.balance.copy()
        rows = np.arange(len(amounts))
        at = np.broadcast_to(nodes, rows.shape)
        amounts[rows, :, at] += sign * np.array(requested_amounts(pod), dtype=float)
        balanced[rows, at] = balance(amounts[rows, :2, at].T, self.capacity.at(at))
        return Requested(amounts, balanced, self.capacity)


def requested_amounts(scheduling: SchedulingClass) -> tuple[int, int, int, int]:
    """Requested CPU and memory, and both as scored: with the defaults where a request is missing.

    Where nobody has computed the latter, the requests themselves count.
    """
    cpu, memory = scheduling.requests.cpu_millicores, scheduling.requests.memory_bytes
    return (
        cpu,
        memory,
        max(cpu, scheduling.scored_cpu_millicores),
        max(memory, scheduling.scored_memory_bytes),
    )
