"""Pod groups, whose pods start, work or end together: the loss of one pod may stop all of them.

The size and the topology of a group are in objects that desched does not read, so it moves no pod
of a group.
"""

from desched.model.cluster import Pod
from desched.planning.eligibility.context import EligibilityContext, Why

GROUP_MARKS = (
    "gang.scheduling.koordinator.sh/name",
    "kueue.x-k8s.io/pod-group-name",
    "leaderworkerset.sigs.k8s.io/name",
    "scheduling.volcano.sh/group-name",
    "scheduling.x-k8s.io/pod-group",
    "volcano.sh/network-topology-mode",
)
"""Labels or annotations of pods in a group, with any value."""

VOLCANO_GROUP = "scheduling.k8s.io/group-name"
GENERATED_PREFIX = "podgroup-"
"""Volcano generates groups with this prefix for pods without one; these pods can run alone."""

LEAST_MEMBERS = "scheduling.volcano.sh/group-min-member"
"""The minimum number of running pods in a generated group; the default is 1."""


def grouped(pod: Pod, context: EligibilityContext) -> Why:
    """Pods of a group, by their labels, annotations or specification."""
    if pod.has_scheduling_group:
        return "by its specification"
    for key in GROUP_MARKS:
        value = pod.labels.get(key, pod.annotations.get(key))
        if value is not None:
            return f"{key}: {value}"
    group = pod.annotations.get(VOLCANO_GROUP, "")
    if group and not group.startswith(GENERATED_PREFIX):
        return f"{VOLCANO_GROUP}: {group}"
    workload = context.cluster.workload_of(pod)
    for annotations in (pod.annotations, workload.annotations if workload else {}):
        least = annotations.get(LEAST_MEMBERS, "1")
        if least.strip() not in {"0", "1"}:
            return f"{LEAST_MEMBERS}: {least}"
    return None
