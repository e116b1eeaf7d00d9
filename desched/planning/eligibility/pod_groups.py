"""Pods that are placed, work or end together: the loss of one may stop all of its group.

How many pods a group needs, and how near to each other, stands in objects that desched does not
read; so none of them is moved.
"""

from desched.model.cluster import Pod
from desched.model.plan import Finding, RefusalReason
from desched.planning.eligibility.context import EligibilityContext, Refused

GROUP_MARKS = (
    "gang.scheduling.koordinator.sh/name",
    "kueue.x-k8s.io/pod-group-name",
    "leaderworkerset.sigs.k8s.io/name",
    "scheduling.volcano.sh/group-name",
    "scheduling.x-k8s.io/pod-group",
    "volcano.sh/network-topology-mode",
)
"""Labels or annotations of pods in a group, whatever their value."""

VOLCANO_GROUP = "scheduling.k8s.io/group-name"
GENERATED_PREFIX = "podgroup-"
"""So Volcano names the groups that it makes for pods without one; each pod can run alone."""

LEAST_MEMBERS = "scheduling.volcano.sh/group-min-member"
"""On a workload: how many pods of such a group have to run, 1 unless this says otherwise."""


def grouped(pod: Pod, context: EligibilityContext) -> Refused:
    """Members of a group, by what their labels, annotations or specification say."""
    if pod.has_scheduling_group:
        return Finding(RefusalReason.POD_GROUP, "by its specification")
    for key in GROUP_MARKS:
        value = pod.labels.get(key, pod.annotations.get(key))
        if value is not None:
            return Finding(RefusalReason.POD_GROUP, f"{key}: {value}")
    group = pod.annotations.get(VOLCANO_GROUP, "")
    if group and not group.startswith(GENERATED_PREFIX):
        return Finding(RefusalReason.POD_GROUP, f"{VOLCANO_GROUP}: {group}")
    workload = context.cluster.workload_of(pod)
    for annotations in (pod.annotations, workload.annotations if workload else {}):
        least = annotations.get(LEAST_MEMBERS, "1")
        if least.strip() not in {"0", "1"}:
            return Finding(RefusalReason.POD_GROUP, f"{LEAST_MEMBERS}: {least}")
    return None
