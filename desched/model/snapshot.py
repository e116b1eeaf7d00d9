"""The snapshot of the cluster and its load, and the fresh look at one pod."""

from collections.abc import Mapping
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
from desched.model.extras import Extras
from desched.model.load import ClusterLoad


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """The cluster and its load at one time; planning has no other data.

    The leads are the seconds by which desched's clock is at least ahead of the API server's and of
    Prometheus' clock, negative if it is behind.
    """

    cluster: ClusterState
    load: ClusterLoad
    taken_at: datetime
    cluster_lead_seconds: float = 0.0
    load_lead_seconds: float = 0.0


class Room(msgspec.Struct, frozen=True):
    """A node with all pods on it."""

    node: Node
    pods: tuple[Pod, ...]


class FreshPod(msgspec.Struct, frozen=True):
    """A pod just before its eviction, with its related objects.

    `node` is None if the pod has none, or if it is gone. `workload` is None if there is none, or if
    its kind is not understood; then `controller_owner` may name the owner of the pod's controller
    (see `ClusterState`). `budgets` are all budgets of the namespace. `room` is another node that
    was asked for, None if it is gone. `siblings` are the pods of the namespace if they decide about
    the pod, else those on its node if it may share claims, else empty. `extras` are the objects
    that plugins read again, by the name of the plugin. `owner_annotations` are those of a
    controller of a declared kind, None if they are not known. `too_large` is an object of its
    namespace that is too large to be kept, empty if all are known.
    """

    pod: Pod
    node: Node | None
    workload: Workload | None
    controller_owner: Owner | None
    budgets: tuple[PodDisruptionBudget, ...]
    room: Room | None = None
    siblings: tuple[Pod, ...] = ()
    owner_annotations: Mapping[str, str] | None = None
    too_large: str = ""
    extras: Extras = {}

    @property
    def charged(self) -> tuple[PodDisruptionBudget, ...]:
        """The budgets that cover the pod."""
        return tuple(budget for budget in self.budgets if budget.covers(self.pod))
