"""A day of the trace in the simulated cluster: nodes, Deployments, what they request and use."""

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from benchmarks.placement import place
from benchmarks.trace import SAMPLES, SECONDS_PER_SAMPLE
from desched.model.cluster import SchedulingClass
from desched.model.resources import Amounts
from desched.simulation.history import Usage, UsageSeries
from desched.simulation.template import PodTemplate
from desched.simulation.world import Simulation

NODES = 100
PODS_PER_NODE = 16
SCALE = 3.0
NODE_CPU_MILLICORES = 32_000
NODE_MEMORY_BYTES = 128 * 2**30
REPLICAS = (4, 16)
MINUTES = SAMPLES * SECONDS_PER_SAMPLE // 60

Floats = NDArray[np.float64]
CAPACITY = np.array([NODE_CPU_MILLICORES, NODE_MEMORY_BYTES], dtype=float)
TARGET = np.array([0.80, 0.85])


class Regime(StrEnum):
    """What pods request."""

    FAIR = "fair requests"
    LOW = "low requests"


REQUEST_FACTORS = {Regime.FAIR: (0.5, 2.0), Regime.LOW: (0.1, 0.4)}
"""A workload requests its pods' median use times a factor drawn from this range."""


@dataclass(frozen=True)
class Workload:
    """A Deployment; `usage` has a series for each replica, `nodes` is where its pods begin."""

    name: str
    requests: Amounts
    usage: tuple[UsageSeries, ...]
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Day:
    """The same beginning for every contestant; `shares` is series x minute x (CPU, memory).

    Shares are of one node. `series` tells the row of each replica's usage.
    """

    nodes: int
    workloads: tuple[Workload, ...]
    shares: Floats
    series: dict[int, int]

    def begin(self) -> Simulation:
        """A fresh cluster at midnight."""
        simulation = Simulation(scheduler=place)
        for i in range(self.nodes):
            simulation.cluster.add_node(
                f"n{i:03}", cpu_millicores=NODE_CPU_MILLICORES, memory_bytes=NODE_MEMORY_BYTES
            )
        for workload in self.workloads:
            template = PodTemplate(
                scheduling=SchedulingClass(
                    workload.requests,
                    scored_cpu_millicores=workload.requests.cpu_millicores,
                    scored_memory_bytes=workload.requests.memory_bytes,
                ),
                usage_by_replica=workload.usage,
                labels={"app": workload.name},
            )
            simulation.cluster.add_deployment(
                "day", workload.name, len(workload.usage), template, nodes=workload.nodes
            )
        return simulation

    def node_load(self, simulation: Simulation) -> Floats:
        """What was really used: node x minute x (CPU, memory), as shares of the node."""
        load = np.zeros((self.nodes, MINUTES, 2))
        begins = np.arange(MINUTES) * 60.0
        for stay in simulation.cluster.history.stays():
            row = self.series.get(id(stay.usage))
            if row is None:
                continue  # the host itself, idle
            end = np.inf if stay.ended is None else stay.ended
            seconds = np.clip(np.minimum(end, begins + 60) - np.maximum(stay.began, begins), 0, 60)
            load[int(stay.node[1:])] += self.shares[row] * (seconds / 60)[:, None]
        return load


def a_day(
    trace: Floats, seed: int, regime: Regime, *, nodes: int = NODES, intensity: float = 1.0
) -> Day:
    """A cluster drawn from the trace, its pods placed by the scheduler in a random order.

    The series of a workload are neighbours in the trace: mostly machines of one job. `intensity`
    changes what pods use, not what they request nor where they begin.
    """
    chance = np.random.default_rng(seed)
    count = nodes * PODS_PER_NODE
    shares = trace[:count] * (SCALE / PODS_PER_NODE)
    usage = [_series(each * intensity) for each in shares]
    workloads = []
    for number, members in enumerate(_groups(count, chance)):
        of_group = shares[members]
        factor = chance.uniform(*REQUEST_FACTORS[regime])
        cpu, memory = np.median(of_group.reshape(-1, 2), axis=0) * factor * CAPACITY
        requests = Amounts(max(10, round(cpu)), max(2**20, round(memory)), pods=1)
        workloads.append(Workload(f"w{number:03}", requests, tuple(usage[i] for i in members)))
    chance.shuffle(workloads)
    per_minute = np.repeat(shares * intensity, SECONDS_PER_SAMPLE // 60, axis=1)
    day = Day(nodes, tuple(workloads), per_minute, {id(u): i for i, u in enumerate(usage)})
    return _placed(day)


def _series(shares: Floats) -> UsageSeries:
    return UsageSeries(SECONDS_PER_SAMPLE, [Usage(*map(float, row)) for row in shares * CAPACITY])


def _groups(count: int, chance: np.random.Generator) -> list[range]:
    groups, start = [], 0
    while start < count:
        size = int(chance.integers(REPLICAS[0], REPLICAS[1], endpoint=True))
        # What is left over would be too small for a group of its own.
        end = count if count - start - size < REPLICAS[0] else start + size
        groups.append(range(start, end))
        start = end
    return groups


def _placed(day: Day) -> Day:
    """With the scheduler's choice for every pod, so that it need not choose again."""
    found: dict[str, list[str]] = {}
    for pod in day.begin().cluster.read_cluster().pods:
        found.setdefault(pod.labels["app"], []).append(pod.node)
    return replace(
        day, workloads=tuple(replace(w, nodes=tuple(found[w.name])) for w in day.workloads)
    )
