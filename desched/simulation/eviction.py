"""The Eviction API of the simulated cluster, with the answers of the real one."""

from collections import deque

from desched.errors import StopActing
from desched.model.cluster import Pod, PodRef
from desched.model.plan import PlannedEviction
from desched.model.report import EvictionVerdict
from desched.ports import EvictionAnswer
from desched.simulation.budgets import SimulatedBudget
from desched.simulation.cluster import SimulatedCluster


class SimulatedEvictor:
    """The Evictor port.

    `script` holds answers to give before any real one, for what a healthy API does not do:
    throttling, a webhook that takes over, no answer at all. `announced` keeps the Events.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self.script: deque[EvictionAnswer | StopActing] = deque()
        self.announced: list[tuple[PlannedEviction, str]] = []

    def evict(self, pod: PodRef, reason: str) -> EvictionAnswer:  # noqa: ARG002  (part of the port)
        """Ask once for the eviction of exactly this pod."""
        if self.script:
            answer = self.script.popleft()
            if isinstance(answer, StopActing):
                raise answer
            return answer
        found = self._cluster.pod(pod)
        if found is None:
            return EvictionAnswer(EvictionVerdict.GONE, f'pods "{pod.name}" not found')
        return self._charge(found) or self._delete(pod, found)

    def announce(self, eviction: PlannedEviction, note: str) -> None:
        """Keep the Event."""
        self.announced.append((eviction, note))

    def _charge(self, pod: Pod) -> EvictionAnswer | None:
        """Spend the budget of the pod; an answer if that is refused."""
        if pod.deleting or pod.phase in {"Pending", "Succeeded", "Failed"}:
            return None  # nothing is lost, so no budget is asked
        budgets = self._cluster.budgets_of(pod)
        if len(budgets) > 1:
            return EvictionAnswer(
                EvictionVerdict.SEVERAL_BUDGETS,
                "This pod has more than one PodDisruptionBudget, "
                "which the eviction subresource does not support.",
            )
        return self._charge_budget(pod, budgets[0]) if budgets else None

    def _charge_budget(self, pod: Pod, budget: SimulatedBudget) -> EvictionAnswer | None:
        status = self._cluster.budget_status(budget)
        if not pod.ready and 0 < status.desired_healthy <= status.current_healthy:
            return None  # an unhealthy pod may go while enough healthy ones are there
        if status.disruptions_allowed == 0:
            return EvictionAnswer(
                EvictionVerdict.BLOCKED_BY_BUDGET,
                f"The disruption budget {budget.name} needs {status.desired_healthy} healthy pods "
                f"and has {status.current_healthy} currently",
            )
        budget.disrupted[pod.name] = self._cluster.clock.monotonic()
        return None

    def _delete(self, asked: PodRef, found: Pod) -> EvictionAnswer:
        # As in the real API, a wrong uid is noticed only after the budget has been charged.
        if asked.uid and asked.uid != found.uid:
            return EvictionAnswer(
                EvictionVerdict.REPLACED,
                f"Precondition failed: UID in precondition: {asked.uid}, "
                f"UID in object meta: {found.uid}",
            )
        self._cluster.delete_pod(found.namespace, found.name)
        return EvictionAnswer(EvictionVerdict.EVICTED)
