"""What the pods of a simulated workload have in common, and the ReplicaSet that makes them."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from desched.model.cluster import Owner, PodVolume, SchedulingClass, Workload
from desched.model.resources import Amounts
from desched.model.selectors import LabelSelector, Operator, Requirement
from desched.simulation.history import IDLE, Usage, UsageSeries

REVISION_LABEL = "pod-template-hash"
SCORED_CPU_MILLICORES = 100
SCORED_MEMORY_BYTES = 200 * 1024**2
"""What the scheduler scores a container with that requests nothing."""


class PodTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """What the pods of a workload have in common; `usage` is what each of them really uses.

    With `usage_by_replica` each replica has its own instead, and a pod takes over that of the one
    which it replaces.

    Pods have one container. Scored requests that are 0 follow from the others as in Kubernetes.
    """

    scheduling: SchedulingClass = SchedulingClass(Amounts(pods=1))
    usage: Usage = IDLE
    usage_by_replica: tuple[Usage | UsageSeries, ...] = ()
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    priority_class: str = ""
    scheduler: str = "default-scheduler"
    volumes: tuple[PodVolume, ...] = ()
    grace_period_seconds: int = 30

    def scored(self) -> "PodTemplate":
        """With the requests filled in that the scheduler scores by."""
        given, requests = self.scheduling, self.scheduling.requests
        cpu = given.scored_cpu_millicores or requests.cpu_millicores or SCORED_CPU_MILLICORES
        memory = given.scored_memory_bytes or requests.memory_bytes or SCORED_MEMORY_BYTES
        scheduling = replace(given, scored_cpu_millicores=cpu, scored_memory_bytes=memory)
        return replace(self, scheduling=scheduling)

    def of_revision(self, name: str) -> "PodTemplate":
        """With the label that tells the pods of one ReplicaSet from those of another."""
        return replace(self, labels={**self.labels, REVISION_LABEL: name})


@dataclass
class ReplicaSet:
    """A Deployment and its only revision."""

    owner: Owner
    workload: Workload
    template: PodTemplate

    @property
    def selector(self) -> LabelSelector:
        """The revision's own."""
        labels = sorted(self.template.labels.items())
        return LabelSelector(tuple(Requirement(k, Operator.IN, (v,)) for k, v in labels))
