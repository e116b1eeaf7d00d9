"""A day of the trace in the simulated cluster: nodes, and Deployments with requests and usage."""

import math
from dataclasses import replace
from enum import StrEnum

import numpy as np

from benchmarks.trace import SECONDS_PER_SAMPLE
from desched.model.cluster import SchedulingClass
from desched.model.resources import Amounts
from desched.simulation.closed_loop import Day, Deployment
from desched.simulation.history import Floats, UsageSeries
from desched.simulation.template import PodTemplate

NODES = 100
PODS_PER_NODE = 16
SCALE = 3.0
NODE = Amounts(cpu_millicores=32_000, memory_bytes=128 * 2**30)
CAPACITY = np.array([NODE.cpu_millicores, NODE.memory_bytes], dtype=float)
REPLICAS = (4, 16)


class Regime(StrEnum):
    """How much pods request."""

    FAIR = "fair requests"
    LOW = "low requests"


REQUEST_FACTORS = {Regime.FAIR: (0.5, 2.0), Regime.LOW: (0.1, 0.4)}
"""A workload requests the median usage of its pods times a random factor in this range."""


class Kind(StrEnum):
    """Which workloads a day has, and what their pods use."""

    MANY_WORKLOADS = "many workloads"
    FIVE_LARGE = "five large workloads"  # five Deployments have at least 80 % of the pods
    SAME_USAGE = "same usage"  # at each time, all pods use the same
    FULL = "five large workloads, full of requests"  # which fill 85 to 95 % of the cluster


LARGE_WORKLOADS = 5
LARGE_SHARE = 0.8
FILLED_SHARE = (0.85, 0.95)
"""The share of the scarcer of CPU and memory that all requests together fill on a full day."""


def a_day(
    trace: Floats,
    seed: int,
    regime: Regime,
    kind: Kind = Kind.MANY_WORKLOADS,
    *,
    nodes: int = NODES,
    intensity: float = 1.0,
) -> Day:
    """A cluster drawn from the trace; the scheduler places its pods in a random order.

    The pods of a workload are neighbors in the trace: mostly machines of one job. `intensity`
    multiplies the usage of pods, not their requests.
    """
    chance = np.random.default_rng(seed)
    shares = trace[: nodes * PODS_PER_NODE] * (SCALE / PODS_PER_NODE)
    if kind is Kind.SAME_USAGE:
        shares = np.broadcast_to(shares.mean(axis=0), shares.shape)
    large = LARGE_WORKLOADS if kind in {Kind.FIVE_LARGE, Kind.FULL} else 0
    groups = _groups(len(shares), chance, large)
    medians = [np.median(shares[members].reshape(-1, 2), axis=0) for members in groups]
    wanted = np.array([m * chance.uniform(*REQUEST_FACTORS[regime]) for m in medians])
    if kind is Kind.FULL:
        requested = wanted.T @ [len(members) for members in groups]
        wanted *= chance.uniform(*FILLED_SHARE) * nodes / requested.max()
    deployments = []
    for number, (members, share) in enumerate(zip(groups, wanted, strict=True)):
        used = shares[members]
        cpu, memory = share * CAPACITY
        requests = Amounts(max(10, round(cpu)), max(2**20, round(memory)), pods=1)
        template = PodTemplate(
            scheduling=SchedulingClass(requests),
            usage_by_replica=tuple(_series(each * intensity) for each in used),
            labels={"app": f"w{number:03}"},
        )
        deployments.append(Deployment(f"w{number:03}", template, namespace="day"))
    chance.shuffle(deployments)
    return _placed(Day({f"n{i:03}": NODE for i in range(nodes)}, tuple(deployments)))


def _series(shares: Floats) -> UsageSeries:
    return UsageSeries(SECONDS_PER_SAMPLE, shares * CAPACITY)


def _groups(count: int, chance: np.random.Generator, large: int) -> list[range]:
    """Ranges of pods; the first `large` of them have LARGE_SHARE of all pods."""
    size = math.ceil(count * LARGE_SHARE / large) if large else 0
    groups = [range(i * size, (i + 1) * size) for i in range(large)]
    start = large * size
    while start < count:
        size = int(chance.integers(REPLICAS[0], REPLICAS[1], endpoint=True))
        # A smaller rest joins the last group.
        end = count if count - start - size < REPLICAS[0] else start + size
        groups.append(range(start, end))
        start = end
    return groups


def _placed(day: Day) -> Day:
    """The day with the scheduler's choice for every pod, so that it chooses only once."""
    found: dict[str, list[str]] = {}
    for pod in day.begin().cluster.read_cluster().pods:
        found.setdefault(pod.labels["app"], []).append(pod.node)
    return replace(
        day, deployments=tuple(replace(d, nodes=tuple(found[d.name])) for d in day.deployments)
    )
