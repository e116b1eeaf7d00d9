"""Pods of a gang stay as long as it needs them; what runs above its minimum may move."""

from collections.abc import Iterator

from desched.model.cluster import Pod
from desched.model.pod_groups import PodGroup, groups_of
from desched.planning.eligibility.context import EligibilityContext, Why


def needed(pod: Pod, context: EligibilityContext) -> Why:
    """Pods that a gang needs: its minimum is not known, or no more of its pods are available."""
    for group in groups_of(pod, context.cluster.workload_of(pod)):
        if group.stays:
            return f"{group}: {group.stays}"
        available = context.available_members[group.key]
        if available < group.minimum:
            return f"{group}: {group.minimum} needed, {available} available"
        if available == group.minimum:
            return f"{group}: {group.minimum} of {available} needed"
    return None


def surpluses(pod: Pod, context: EligibilityContext) -> Iterator[tuple[PodGroup, int]]:
    """The gangs of a pod that may move, with how many of their pods they can spare."""
    for group in groups_of(pod, context.cluster.workload_of(pod)):
        yield group, max(0, context.available_members[group.key] - group.minimum)


def placed_together(pod: Pod, context: EligibilityContext) -> bool:
    """Whether the pod's scheduler places all pods of its gang or none."""
    groups = groups_of(pod, context.cluster.workload_of(pod))
    return any(group.placed_together for group in groups)
