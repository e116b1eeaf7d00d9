"""Controllers of other kinds; the policy declares that they replace evicted pods."""

from msgspec.structs import replace

from desched.model.cluster import ClusterState, Owner, Pod, Workload

LONGEST_NAME = 253
"""Kubernetes allows no longer names, so no object with a longer name or uid exists."""


def kind_of(owner: Owner) -> str:
    """The group and kind as in policies, such as `argoproj.io/Rollout`; core has no group."""
    group, slash, _ = owner.api_version.rpartition("/")
    return f"{group}{slash}{owner.kind}"


def top_owner(pod: Pod, cluster: ClusterState) -> Owner | None:
    """The controller of the pod, or the owner of that controller if its kind is not understood."""
    if pod.owner is None:
        return None
    return cluster.controller_owners.get(pod.owner.uid, pod.owner)


def with_declared_workloads(cluster: ClusterState, kinds: tuple[str, ...]) -> ClusterState:
    """Add a workload to the cluster for each controller of these kinds.

    The desired number of replicas is not known, so the workload is not `sized`. Pods of Jobs are
    excluded: an eviction may fail the whole Job, whatever the policy declares.
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
