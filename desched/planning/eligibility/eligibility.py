"""Whether a pod may leave its node, and how many replicas of its workload may."""

from collections import Counter
from collections.abc import Collection

from desched.model.cluster import Pod
from desched.model.plan import RefusalReason
from desched.planning.eligibility.availability import replicas_to_spare
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.rules import may_refuse_for, refuse, waits_for_moves
from desched.planning.eligibility.terms import Refused


class Eligibility:
    """The answers of the rules of eligibility for one plan."""

    def __init__(self, context: EligibilityContext) -> None:
        self.context = context

    def refuse(self, pod: Pod) -> Refused:
        """Return why the pod must not leave its node alone, None if it may."""
        return refuse(pod, self.context)

    def may_refuse_for(self, reasons: Collection[RefusalReason], pod: Pod) -> bool:
        """Whether one of these reasons keeps the pod, perhaps beside others that come first."""
        return may_refuse_for(reasons, pod, self.context)

    def waits_for_moves(self, pod: Pod) -> bool:
        """Whether only moves of its workload that are under way may keep the pod."""
        return waits_for_moves(pod, self.context)

    def workload(self, pod: Pod) -> str:
        """The name of the pod's workload, as in the state."""
        return str(self.context.cluster.workload_of(pod))

    def replicas_to_spare(self, pod: Pod) -> int | None:
        """How many replicas the pod's workload can spare at a time, None if nothing limits them."""
        return replicas_to_spare(pod, self.context)

    def spare(self, pod: Pod) -> int:
        """How many replicas the pod's workload can spare, by its budget if it has one."""
        if budgets := self.context.cluster.budgets_of(pod):
            return min(budget.disruptions_allowed for budget in budgets)
        return self.replicas_to_spare(pod) or 0

    @property
    def moved_within_hour(self) -> Counter[str]:
        """The evictions in flight and those of the last hour, by the workload's uid."""
        return self.context.terms.moved_within_hour
