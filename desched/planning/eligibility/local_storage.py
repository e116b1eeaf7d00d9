"""EmptyDirs on disk: which of a pod may not be lost, and how many pods they keep in place."""

from datetime import datetime

from desched.model.cluster import ClusterState, Pod, PodVolume, VolumeKind
from desched.planning.eligibility.annotations import eviction_annotations, may_lose
from desched.planning.eligibility.virtual_machines import is_taken_over

_NEVER_MOVED = frozenset({"DaemonSet", "Node"})


def disk_volumes(pod: Pod) -> tuple[PodVolume, ...]:
    """Its emptyDirs on disk that may not be lost; KubeVirt moves what a virtual machine keeps."""
    found = [v for v in pod.volumes if v.kind is VolumeKind.EMPTY_DIR and not v.in_memory]
    if not found or is_taken_over(pod):
        return ()
    return tuple(volume for volume in found if not may_lose(pod, volume))


def kept_by_local_storage(cluster: ClusterState, now: datetime) -> tuple[Pod, ...]:
    """The pods that emptyDirs on disk keep in place if the policy protects these.

    Pods that no policy moves are none of them.
    """
    return tuple(
        pod
        for pod in cluster.pods
        if disk_volumes(pod)
        and not pod.finished
        and not (pod.owner is not None and pod.owner.kind in _NEVER_MOVED)
        and not eviction_annotations(pod, cluster.workload_of(pod), now).requests
    )
