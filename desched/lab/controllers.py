"""ReplicaSets and other controllers of the simulated cluster: which pods they want."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from msgspec.structs import replace

from desched.lab.history import Usage, UsageSeries
from desched.lab.pod_table import PodTable
from desched.model.cluster import ControllerKey, Owner, Pod, PodRef, Workload
from desched.model.selectors import LabelSelector, Operator, Requirement


@dataclass(eq=False)
class Replica:
    """A pod and all its replacements, one after the other: they have the same usage.

    `name` is that of the first pod if it was not created here; `pods` has all of them.
    """

    usage: Usage | UsageSeries
    name: str = ""
    pods: list[PodRef] = field(default_factory=list)


@dataclass(eq=False)
class ReplicaSet:
    """A controller and what its pods have in common.

    `workload` is its Deployment, or itself; None if its kind is not understood.
    """

    uid: str
    prototype: Pod
    workload: Workload | None
    replicas: list[Replica] = field(default_factory=list)

    @cached_property
    def selector(self) -> LabelSelector:
        """The selector of the revision."""
        labels = sorted(self.prototype.labels.items())
        return LabelSelector(tuple(Requirement(k, Operator.IN, (v,)) for k, v in labels))


class Controllers:
    """All controllers by uid, and the status of their workloads."""

    def __init__(self) -> None:
        self._sets: dict[str, ReplicaSet] = {}
        self._of_workload: dict[str, list[ReplicaSet]] = {}
        self._status: Mapping[ControllerKey, Workload] = {}
        self._selectors: Mapping[ControllerKey, LabelSelector] | None = None
        self._touched: set[str] = set()

    def add(self, owner: Owner, prototype: Pod, workload: Workload | None) -> ReplicaSet:
        """The controller of an owner reference, new unless it exists."""
        if owner.uid not in self._sets:
            replica_set = self._sets[owner.uid] = ReplicaSet(owner.uid, prototype, workload)
            self._selectors = None
            if workload is not None:
                self._of_workload.setdefault(workload.uid, []).append(replica_set)
        return self._sets[owner.uid]

    def find(self, owner: Owner) -> ReplicaSet | None:
        """The controller of an owner reference, None if it is gone."""
        return self._sets.get(owner.uid)

    def of_workload(self, namespace: str, name: str) -> list[ReplicaSet]:
        """The revisions of a Deployment, the newest last."""
        pairs = ((replica_set, replica_set.workload) for replica_set in self._sets.values())
        return [
            replica_set
            for replica_set, w in pairs
            if w and (w.namespace, w.name) == (namespace, name)
        ]

    def touch(self, owner: Owner) -> None:
        """Let the status of the workload be computed again, because it or its pods changed."""
        self._touched.add(owner.uid)

    @property
    def selectors(self) -> Mapping[ControllerKey, LabelSelector]:
        """The selectors of all controllers."""
        if self._selectors is None:
            sets = self._sets.items()
            self._selectors = {(rs.prototype.namespace, uid): rs.selector for uid, rs in sets}
        return self._selectors

    @property
    def replicas(self) -> Mapping[str, int]:
        """How many pods each controller wants, by uid."""
        return {uid: len(replica_set.replicas) for uid, replica_set in self._sets.items()}

    def workloads(self, pods: PodTable) -> Mapping[ControllerKey, Workload]:
        """The workloads with their status, by the key of the controller."""
        if self._touched:
            # A new mapping: the one before belongs to earlier states of the cluster.
            status = {**self._status, **dict(self._changed(pods))}
            self._status = {
                key: workload for key, workload in status.items() if key[1] in self._sets
            }
            self._touched.clear()
        return self._status

    def remove_idle(self, owner: Owner, pods: PodTable) -> None:
        """Remove a controller that wants no pods and has none, such as a Job that is over."""
        replica_set = self._sets.get(owner.uid)
        if replica_set is None or replica_set.replicas or pods.of_owner(owner.uid):
            return
        del self._sets[owner.uid]
        self._selectors = None
        if replica_set.workload is not None:
            others = self._of_workload[replica_set.workload.uid]
            others.remove(replica_set)
            self._touched.update(other.uid for other in others)

    def _changed(self, pods: PodTable) -> Iterator[tuple[ControllerKey, Workload]]:
        workloads = (self._sets[uid].workload for uid in self._touched if uid in self._sets)
        for uid in {workload.uid for workload in workloads if workload is not None}:
            sets = self._of_workload[uid]
            pods_of_sets = (pod for replica_set in sets for pod in pods.of_owner(replica_set.uid))
            ready = sum(pod.ready and not pod.deleting for pod in pods_of_sets)
            desired = sum(len(replica_set.replicas) for replica_set in sets)
            rolling_out = sum(bool(replica_set.replicas) for replica_set in sets) > 1
            for replica_set in sets:
                if replica_set.workload is not None:
                    yield (
                        (replica_set.workload.namespace, replica_set.uid),
                        replace(
                            replica_set.workload,
                            desired_replicas=desired,
                            ready_replicas=ready,
                            rolling_out=replica_set.workload.rolling_out or rolling_out,
                        ),
                    )
