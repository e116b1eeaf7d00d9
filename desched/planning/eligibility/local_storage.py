"""EmptyDirs on disk: which of a pod may not be lost, and how many pods they keep in place."""

from collections.abc import Sequence
from datetime import datetime

from desched.model.cluster import ClusterState, Pod, PodVolume, VolumeKind
from desched.planning.eligibility.annotations import eviction_annotations, may_lose
from desched.planning.plugins import Plugin

_NEVER_MOVED = frozenset({"DaemonSet", "Node"})


def disk_volumes(pod: Pod, plugins: Sequence[Plugin]) -> tuple[PodVolume, ...]:
    """Its emptyDirs on disk that may not be lost; who takes an eviction over moves them."""
    volumes = [v for v in pod.volumes if v.kind is VolumeKind.EMPTY_DIR and not v.in_memory]
    if not volumes or any(plugin.takes_over(pod) for plugin in plugins):
        return ()
    return tuple(volume for volume in volumes if not may_lose(pod, volume))


def kept_by_local_storage(
    cluster: ClusterState, now: datetime, plugins: Sequence[Plugin]
) -> tuple[Pod, ...]:
    """The pods that emptyDirs on disk keep in place if the policy protects these.

    Pods that no policy moves are none of them.
    """
    return tuple(
        pod
        for pod in cluster.pods
        if disk_volumes(pod, plugins)
        and not pod.finished
        and not (pod.owner is not None and pod.owner.kind in _NEVER_MOVED)
        and not eviction_annotations(pod, cluster.workload_of(pod), now).requests
    )
