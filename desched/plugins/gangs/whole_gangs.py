"""Gangs that may move whole, with `gangMode: Whole`: all their pods leave together, or none."""

import msgspec

from desched.gangs.members import gang_members, gangs_of
from desched.gangs.pod_groups import BUDGET_LEAST, SYSTEMS, PodGroup
from desched.model.cache import cached
from desched.model.cluster import Pod
from desched.model.plan import RefusalReason
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.rules import refuse
from desched.planning.eligibility.terms import Why
from desched.plugins.gangs.minimum import incomplete, needed

_SYSTEMS = frozenset(row.system for row in SYSTEMS if row.whole)
"""The systems of which gangs may move whole."""

LAST_RESORT = "moves whole only if nothing else relieves a node"


class WholeGang(msgspec.Struct, frozen=True, gc=False):
    """A gang with all its pods, by name."""

    group: PodGroup
    members: tuple[Pod, ...]

    def __str__(self) -> str:
        return str(self.group)


def kept(pod: Pod, context: EligibilityContext) -> Why:
    """Why the pod must not leave alone, and why its gang must not leave whole either."""
    alone = needed(pod, context)
    if not alone:
        return None
    gang = context.derived(WholeGangs).of(pod)
    reason = gang if isinstance(gang, str) else LAST_RESORT
    return f"{alone}; {reason}" if reason else alone


class WholeGangs:
    """Which gangs may leave their nodes whole, as far as the rules of eligibility decide."""

    def __init__(self, context: EligibilityContext) -> None:
        self._context = context

    def of(self, pod: Pod) -> WholeGang | str:
        """The gang with which a pod that does not move alone may leave, or why there is none.

        The reason is empty if it is the one that keeps the pod from moving alone.
        """
        groups = tuple(gangs_of(pod, self._context))
        if len({group.key for group in groups}) != 1 or groups[0].part:
            return "no pod of several gangs or parts moves with them"
        if groups[0].system not in _SYSTEMS:
            return f"no gang of {groups[0].system} moves whole"
        return self._judged(groups[0])

    @cached
    def _judged(self, gang: PodGroup) -> WholeGang | str:
        if gang.budget:
            return f"{BUDGET_LEAST}: {gang.budget} keeps it from moving whole"
        if not gang.whole or incomplete(gang, self._context):
            return ""
        members = sorted(
            self._context.derived(gang_members)[gang.key], key=lambda member: member.ref
        )
        for member in members:
            if reason := self._why_not(member, gang):
                return f"moves whole only with {member.ref}, which stays: {reason}"
        return WholeGang(gang, tuple(members))

    def _why_not(self, member: Pod, gang: PodGroup) -> str:
        """Why the pod stays although all others of its gang leave; empty if it leaves, too."""
        groups = tuple(gangs_of(member, self._context))
        if any(group.key != gang.key or not group.whole for group in groups):
            return RefusalReason.POD_GROUP.value
        beside, read = {RefusalReason.POD_GROUP}, self._context.book.has_read_of(member)
        if not read:
            beside.add(RefusalReason.USAGE_UNKNOWN)
        if finding := refuse(member, self._context, without=beside):
            return finding.reason.value
        return "" if read else "its usage was not read"
