"""What a cycle hands to the next one."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from desched.model.cluster import Pod, PodRef
from desched.model.resources import Resource

TAKEN_OVER_PATIENCE = timedelta(minutes=10)
"""How long a webhook may take to move a workload before its pod counts as staying."""


class EvictionRecord(msgspec.Struct, frozen=True, gc=False):
    """An eviction that was accepted, or may have been, with the usage that leaves the node.

    `left_at` is the first look at which the pod was gone (its end may lie a little before, so that
    an error leads to waiting), None while it is still there. `taken_over` is an eviction that an
    admission webhook carries out in its own way and time. `expected_node` is where the plan
    expects the replacement.
    """

    pod: PodRef
    node: str
    workload_uid: str
    evicted_at: datetime
    expected_node: str
    cpu_millicores: float = 0.0
    memory_bytes: float = 0.0
    left_at: datetime | None = None
    taken_over: bool = False

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
    """Evictions that load measurements have not fully seen yet, oldest first.

    `since` is when remembering began, None if nothing before it can matter: what was evicted
    shortly before a start is not known.
    """

    evictions: tuple[EvictionRecord, ...] = ()
    since: datetime | None = None

    def with_eviction(self, record: EvictionRecord) -> "Memory":
        """This memory with a further eviction."""
        return msgspec.structs.replace(self, evictions=(*self.evictions, record))

    def observed(self, pods: Iterable[Pod], now: datetime, horizon: timedelta) -> "Memory":
        """This memory after a look at all pods.

        A pod that is there without a deletion timestamp is not being evicted after all. A record
        is forgotten once its pod has been gone for the horizon, so that every window has seen it.
        """
        awaited = {record.pod.uid for record in self.evictions}
        present = {pod.uid: pod for pod in pods if pod.uid in awaited and not pod.finished}
        looked = (
            _after_look(record, present.get(record.pod.uid), now) for record in self.evictions
        )
        kept = [r for r in looked if r and (r.left_at is None or now - r.left_at < horizon)]
        return msgspec.structs.replace(self, evictions=tuple(kept))


def _after_look(record: EvictionRecord, pod: Pod | None, now: datetime) -> EvictionRecord | None:
    if pod is None:
        return record if record.left_at else msgspec.structs.replace(record, left_at=now)
    under_way = record.taken_over and now - record.evicted_at < TAKEN_OVER_PATIENCE
    return record if pod.deleting or under_way else None
