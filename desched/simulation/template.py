"""The template of simulated pods, and the ReplicaSet that creates pods from it."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from desched.model.cluster import PodVolume, SchedulingClass, Workload
from desched.model.resources import Amounts
from desched.model.selectors import LabelSelector, Operator, Requirement
from desched.simulation.history import IDLE, Usage, UsageSeries

REVISION_LABEL = "pod-template-hash"
SCORED_CPU_MILLICORES = 100
SCORED_MEMORY_BYTES = 200 * 1024**2
"""The requests with which the scheduler scores a container that has none."""


class PodTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """What the pods of a workload have in common; `usage` is what each pod really uses.

    With `usage_by_replica`, each replica has its own usage; a replacement takes over the usage of
    the pod that it replaces. Pods have one container. Scored requests of 0 are filled in as in
    Kubernetes.
    """

    scheduling: SchedulingClass = SchedulingClass(Amounts(pods=1))
    usage: Usage = IDLE
    usage_by_replica: tuple[Usage | UsageSeries, ...] = ()
    labels: Mapping[str, str] = {}
    priority_class: str = ""
    scheduler: str = "default-scheduler"
    volumes: tuple[PodVolume, ...] = ()

    def scored(self) -> "PodTemplate":
        """The template with all requests with which the scheduler scores."""
        given, requests = self.scheduling, self.scheduling.requests
        cpu = given.scored_cpu_millicores or requests.cpu_millicores or SCORED_CPU_MILLICORES
        memory = given.scored_memory_bytes or requests.memory_bytes or SCORED_MEMORY_BYTES
        scheduling = replace(given, scored_cpu_millicores=cpu, scored_memory_bytes=memory)
        return replace(self, scheduling=scheduling)

    def of_revision(self, name: str) -> "PodTemplate":
        """The template with the label that only the pods of one ReplicaSet have."""
        return replace(self, labels={**self.labels, REVISION_LABEL: name})


@dataclass
class ReplicaSet:
    """A Deployment and its only revision."""

    workload: Workload
    template: PodTemplate

    @property
    def selector(self) -> LabelSelector:
        """The selector of the revision."""
        labels = sorted(self.template.labels.items())
        return LabelSelector(tuple(Requirement(k, Operator.IN, (v,)) for k, v in labels))
