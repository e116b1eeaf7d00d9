"""ReplicaSets and other controllers of the simulated cluster: which pods they want."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from msgspec.structs import replace

from desched.model.cluster import ControllerKey, Owner, Pod, PodRef, Workload
from desched.model.selectors import LabelSelector, Operator, Requirement
from desched.simulation.history import Usage, UsageSeries
from desched.simulation.pod_table import PodTable


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
        self._selectors: Mapping[ControllerKey, LabelSelector] = {}
        self._touched: set[str] = set()

    def add(self, owner: Owner, prototype: Pod, workload: Workload | None) -> ReplicaSet:
        """The controller of an owner reference, new unless it exists."""
        if owner.uid not in self._sets:
            found = self._sets[owner.uid] = ReplicaSet(owner.uid, prototype, workload)
            key = prototype.namespace, owner.uid
            self._selectors = {**self._selectors, key: found.selector}
            if workload is not None:
                self._of_workload.setdefault(workload.uid, []).append(found)
        return self._sets[owner.uid]

    def of(self, owner: Owner) -> ReplicaSet:
        """The controller of an owner reference."""
        return self._sets[owner.uid]

    def touch(self, owner: Owner) -> None:
        """Let the status of the workload be computed again, because it or its pods changed."""
        self._touched.add(owner.uid)

    @property
    def selectors(self) -> Mapping[ControllerKey, LabelSelector]:
        """The selectors of all controllers."""
        return self._selectors

    @property
    def replicas(self) -> Mapping[str, int]:
        """How many pods each controller wants, by uid."""
        return {uid: len(found.replicas) for uid, found in self._sets.items()}

    def workloads(self, pods: PodTable) -> Mapping[ControllerKey, Workload]:
        """The workloads with their status, by the key of the controller."""
        if self._touched:
            # A new mapping: the one before belongs to earlier states of the cluster.
            self._status = {**self._status, **dict(self._changed(pods))}
            self._touched.clear()
        return self._status

    def _changed(self, pods: PodTable) -> Iterator[tuple[ControllerKey, Workload]]:
        workloads = (self._sets[uid].workload for uid in self._touched)
        for uid in {workload.uid for workload in workloads if workload is not None}:
            sets = self._of_workload[uid]
            found = (pod for each in sets for pod in pods.of_owner(each.uid))
            ready = sum(pod.ready and not pod.deleting for pod in found)
            desired = sum(len(each.replicas) for each in sets)
            rolling_out = sum(bool(each.replicas) for each in sets) > 1
            for each in sets:
                if each.workload is not None:
                    yield (
                        (each.workload.namespace, each.uid),
                        replace(
                            each.workload,
                            desired_replicas=desired,
                            ready_replicas=ready,
                            rolling_out=each.workload.rolling_out or rolling_out,
                        ),
                    )
