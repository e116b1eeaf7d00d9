"""What happens to a cluster in a day besides load: rollouts, autoscaling, Jobs, nodes that go.

Every event is drawn before the day begins, so that all contestants meet the same ones. Autoscalers,
too, follow the load of the trace, which is the same wherever the pods are.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from msgspec.structs import replace

from desched.lab.closed_loop import Deployment
from desched.lab.cluster import STARTUP_SECONDS
from desched.lab.controllers import Replica, ReplicaSet
from desched.lab.history import Floats, Usage, UsageSeries
from desched.lab.template import PodTemplate
from desched.lab.world import Simulation
from desched.model.cluster import Owner, PodRef, SchedulingClass
from desched.model.resources import Amounts

JOB_MEMORY_BYTES = 2**30

ROLLOUT_SHARE, ROLLOUT_STEP_SECONDS = 0.25, 30.0
"""A rollout replaces so many pods at a time."""

SCALE_TOLERANCE, LEAST_REPLICAS, MOST_GROWTH = 0.1, 2, 4
"""As of a HorizontalPodAutoscaler: the tolerance is Kubernetes' default."""
SCALE_DOWN_SAMPLES = 2
"""Of the numbers of replicas in the last samples, the highest counts."""


@dataclass(frozen=True)
class BarePod:
    """A pod without a controller."""

    name: str
    template: PodTemplate
    node: str

    def __call__(self, simulation: Simulation) -> None:
        """Add the pod at once."""
        simulation.cluster.add_pod("default", self.name, self.template, self.node)


@dataclass(frozen=True)
class CronJob:
    """A Job at the same minute of every hour, each with one pod.

    An evicted pod is replaced; the Job ends at the same time nevertheless.
    """

    name: str
    requested_millicores: int
    used_millicores: float
    minutes: int
    hours: range
    at_minute: int = 0

    def __call__(self, simulation: Simulation) -> None:
        """Begin a Job one second after its minute of each hour."""
        for hour in self.hours:
            at = hour * 3600.0 + self.at_minute * 60 + 1
            simulation.clock.call_later(at, partial(self._run, simulation, hour))

    def _run(self, simulation: Simulation, hour: int) -> None:
        name = f"{self.name}-{hour}"
        owner = Owner("Job", name, f"job {name}", "batch/v1")
        requests = Amounts(self.requested_millicores, JOB_MEMORY_BYTES, pods=1)
        template = PodTemplate(scheduling=SchedulingClass(requests), labels={"app": self.name})
        pod = replace(
            template.prototype("default", owner, 0),
            name=name,
            uid=f"pod of {name}",
            created_at=simulation.clock.now(),
        )
        replica = Replica(Usage(self.used_millicores, JOB_MEMORY_BYTES))
        simulation.cluster.adopt_pod(pod, replica)
        simulation.clock.call_later(
            self.minutes * 60.0, lambda: simulation.cluster.end_replica(owner, replica)
        )


@dataclass(frozen=True)
class Rollout:
    """A Deployment gets a new revision: new pods replace the old ones, a part at a time."""

    at: float
    namespace: str
    deployment: str

    def __call__(self, simulation: Simulation) -> None:
        """Begin the rollout at its time."""
        simulation.clock.call_later(self.at, lambda: self._begin(simulation))

    def _begin(self, simulation: Simulation) -> None:
        old = [each for each in self._revisions(simulation) if each.replicas]
        simulation.cluster.add_revision(old[-1])
        step = math.ceil(ROLLOUT_SHARE * sum(len(each.replicas) for each in old))
        self._step(simulation, step)

    def _revisions(self, simulation: Simulation) -> Sequence[ReplicaSet]:
        return simulation.cluster.revisions_of(self.namespace, self.deployment)

    def _step(self, simulation: Simulation, count: int) -> None:
        """Replacements begin before the old pods end."""
        cluster, clock = simulation.cluster, simulation.clock
        *old, new = self._revisions(simulation)
        left = [(replica, each) for each in old for replica in each.replicas]
        replaced: list[PodRef] = []
        for replica, before in left[:count]:
            replaced += cluster.hand_over(replica, before, new)
        clock.call_later(STARTUP_SECONDS, lambda: _delete(simulation, replaced))
        if len(left) > count:
            clock.call_later(ROLLOUT_STEP_SECONDS, lambda: self._step(simulation, count))


def _delete(simulation: Simulation, pods: Sequence[PodRef]) -> None:
    for ref in pods:
        found = simulation.cluster.pod(ref)
        if found is not None and found.uid == ref.uid:
            simulation.cluster.delete_pod(ref.namespace, ref.name)


@dataclass(frozen=True)
class Autoscaling:
    """A Deployment whose number of replicas changes; all of them have the same usage."""

    namespace: str
    deployment: str
    usage: UsageSeries
    replicas: Sequence[int]
    """In each level of the usage."""

    def __call__(self, simulation: Simulation) -> None:
        """Put each change on the clock."""
        seconds = self.usage.bank.step_seconds
        for sample in range(1, len(self.replicas)):
            if self.replicas[sample] != self.replicas[sample - 1]:
                change = partial(self._scale, simulation, self.replicas[sample])
                simulation.clock.call_later(sample * seconds, change)

    def _scale(self, simulation: Simulation, wanted: int) -> None:
        cluster = simulation.cluster
        revisions = cluster.revisions_of(self.namespace, self.deployment)
        present = sum(len(each.replicas) for each in revisions)
        if wanted > present:
            new = [Replica(self.usage) for _ in range(wanted - present)]
            cluster.add_replicas(revisions[-1], new)
        newest_first = [(r, each) for each in reversed(revisions) for r in reversed(each.replicas)]
        for replica, revision in newest_first[: max(0, present - wanted)]:
            cluster.retire(replica, revision)


def autoscaled(deployment: Deployment, step_seconds: float) -> tuple[Deployment, Autoscaling]:
    """The Deployment with as many replicas as keep the CPU of each near its mean.

    Together they use as much CPU as before, at any time. The memory of a replica is the mean.
    """
    series = np.stack([each.amounts for each in _series(deployment)])
    total = series[:, :, 0].sum(axis=0)
    replicas = replicas_for(total, total.mean() / len(series), MOST_GROWTH * len(series))
    own = series.mean(axis=0)
    own[:, 0] = total / replicas
    usage = UsageSeries(step_seconds, own)
    template = replace(deployment.template, usage_by_replica=(usage,) * replicas[0])
    found = Deployment(deployment.name, template, namespace=deployment.namespace)
    return found, Autoscaling(deployment.namespace, deployment.name, usage, replicas)


def replicas_for(total: Floats, target: float, most: int) -> list[int]:
    """How many replicas there are in each sample: they follow the usage of the sample before.

    `target` is what each should use.
    """
    wanted = [_within(total[0] / target, most)]
    found = [wanted[0]]
    for before in total[:-1]:
        ratio = before / found[-1] / target
        follows = abs(ratio - 1) > SCALE_TOLERANCE
        wanted.append(_within(before / target, most) if follows else found[-1])
        found.append(max(wanted[-SCALE_DOWN_SAMPLES:]))
    return found


def _within(replicas: float, most: int) -> int:
    return min(most, max(LEAST_REPLICAS, math.ceil(replicas)))


def _series(deployment: Deployment) -> list[UsageSeries]:
    return [u for u in deployment.template.usage_by_replica if isinstance(u, UsageSeries)]


@dataclass(frozen=True)
class NodeLoss:
    """A node is gone at once, with its pods."""

    at: float
    node: str

    def __call__(self, simulation: Simulation) -> None:
        """Remove the node at its time."""
        simulation.clock.call_later(self.at, lambda: simulation.cluster.remove_node(self.node))


@dataclass(frozen=True)
class NodeArrival:
    """A new, empty node."""

    at: float
    node: str
    size: Amounts

    def __call__(self, simulation: Simulation) -> None:
        """Add the node at its time."""
        simulation.clock.call_later(self.at, lambda: self._add(simulation))

    def _add(self, simulation: Simulation) -> None:
        cpu, memory = self.size.cpu_millicores, self.size.memory_bytes
        simulation.cluster.add_node(self.node, cpu_millicores=cpu, memory_bytes=memory)


@dataclass(frozen=True)
class Drain:
    """Somebody cordons a node, evicts all its pods, and uncordons it later."""

    at: float
    node: str
    minutes: int

    def __call__(self, simulation: Simulation) -> None:
        """Put both on the clock."""
        clock, cluster = simulation.clock, simulation.cluster
        end = self.at + self.minutes * 60
        clock.call_later(self.at, lambda: self._drain(simulation))
        clock.call_later(end, lambda: cluster.change_node(self.node, unschedulable=False))

    def _drain(self, simulation: Simulation) -> None:
        cluster = simulation.cluster
        cluster.change_node(self.node, unschedulable=True)
        for pod in cluster.read_cluster().pods_by_node[self.node]:
            simulation.evictor.evict(pod.ref, "drain")


@dataclass(frozen=True)
class Restart:
    """The container of a pod starts again; its usage has what the start needs."""

    at: float
    namespace: str
    deployment: str
    replica: int

    def __call__(self, simulation: Simulation) -> None:
        """Restart the pod at its time."""
        simulation.clock.call_later(self.at, lambda: self._restart(simulation))

    def _restart(self, simulation: Simulation) -> None:
        cluster = simulation.cluster
        revisions = cluster.revisions_of(self.namespace, self.deployment)
        replicas = [replica for each in revisions for replica in each.replicas]
        if self.replica < len(replicas):
            cluster.restart_pod(replicas[self.replica].pods[-1])
