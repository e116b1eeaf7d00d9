"""PodDisruptionBudgets with the disruption controller's arithmetic.

Source: k8s.io/kubernetes/pkg/controller/disruption, behaviour observed on a real control plane.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from desched.model.cluster import Pod
from desched.model.selectors import LabelSelector

FORGET_DISRUPTED_SECONDS = 120.0
"""How long an eviction that did not delete its pod is charged to the budget."""


class BudgetStatus(NamedTuple):
    """The status of a PodDisruptionBudget."""

    expected_pods: int
    desired_healthy: int
    current_healthy: int

    @property
    def disruptions_allowed(self) -> int:
        """The number of pods that may be evicted now."""
        if self.expected_pods == 0:
            return 0
        return max(0, self.current_healthy - self.desired_healthy)


def _share(amount: int | str, whole: int) -> int:
    """A number unchanged, a percentage of the whole rounded up."""
    if isinstance(amount, int):
        return amount
    return math.ceil(int(amount.removesuffix("%")) * whole / 100)


@dataclass
class SimulatedBudget:
    """A budget as its user wrote it: one of two numbers or percentages such as "50%".

    `disrupted` has the time of each charged eviction by the pod's name. While such a pod exists
    and does not terminate, it counts as unhealthy.
    """

    namespace: str
    name: str
    selector: LabelSelector
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    disrupted: dict[str, float] = field(default_factory=dict)

    def covers(self, pod: Pod) -> bool:
        """Whether an eviction of the pod is charged to this budget."""
        return pod.namespace == self.namespace and self.selector.matches(pod.labels)

    def status(
        self, pods: Iterable[Pod], replicas: Mapping[str, int], now_seconds: float
    ) -> BudgetStatus:
        """The current status.

        Args:
            pods: all pods of the cluster.
            replicas: desired replicas by the uid of the controller.
            now_seconds: the clock's monotonic time.
        """
        covered = [pod for pod in pods if self.covers(pod) and not pod.finished]
        healthy = sum(
            pod.ready and not pod.deleting and not self._is_charged(pod, now_seconds)
            for pod in covered
        )
        owners = {pod.owner.uid for pod in covered if pod.owner}
        scale = sum(replicas.get(uid, 0) for uid in owners)
        if self.max_unavailable is not None:
            return BudgetStatus(scale, max(0, scale - _share(self.max_unavailable, scale)), healthy)
        if isinstance(self.min_available, str):
            return BudgetStatus(scale, _share(self.min_available, scale), healthy)
        return BudgetStatus(len(covered), self.min_available or 0, healthy)

    def _is_charged(self, pod: Pod, now_seconds: float) -> bool:
        charged_at = self.disrupted.get(pod.name)
        return charged_at is not None and now_seconds - charged_at < FORGET_DISRUPTED_SECONDS
