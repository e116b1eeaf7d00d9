"""Controllers of further kinds that a policy declares to replace an evicted pod by a new one."""

from msgspec.structs import replace

from desched.model.cluster import ClusterState, Owner, Pod, Workload

LONGEST_NAME = 253
"""Characters; a reference to a longer name or uid is to nothing that exists."""


def kind_of(owner: Owner) -> str:
    """Its group and kind as policies write them: `argoproj.io/Rollout`, or `Kind` of the core."""
    group, slash, _ = owner.api_version.rpartition("/")
    return f"{group}{slash}{owner.kind}"


def top_owner(pod: Pod, cluster: ClusterState) -> Owner | None:
    """The controller of the pod, or that controller's own where it is of another kind."""
    if pod.owner is None:
        return None
    return cluster.controller_owners.get(pod.owner.uid, pod.owner)


def with_declared_workloads(cluster: ClusterState, kinds: tuple[str, ...]) -> ClusterState:
    """The cluster with a workload for each controller of these kinds.

    How many replicas such a workload wants is not known, so that it is not `sized`. A Job is left
    out: what the eviction of one of its pods does to the whole cannot be declared away.
    """
    if not kinds:
        return cluster
    found: dict[str, Workload] = {}
    for pod in cluster.pods:
        owner = top_owner(pod, cluster)
        if pod.owner is None or owner is None or pod.owner.kind == "Job":
            continue
        if kind_of(owner) not in kinds or max(len(owner.name), len(owner.uid)) > LONGEST_NAME:
            continue
        known = found.get(pod.owner.uid) or cluster.workloads.get(pod.owner.uid)
        if known is None:
            known = Workload(owner.kind, pod.namespace, owner.name, owner.uid, 0, sized=False)
        if not known.sized and known.namespace == pod.namespace:
            count = known.desired_replicas + (not pod.finished)
            found[pod.owner.uid] = replace(known, desired_replicas=count)
    return replace(cluster, workloads={**cluster.workloads, **found})
