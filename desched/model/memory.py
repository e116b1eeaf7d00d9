"""What a cycle hands to the next one."""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

import msgspec

from desched.model.cluster import PodRef
from desched.model.resources import Resource


class EvictionRecord(msgspec.Struct, frozen=True, gc=False):
    """An eviction that was accepted, with the usage that leaves the node.

    `evicted_at` is when it was accepted, `left_at` the last time that the pod was still there.
    `expected_node` is where the plan expects the replacement.
    """

    pod: PodRef
    node: str
    workload_uid: str
    evicted_at: datetime
    left_at: datetime
    expected_node: str
    cpu_millicores: float = 0.0
    memory_bytes: float = 0.0

    def usage(self, resource: Resource) -> float:
        """The usage that leaves the node: millicores, bytes, or 1 for a pod."""
        match resource:
            case Resource.CPU:
                return self.cpu_millicores
            case Resource.MEMORY:
                return self.memory_bytes
            case Resource.PODS:
                return 1.0


class Memory(msgspec.Struct, frozen=True, gc=False):
    """Evictions that load measurements have not fully seen yet, oldest first."""

    evictions: tuple[EvictionRecord, ...] = ()

    def with_evictions(self, records: Iterable[EvictionRecord]) -> "Memory":
        """This memory with further evictions."""
        return Memory((*self.evictions, *records))

    def observed(
        self, present_uids: Collection[str], now: datetime, horizon: timedelta
    ) -> "Memory":
        """This memory after a look at the cluster.

        A pod that is still there (its grace period runs) has not left yet; a record whose pod left
        longer ago than the horizon is forgotten, because every window has seen it.
        """
        return Memory(
            tuple(
                msgspec.structs.replace(record, left_at=now)
                if record.pod.uid in present_uids
                else record
                for record in self.evictions
                if record.pod.uid in present_uids or now - record.left_at < horizon
            )
        )
