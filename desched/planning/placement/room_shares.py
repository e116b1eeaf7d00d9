"""Decides which pending pods may reserve room: pods that will probably be bound, within a share.

Tenants create pending pods at will. Without these limits, pods that never start would keep room
from the replacements of others, and so stop all relief.
"""

from collections import Counter
from collections.abc import Container
from datetime import timedelta

import numpy as np

from desched.model.cluster import DEFAULT_SCHEDULER, Pod
from desched.model.groups import grouped
from desched.model.plan import Unreserved, UnreservedReason
from desched.model.resources import Resource, basic
from desched.planning.arrays import Ints
from desched.planning.eligibility.context import EligibilityContext

LONG_PENDING = timedelta(minutes=10)
"""A pod that is pending for longer reserves nothing."""

NAMESPACE_SHARE = 0.5
"""The share of the free room that the pending pods of a namespace may reserve; one pod always."""


class RoomShares:
    """Accepts pending pods in the order in which they are scheduled, and counts the others."""

    def __init__(self, context: EligibilityContext, room: Ints, held_for: Container[str]) -> None:
        """`room` is what is free for pods in the whole cluster, in the order of `basic`.

        Nodes are held for the pods with the uids in `held_for`, which reserve nothing elsewhere.
        """
        self._context = context
        self._most = room * NAMESPACE_SHARE
        self._claimed: dict[str, Ints] = {}
        self._refused = Counter[tuple[str, UnreservedReason]]()
        # A tenant can bind pods without any scheduler, so its own pods prove nothing.
        placed = (p for p in context.cluster.pods if p.node and p.scheduler != DEFAULT_SCHEDULER)
        self._placing = grouped((pod.scheduler, pod.namespace) for pod in placed)
        self._held_for = held_for

    def accepts(self, pod: Pod) -> bool:
        """Whether the pod may reserve room; then it counts for its namespace."""
        reason = self._unbound(pod) or self._over_share(pod)
        if reason is not None:
            self.count_refusal(pod, reason)
        return reason is None

    def count_refusal(self, pod: Pod, reason: UnreservedReason) -> None:
        """Count a pod for which no room is reserved."""
        self._refused[pod.namespace, reason] += 1

    @property
    def refused(self) -> tuple[Unreserved, ...]:
        """The pods that were not accepted, by namespace and reason."""
        counts = self._refused.items()
        return tuple(sorted(Unreserved(*key, count) for key, count in counts))

    def _unbound(self, pod: Pod) -> UnreservedReason | None:
        """Return why probably nobody binds the pod soon, or only where room is held for it."""
        if pod.uid in self._held_for:
            return UnreservedReason.NODES_HELD
        if pod.scheduler != DEFAULT_SCHEDULER:
            namespaces = self._placing.get(pod.scheduler, ())
            if all(namespace == pod.namespace for namespace in namespaces):
                return UnreservedReason.UNKNOWN_SCHEDULER
        if pod.has_resource_claims and pod.uncounted_claims:
            return UnreservedReason.RESOURCE_CLAIMS
        if self._context.is_placed_together(pod):
            return UnreservedReason.POD_GROUP
        if self._context.now - pod.created_at > LONG_PENDING:
            return UnreservedReason.LONG_PENDING
        return None

    def _over_share(self, pod: Pod) -> UnreservedReason | None:
        book, claimed = self._context.book, self._claimed.get(pod.namespace)
        wanted = np.array(basic(pod.scheduling.requests), dtype=np.int64)
        for position, resource in enumerate((Resource.CPU, Resource.MEMORY)):
            if resource in book.windows:  # a destination is charged the expected usage
                wanted[position] = max(wanted[position], int(book.expected(pod, resource)))
        total = wanted if claimed is None else claimed + wanted
        if claimed is not None and bool(((wanted > 0) & (total > self._most)).any()):
            return UnreservedReason.NAMESPACE_SHARE
        self._claimed[pod.namespace] = total
        return None
