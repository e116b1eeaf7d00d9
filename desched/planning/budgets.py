"""How many evictions are left to this plan: the policy's limits and PodDisruptionBudgets."""

from collections import Counter

from desched.model.cluster import ClusterState, Pod
from desched.model.plan import RefusalReason
from desched.policy.policy import EvictionLimits


class Allowance:
    """Counts what the plan takes, so that no prefix of it can exceed a limit or a budget."""

    def __init__(self, limits: EvictionLimits, node_count: int, cluster: ClusterState) -> None:
        self._limits = limits
        self._total = limits.total_for(node_count)
        self._cluster = cluster
        self._taken: Counter[tuple[str, str]] = Counter()

    @property
    def exhausted(self) -> bool:
        """Whether no further eviction is allowed at all."""
        return self._taken["total", ""] >= self._total

    def copy(self) -> "Allowance":
        """A trial that can be thrown away."""
        trial = object.__new__(Allowance)
        trial.__dict__.update(self.__dict__)
        trial._taken = self._taken.copy()
        return trial

    def refuse(self, pod: Pod) -> tuple[RefusalReason, str] | None:
        """Why one more eviction of this pod is not allowed in this cycle, None if it is."""
        limits = self._limits
        for reason, key, limit in (
            (RefusalReason.LIMIT_TOTAL, ("total", ""), self._total),
            (RefusalReason.LIMIT_NODE, ("node", pod.node), limits.node),
            (RefusalReason.LIMIT_NAMESPACE, ("namespace", pod.namespace), limits.namespace),
            (RefusalReason.LIMIT_WORKLOAD, ("workload", self._workload(pod)), limits.workload),
        ):
            if limit is not None and self._taken[key] >= limit:
                return reason, f"{limit} per cycle"
        for budget in self._cluster.budgets_of(pod):
            if self._taken["budget", str(budget)] >= budget.disruptions_allowed:
                return RefusalReason.BUDGET_EXHAUSTED, f"{budget}, by this plan"
        return None

    def take(self, pod: Pod) -> None:
        """Count an eviction of the pod."""
        self._taken["total", ""] += 1
        self._taken["node", pod.node] += 1
        self._taken["namespace", pod.namespace] += 1
        self._taken["workload", self._workload(pod)] += 1
        for budget in self._cluster.budgets_of(pod):
            self._taken["budget", str(budget)] += 1

    def _workload(self, pod: Pod) -> str:
        workload = self._cluster.workload_of(pod)
        return workload.uid if workload else pod.uid
