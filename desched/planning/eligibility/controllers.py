"""Controllers of other kinds; the policy declares that they replace evicted pods."""

from msgspec.structs import replace

from desched.model.cluster import ClusterState, ControllerKey, Owner, Pod, Workload

VOLCANO_JOB = "Volcano Job"
"""Jobs of Volcano as a kind of workload; what they say counts only if the policy lets pods move."""

VOLCANO_JOB_KIND = "batch.volcano.sh/Job"

LONGEST_NAME = 253
"""Kubernetes allows no longer names, so no object with a longer name or uid exists."""


def declared_uid(pod: Pod, owner: Owner) -> str:
    """The uid of a declared workload, with the namespace: nobody has checked the owner's uid."""
    return f"{pod.namespace}/{owner.uid}"


def with_declared_workloads(cluster: ClusterState, kinds: tuple[str, ...]) -> ClusterState:
    """Add a workload to the cluster for each controller of these kinds.

    The desired number of replicas is not known, so the workload is not `sized`; only its
    annotations are read. Pods of Jobs are excluded, except those of Volcano: an eviction may fail
    the whole Job, whatever the policy declares.
    """
    if not kinds:
        return cluster
    declared: dict[ControllerKey, Workload] = {}
    for pod in cluster.pods:
        owner = cluster.top_owner(pod)
        if pod.owner is None or owner is None:
            continue
        of_volcano = pod.owner.declared_kind == VOLCANO_JOB_KIND
        if pod.owner.kind == "Job" and not of_volcano:
            continue
        if owner.declared_kind not in kinds or max(len(owner.name), len(owner.uid)) > LONGEST_NAME:
            continue
        key = (pod.namespace, pod.owner.uid)
        workload = declared.get(key) or cluster.workloads.get(key)
        if workload is None:
            uid = declared_uid(pod, owner)
            annotations = cluster.owner_annotations(pod.namespace, owner)
            workload = Workload(
                VOLCANO_JOB if of_volcano else owner.kind,
                *(pod.namespace, owner.name, uid, 0, annotations or {}),
                requests_unknown=_requests_unknown(pod, owner, cluster),
                sized=False,
                annotations_unknown=_why_unknown(owner, cluster) if annotations is None else "",
            )
        if not workload.sized:
            count = workload.desired_replicas + (not pod.finished)
            declared[key] = replace(workload, desired_replicas=count)
    return replace(cluster, workloads={**cluster.workloads, **declared})


def _requests_unknown(pod: Pod, owner: Owner, cluster: ClusterState) -> str:
    """Why it is not known what the pod's replacement will request, empty if it is."""
    for each in (pod.owner, owner):
        if each is not None and (each.kind, pod.namespace, each.name) in cluster.sized_owners:
            return f"a VerticalPodAutoscaler sizes the pods of {each.kind} {each.name}"
    return ""


def _why_unknown(owner: Owner, cluster: ClusterState) -> str:
    """Why the annotations of the owner are not known."""
    return cluster.unread_kinds.get(owner.declared_kind, "no object with its uid was read")
