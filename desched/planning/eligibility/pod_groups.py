"""Pods of a gang stay as long as it needs them; only its pods above the minimum may move."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from desched.model.cluster import GangKey, Pod
from desched.model.pod_groups import PodGroup
from desched.planning.eligibility.context import EligibilityContext, GangCount
from desched.planning.eligibility.terms import Why


def needed(pod: Pod, context: EligibilityContext) -> Why:
    """Pods that a gang needs: its minimum is not known, or no more of its pods are available."""
    for group in context.gangs_of(pod):
        found = group.stays or incomplete(group, context)
        minimum, available = context.gang_counts[group.key]
        if not found and available == minimum:
            found = f"{minimum} of {available} needed"
        if found:
            return f"{group}: {found}"
    return None


def incomplete(group: PodGroup, context: EligibilityContext) -> str:
    """Why not even all pods of the gang together may leave; empty if they may."""
    if str(group) in context.terms.moving_gangs:
        return "its move as a whole is not judged yet"
    topology = group.topology
    if topology is not None and (unclear := context.cluster.why_unclear(topology)):
        return unclear
    minimum, available = context.gang_counts[group.key]
    return f"{minimum} needed, {available} available" if available < minimum else ""


class Surplus(NamedTuple):
    """How many pods of a gang may go, and why no more."""

    key: GangKey
    most: int
    detail: str


def surpluses(groups: Iterable[PodGroup], counts: Mapping[GangKey, GangCount]) -> Iterator[Surplus]:
    """What each of these gangs can spare."""
    for group in groups:
        minimum, available = counts[group.key]
        most = max(0, available - minimum)
        yield Surplus(group.key, most, f"{group}: {minimum} needed, and this plan takes {most}")


def placed_together(pod: Pod, context: EligibilityContext) -> bool:
    """Whether the pod's scheduler places all pods of its gang or none."""
    return any(group.placed_together for group in context.gangs_of(pod))
