"""The marks of pods that may need each other: these pods stay, unless a plugin knows better."""

from collections.abc import Mapping

from desched.model.cluster import Pod, Workload

SCHEDULING_GROUP = "spec.schedulingGroup"
"""Stands for the group that the specification of a pod names."""

GROUP_MARKS = frozenset(
    {
        SCHEDULING_GROUP,
        "determined",
        "gang.scheduling.koordinator.sh/name",
        "gpu-fraction",
        "gpu-fraction-num-devices",
        "gpu-memory",
        "jobset.sigs.k8s.io/jobset-name",
        "k8s.dstack.ai/project",
        "kueue.x-k8s.io/pod-group-name",
        "kueue.x-k8s.io/podset-preferred-topology",
        "kueue.x-k8s.io/podset-required-topology",
        "kueue.x-k8s.io/podset-slice-required-topology",
        "kueue.x-k8s.io/podset-slice-required-topology-constraints",
        "kueue.x-k8s.io/podset-unconstrained-topology",
        "leaderworkerset.sigs.k8s.io/name",
        "pod-group-name",
        "pod-group.scheduling.sigs.k8s.io",
        "pod-group.scheduling.sigs.k8s.io/name",
        "ray.io/cluster",
        "runai-gpu-group",
        "scheduling.k8s.io/group-name",
        "scheduling.volcano.sh/group-min-member",
        "scheduling.volcano.sh/group-name",
        "scheduling.x-k8s.io/pod-group",
        "skypilot-cluster",
        "skypilot-cluster-name",
        "training.kubeflow.org/job-name",
        "volcano.sh/job-name",
        "volcano.sh/network-topology-mode",
    }
)
"""Keys of labels and annotations alike."""

GROUP_PREFIXES = ("determined.ai/", "runtime.gpustack.ai/")
"""All keys that begin with these are marks, too."""


def group_mark(pod: Pod, workload: Workload | None) -> str:
    """A mark of the pod or its workload; empty if there is none, as for nearly all pods."""
    if pod.scheduling_group:
        return SCHEDULING_GROUP
    on_workload = workload.annotations if workload is not None else {}
    return _mark_in(pod.labels) or _mark_in(pod.annotations) or _mark_in(on_workload)


def _mark_in(values: Mapping[str, str]) -> str:
    if not values:
        return ""
    if not GROUP_MARKS.isdisjoint(values):
        return min(GROUP_MARKS.intersection(values))
    for key in values:  # a generator takes twice as long
        if key.startswith(GROUP_PREFIXES):
            return key
    return ""
