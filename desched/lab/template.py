"""The template of simulated pods."""

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec
from msgspec.structs import replace

from desched.lab.controllers import Replica
from desched.lab.history import IDLE, Usage, UsageSeries
from desched.model.cluster import Owner, Pod, PodVolume, SchedulingClass
from desched.model.resources import Amounts

REVISION_LABEL = "pod-template-hash"
SCORED_CPU_MILLICORES = 100
SCORED_MEMORY_BYTES = 200 * 1024**2
"""The requests with which the scheduler scores a container that has none."""
NEVER = datetime(1970, 1, 1, tzinfo=UTC)


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
    annotations: Mapping[str, str] = {}
    priority_class: str = ""
    scheduler: str = "default-scheduler"
    volumes: tuple[PodVolume, ...] = ()

    def prototype(self, namespace: str, owner: Owner | None, priority: int) -> Pod:
        """The pods of this template without a name; those of an owner have its revision label."""
        revision = {REVISION_LABEL: owner.uid} if owner else {}
        return Pod(
            namespace=namespace,
            name="",
            uid="",
            scheduling=scored(self.scheduling),
            created_at=NEVER,
            labels={**self.labels, **revision},
            annotations=self.annotations,
            owner=owner,
            priority=priority,
            scheduler=self.scheduler,
            volumes=self.volumes,
        )

    def replicas(self, count: int) -> list[Replica]:
        """This number of replicas with their usage."""
        own = self.usage_by_replica[:count]
        return [Replica(usage) for usage in (*own, *[self.usage] * (count - len(own)))]


def scored(given: SchedulingClass) -> SchedulingClass:
    """The scheduling class with all requests with which the scheduler scores."""
    requests = given.requests
    cpu = given.scored_cpu_millicores or requests.cpu_millicores or SCORED_CPU_MILLICORES
    memory = given.scored_memory_bytes or requests.memory_bytes or SCORED_MEMORY_BYTES
    return replace(given, scored_cpu_millicores=cpu, scored_memory_bytes=memory)
