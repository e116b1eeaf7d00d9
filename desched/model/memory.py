"""What a cycle hands to the next one."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from desched.model.cluster import PodRef


class EvictionRecord(msgspec.Struct, frozen=True):
    """An eviction that was accepted, with the usage that left the node.

    `expected_node` is where the plan expected the replacement; its place stays reserved until the
    load measurements have seen it.
    """

    pod: PodRef
    node: str
    workload_uid: str
    at: datetime
    expected_node: str
    cpu_millicores: float = 0.0
    memory_bytes: float = 0.0


class Memory(msgspec.Struct, frozen=True):
    """Evictions that load measurements have not fully seen yet, oldest first."""

    evictions: tuple[EvictionRecord, ...] = ()

    def extended(self, records: Iterable[EvictionRecord]) -> "Memory":
        """This memory with further evictions."""
        return Memory((*self.evictions, *records))

    def pruned(self, now: datetime, horizon: timedelta) -> "Memory":
        """This memory without evictions that are older than the horizon."""
        return Memory(tuple(record for record in self.evictions if now - record.at < horizon))
