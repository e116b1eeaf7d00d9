"""Assigns each evicted pod its replacement, for as long as the replacement lives."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from desched.model.cluster import ClusterState, Pod, PodRef, Workload
from desched.model.groups import grouped
from desched.model.state import EvictionRecord
from desched.planning.clocks import SEEMS_EARLIER


class Replicas(msgspec.Struct, frozen=True):
    """The workloads with an eviction in flight and their pods, oldest first, by the workload's uid.

    Pods that have finished or are being deleted are excluded.
    """

    workloads: Mapping[str, Workload]
    pods: Mapping[str, Sequence[Pod]]

    def ready(self, workload_uid: str) -> int:
        """The number of Ready pods of a workload."""
        return sum(pod.ready for pod in self.pods.get(workload_uid, ()))


def replicas_of(records: Iterable[EvictionRecord], cluster: ClusterState) -> Replicas:
    """Collect the replicas of the workloads of these evictions, in one pass over all pods."""
    awaited = {record.workload_uid for record in records}
    if not awaited:
        return Replicas({}, {})
    workloads = {w.uid: w for w in cluster.workloads.values() if w.uid in awaited}
    pods = grouped(
        (workload.uid, pod)
        for pod in cluster.pods
        if (workload := cluster.workload_of(pod)) is not None
        if workload.uid in awaited and not pod.finished and not pod.deleting
    )
    in_order = {uid: sorted(of, key=lambda p: (p.created_at, p.ref)) for uid, of in pods.items()}
    return Replicas(workloads, in_order)


def replacements(
    records: Sequence[EvictionRecord], replicas: Replicas
) -> Mapping[PodRef, Pod | None]:
    """Find the replacement of each eviction in flight, or None without one.

    The earliest eviction gets the earliest pod that was created after it. An assignment remains as
    long as the replacement lives; that of a settled eviction remains forever.
    """
    taken = {record.pod.uid for record in records}
    taken |= {r.replacement.uid for r in records if r.replacement and not r.in_flight}
    waiting = sorted((r for r in records if r.in_flight), key=lambda r: (r.evicted_at, r.pod))
    replacement_of: dict[PodRef, Pod | None] = {}
    for choose in (_known, _earliest):
        for record in waiting:
            if replacement_of.get(record.pod) is None:
                living = replicas.pods.get(record.workload_uid, ())
                chosen = choose(record, [pod for pod in living if pod.uid not in taken])
                replacement_of[record.pod] = chosen
                taken |= {chosen.uid} if chosen else set()
    return replacement_of


def _known(record: EvictionRecord, free: Iterable[Pod]) -> Pod | None:
    return next((pod for pod in free if pod.ref == record.replacement), None)


def _earliest(record: EvictionRecord, free: Iterable[Pod]) -> Pod | None:
    return next((pod for pod in free if _may_replace(pod, record)), None)


def _may_replace(pod: Pod, record: EvictionRecord) -> bool:
    if pod.owner is not None and pod.owner.kind == "StatefulSet" and pod.name != record.pod.name:
        return False
    return pod.created_at >= record.evicted_at - SEEMS_EARLIER
