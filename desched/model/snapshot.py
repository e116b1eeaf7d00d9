"""What one cycle saw."""

from datetime import datetime

import msgspec

from desched.model.cluster import (
    ClusterState,
    Node,
    Owner,
    Pod,
    PodDisruptionBudget,
    Workload,
)
from desched.model.load import ClusterLoad


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """The cluster and its load at one time; all that planning knows of the world.

    The leads say by how many seconds, as far as that is certain, desched's clock is ahead of the
    API server's and of Prometheus'; they are negative if it is behind.
    """

    cluster: ClusterState
    load: ClusterLoad
    taken_at: datetime
    cluster_lead_seconds: float = 0.0
    load_lead_seconds: float = 0.0


class FreshLook(msgspec.Struct, frozen=True):
    """A pod as it is just before its eviction, with what decides on it.

    `node` is None if the pod has none or it is gone. `workload` is None if there is none, or its
    kind is not understood; then `controller_owner` may name the owner of the pod's controller, as
    `ClusterState.controller_owners` does. `budgets` are all those of its namespace.
    """

    pod: Pod
    node: Node | None
    workload: Workload | None
    controller_owner: Owner | None
    budgets: tuple[PodDisruptionBudget, ...]

    @property
    def charged(self) -> tuple[PodDisruptionBudget, ...]:
        """The budgets that an eviction of the pod is charged to."""
        return tuple(budget for budget in self.budgets if budget.covers(self.pod))
