"""Requested resources: the free amounts of each node."""

import copy
from collections.abc import Iterator, Mapping

import numpy as np

from desched.model.resources import Amounts, basic
from desched.planning.arrays import Ints, Mask
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.kube_scheduler.pod_index import PodIndex

_BASIC = ("cpu", "memory", "ephemeral-storage", "pods")
_LACKING = {"pods": "Too many pods"}


def named(requests: Amounts) -> dict[str, int]:
    """What is requested, by the name of the resource, as `FreeRequests.free_at` names it."""
    return dict(zip(_BASIC, basic(requests), strict=True)) | dict(requests.extended)


class FreeRequests:
    """Plugin NodeResourcesFit; pods that are being deleted hold their requests until they are gone.

    `allocatable` and `free` have shape (basic resources, nodes).
    """

    def __init__(self, arrays: NodeArrays, index: PodIndex) -> None:
        self._arrays = arrays
        rows = [basic(node.allocatable) for node in arrays.nodes]
        self.allocatable = np.array(rows, dtype=np.int64).reshape(len(rows), len(_BASIC)).T.copy()
        self.free = self.allocatable.copy()
        self._extended: dict[str, Ints] = {}
        for i, node in enumerate(arrays.nodes):
            for name, count in node.allocatable.extended:
                column = self._extended.setdefault(name, np.zeros(len(rows), dtype=np.int64))
                column[i] += count
        self._enough: dict[Amounts, Mask] = {}
        self.free -= index.totals(lambda scheduling: basic(scheduling.requests)).T
        for pod, i in index.residents_of(lambda scheduling: scheduling.requests.extended):
            self._add_extended(i, pod.scheduling.requests, -1)

    def copy(self) -> "FreeRequests":
        """An independent copy."""
        copied: FreeRequests = copy.copy(self)
        copied.free = self.free.copy()
        copied._extended = {name: column.copy() for name, column in self._extended.items()}
        return copied

    def change(self, position: int, requests: Amounts, sign: int) -> None:
        """Take requests from the node (sign -1), or give them back (1)."""
        self._enough = {}  # copies may share the old one
        for row, amount in enumerate(basic(requests)):
            self.free[row][position] += sign * amount
        self._add_extended(position, requests, sign)

    def _add_extended(self, position: int, requests: Amounts, sign: int) -> None:
        for name, count in requests.extended:
            if name in self._extended:
                self._extended[name][position] += sign * count

    def enough(self, requests: Amounts) -> Mask:
        """The nodes with enough free. Cached: do not modify."""
        mask = self._enough.get(requests)
        if mask is None:
            mask = self._arrays.all()
            for _, free, amount in self._asked(requests):
                mask &= free >= amount
            self._enough[requests] = mask
        return mask

    def shortage(self, requests: Amounts) -> tuple[Ints, Mask]:
        """What each node lacks for these requests, shape (basic resources, nodes).

        The mask has the nodes that lack no extended resource.
        """
        wanted = np.array(basic(requests), dtype=np.int64)[:, None]
        enough = self._arrays.all()
        for name, count in requests.extended:
            enough &= self.free_of(name) >= count
        return np.maximum(wanted - self.free, 0) * (wanted > 0), enough

    def enough_again(self, requests: Amounts, position: int) -> Mask:
        """Return the nodes with enough free once such a pod on the node has left it."""
        mask = self.enough(requests)
        if not mask[position] and self.holds(position, requests):
            mask = mask.copy()
            mask[position] = True
        return mask

    def holds(self, position: int, requests: Amounts) -> bool:
        """Whether a pod of these requests that is on the node could come back to it."""
        return all(free[position] >= 0 for _, free, _ in self._asked(requests))

    def free_at(self, position: int) -> dict[str, int]:
        """What is free on the node, by the name of the resource."""
        amounts = {name: int(row[position]) for name, row in zip(_BASIC, self.free, strict=True)}
        return amounts | {name: int(column[position]) for name, column in self._extended.items()}

    def free_of(self, name: str) -> Ints:
        """What is free of an extended resource, -1 on all nodes if none has it. Do not modify."""
        column = self._extended.get(name)
        return np.full(len(self._arrays), -1, dtype=np.int64) if column is None else column

    def row(self, name: str) -> Ints:
        """Return what is free of any resource, as `free_of` does. Do not modify."""
        return self.free[_BASIC.index(name)] if name in _BASIC else self.free_of(name)

    def lacking(self, requests: Amounts, failing: Mask) -> Mapping[str, int]:
        """Count the failing nodes by the resources that they lack; one may lack several."""
        return {
            reason: int(np.count_nonzero(failing & (free < amount)))
            for reason, free, amount in self._asked(requests)
        }

    def lacking_at(self, position: int, requests: Amounts) -> list[str]:
        """The resources that the node lacks."""
        return [reason for reason, free, amount in self._asked(requests) if free[position] < amount]

    def _asked(self, requests: Amounts) -> Iterator[tuple[str, Ints, int]]:
        """The reason, the free amounts and the request of each requested resource."""
        for name, free, amount in zip(_BASIC, self.free, basic(requests), strict=True):
            if amount:
                yield _LACKING.get(name, f"Insufficient {name}"), free, amount
        for name, count in requests.extended:
            if count:
                yield f"Insufficient {name}", self.free_of(name), count
