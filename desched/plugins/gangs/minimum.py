"""Pods of a gang stay as long as it needs them; only its pods above the minimum may move."""

from collections.abc import Iterator

from desched.gangs.members import gang_counts, gangs_of
from desched.gangs.pod_groups import PodGroup
from desched.model.cluster import Pod
from desched.model.plan import RefusalReason
from desched.network.objects import NetworkObjects
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.terms import Why
from desched.planning.selection.limits import LimitUse


def needed(pod: Pod, context: EligibilityContext) -> Why:
    """Pods that a gang needs: its minimum is not known, or no more of its pods are available."""
    for group in gangs_of(pod, context):
        reason = group.stays or incomplete(group, context)
        minimum, available = context.derived(gang_counts)[group.key]
        if not reason and available == minimum:
            reason = f"{minimum} of {available} needed"
        if reason:
            return f"{group}: {reason}"
    return None


def incomplete(group: PodGroup, context: EligibilityContext) -> str:
    """Why not even all pods of the gang together may leave; empty if they may."""
    if str(group) in context.derived(_moving):
        return "its move as a whole is not judged yet"
    network = NetworkObjects.of(context.cluster.extras)
    if group.topology is not None and (unclear := network.why_unclear(group.topology)):
        return unclear
    minimum, available = context.derived(gang_counts)[group.key]
    return f"{minimum} needed, {available} available" if available < minimum else ""


def surpluses(pod: Pod, context: EligibilityContext) -> Iterator[LimitUse]:
    """How many pods each gang of the pod can spare in a plan."""
    for group in gangs_of(pod, context):
        minimum, available = context.derived(gang_counts)[group.key]
        most = max(0, available - minimum)
        detail = f"{group}: {minimum} needed, and this plan takes {most}"
        key = ("gang", "/".join(group.key))
        yield LimitUse(key, most, RefusalReason.POD_GROUP, detail)


def _moving(context: EligibilityContext) -> frozenset[str]:
    """The gangs that moved whole and are not judged yet; empty text for other moves."""
    return frozenset(record.gang for record in context.state.in_flight)
