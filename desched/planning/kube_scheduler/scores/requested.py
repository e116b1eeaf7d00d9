"""The requests of the pods on every node, as kube-scheduler's resource scores count them."""

import msgspec
import numpy as np

from desched.model.cluster import SchedulingClass
from desched.planning.arrays import Floats, Ints, Positions
from desched.planning.kube_scheduler.scores.plugins import Capacity, balance


class Requested(msgspec.Struct, frozen=True):
    """Requested CPU and memory of every node; immutable.

    `amounts`, shape (alternatives or 1, 4, nodes), has the values of `requested_amounts`.
    `balance`, shape (alternatives or 1, nodes), is how similar the requested shares of CPU and
    memory are. It is stored, because a pod changes it only on its own node.
    """

    amounts: Floats
    balance: Ints
    capacity: Capacity

    @classmethod
    def of(cls, totals: Ints, capacity: Capacity) -> "Requested":
        """A single row from the totals of each node, shape (nodes, 4)."""
        amounts = totals.T[None].astype(float, order="C")
        return cls(amounts, balance(amounts[:, :2], capacity), capacity)

    def in_alternatives(self, count: int) -> "Requested":
        """Return the requests in `count` equal rows, or unchanged if there are that many."""
        if len(self.amounts) == count:
            return self
        rows = self.amounts.repeat(count, axis=0), self.balance.repeat(count, axis=0)
        return Requested(*rows, self.capacity)

    def having(self, pod: SchedulingClass, nodes: Positions | int, sign: int = 1) -> "Requested":
        """Add such a pod (sign 1) or remove one (-1), on a node or on one node for each row."""
        amounts, balanced = self.amounts.copy(), self.balance.copy()
        rows = np.arange(len(amounts))
        at = np.broadcast_to(nodes, rows.shape)
        amounts[rows, :, at] += sign * np.array(requested_amounts(pod), dtype=float)
        balanced[rows, at] = balance(amounts[rows, :2, at].T, self.capacity.at(at))
        return Requested(amounts, balanced, self.capacity)


def requested_amounts(scheduling: SchedulingClass) -> tuple[int, int, int, int]:
    """Requested CPU and memory, then both as scored: with defaults for missing requests."""
    cpu, memory = scheduling.requests.cpu_millicores, scheduling.requests.memory_bytes
    return (
        cpu,
        memory,
        max(cpu, scheduling.scored_cpu_millicores),
        max(memory, scheduling.scored_memory_bytes),
    )
