"""Load that has left a node, or is leaving it, while its windows still include it."""

import math

from desched.model.groups import grouped
from desched.model.resources import Resource
from desched.model.state import EvictionRecord, State
from desched.planning.overload.node_load import Basis
from desched.planning.overload.pod_usage import UsageBook


class DepartedLoad:
    """Pods that have left a node, or are leaving it, while its windows still include them."""

    def __init__(self, state: State, book: UsageBook) -> None:
        self._book = book
        pods = book.snapshot.cluster.pods
        leaving = [pod for pod in pods if (pod.deleting or pod.finished) and pod.node]
        present = {pod.uid for pod in leaving if not pod.finished}
        self._leaving = grouped((pod.node, pod) for pod in leaving)
        self._still_here = {r.node for r in state.evictions if r.pod.uid in present}
        self._gone = grouped((r.node, r) for r in state.evictions if r.pod.uid not in present)

    def leave(self, node: str, resource: Resource, bases: tuple[Basis, ...]) -> tuple[Basis, ...]:
        """The bases without the usage that has left the node or is leaving it."""
        if node not in self._leaving and node not in self._gone:
            return bases
        leaving = [
            used
            for pod in self._leaving.get(node, ())
            if (used := self._book.measured(pod, resource))
        ]
        records = self._gone.get(node, ())
        gone = [
            math.fsum(used[i] for used in leaving)
            + math.fsum(r.usage(resource) * self._unseen(r, window) for r in records)
            for i, window in enumerate(self._book.windows[resource])
        ]
        return tuple(
            Basis(
                basis.denominator,
                tuple(
                    max(0.0, ratio - left / basis.denominator)
                    for ratio, left in zip(basis.ratios, gone, strict=True)
                ),
            )
            for basis in bases
        )

    def settling(self, shortest_window_seconds: int) -> frozenset[str]:
        """The nodes from which a pod was evicted less than the shortest window ago."""
        return frozenset(self._still_here) | {
            node
            for node, records in self._gone.items()
            if any(self._unseen(record, shortest_window_seconds) > 0 for record in records)
        }

    def _unseen(self, record: EvictionRecord, window_seconds: int) -> float:
        if window_seconds <= 0:
            return 0.0
        since_seconds = (self._book.now - (record.left_at or self._book.now)).total_seconds()
        return min(1.0, max(0.0, 1.0 - since_seconds / window_seconds))
