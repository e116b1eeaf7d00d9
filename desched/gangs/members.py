"""Which pods are in which gang, how many it needs, and how many are available.

`EligibilityContext.derived` computes the counts and the members once.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from desched.gangs.objects import DeclaredGroup, GangKey, GangObjects, GroupKey
from desched.gangs.pod_groups import PodGroup, groups_of
from desched.model.cluster import Pod
from desched.model.groups import grouped
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.controllers import VOLCANO_JOB, VOLCANO_JOB_KIND


class GangCount(NamedTuple):
    """How many pods a gang needs, and how many are available, without those in flight."""

    minimum: int = 0
    available: int = 0


def gangs_of(pod: Pod, context: EligibilityContext) -> Iterable[PodGroup]:
    """The gangs that the pod belongs to."""
    return groups_of(pod, context.cluster.workload_of(pod), context.derived(_declared_groups))


def _declared_groups(context: EligibilityContext) -> Mapping[GroupKey, DeclaredGroup]:
    """What objects say about groups; Volcano Jobs only if a plugin counts them."""
    declared = GangObjects.of(context.cluster.extras).by_key
    if any(VOLCANO_JOB_KIND in plugin.owner_kinds for plugin in context.policy.plugins):
        return declared
    return {key: group for key, group in declared.items() if key[0] != VOLCANO_JOB}


def gang_counts(context: EligibilityContext) -> Mapping[GangKey, GangCount]:
    """The largest minimum of each gang that any of its pods has, and its available pods."""
    leaving = {record.pod for record in context.state.in_flight}
    counts = defaultdict[GangKey, GangCount](GangCount)
    for pod, group in context.derived(_members):
        runs = pod.ready and pod.phase == "Running" and not pod.deleting
        available = counts[group.key].available + (runs and pod.ref not in leaving)
        counts[group.key] = GangCount(max(counts[group.key].minimum, group.minimum), available)
    return counts


def gang_members(context: EligibilityContext) -> Mapping[GangKey, Sequence[Pod]]:
    """The pods of each gang, available or not."""
    members = context.derived(_members)
    return grouped((group.key, pod) for pod, group in members if not pod.finished)


def _members(context: EligibilityContext) -> Sequence[tuple[Pod, PodGroup]]:
    """Each pod with each of its gangs once, also if several marks name the same one."""
    pods = context.cluster.pods
    return [(pod, group) for pod in pods for group in _once(gangs_of(pod, context))]


def _once(groups: Iterable[PodGroup]) -> Iterable[PodGroup]:
    """The groups, of each key the one with the largest minimum."""
    groups = tuple(groups)
    if len(groups) <= 1:
        return groups  # nearly always
    return {group.key: group for group in sorted(groups, key=lambda each: each.minimum)}.values()
