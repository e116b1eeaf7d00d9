"""A day of the Google trace in the simulated cluster: nodes, and Deployments that use them.

See `benchmarks.other_days` for other traces, and for clusters of another form.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from benchmarks.trace import SAMPLES, SECONDS_PER_SAMPLE, Jobs
from benchmarks.usage_patterns import bursts, leaks, noise, surges
from desched.lab.closed_loop import ORDINARY_PACE, Day, Deployment, Pace
from desched.lab.history import Floats, UsageSeries
from desched.lab.template import PodTemplate
from desched.model.cluster import SchedulingClass
from desched.model.resources import Amounts

NODE = Amounts(cpu_millicores=32_000, memory_bytes=128 * 2**30)
CAPACITY = np.array([NODE.cpu_millicores, NODE.memory_bytes], dtype=float)
REPLICAS = (4, 16)


class Regime(StrEnum):
    """How much pods request."""

    FAIR = "fair requests"
    LOW = "low requests"
    ODD = "odd requests"  # without regard to usage


REQUEST_FACTORS = {Regime.FAIR: (0.5, 2.0), Regime.LOW: (0.1, 0.4)}
"""A workload requests the median usage of its pods times a random factor in this range."""


class Kind(StrEnum):
    """Which workloads a day has, and what their pods use."""

    MANY_WORKLOADS = "many workloads"
    FIVE_LARGE = "five large workloads"  # five Deployments have at least 80 % of the pods
    SAME_USAGE = "same usage"  # at each time, all pods use the same
    FULL = "five large workloads, full of requests"  # which fill 85 to 95 % of the cluster
    NOISE = "minute noise"
    BURSTS = "hourly bursts"
    SURGES = "surges"
    LEAKS = "memory leaks"
    MILD_HOURS = "mild hours"
    CLIMBING_HOURS = "climbing hours"  # until the mean of all nodes is at the target
    SATURATED = "saturated"  # a few nodes, nearly all of them above a target
    # See `benchmarks.other_days`; the percentage is the mean CPU of the cluster.
    PLANETLAB_35 = "PlanetLab, 35 %, equal nodes"
    PLANETLAB_50 = "PlanetLab, 50 %, equal nodes"
    PLANETLAB_50_MIXED = "PlanetLab, 50 %, mixed nodes"
    PLANETLAB_50_ODD = "PlanetLab, 50 %, mixed nodes, odd requests"
    PLANETLAB_65 = "PlanetLab, 65 %, equal nodes"
    BITBRAINS_35_ODD = "Bitbrains, 35 %, mixed nodes, odd requests"
    BITBRAINS_50 = "Bitbrains, 50 %, equal nodes"
    BITBRAINS_50_MIXED = "Bitbrains, 50 %, mixed nodes"
    BITBRAINS_50_ODD = "Bitbrains, 50 %, mixed nodes, odd requests"
    BITBRAINS_50_HEAVY = "Bitbrains, 50 %, mixed nodes, heavy-tailed Deployments"
    BITBRAINS_65 = "Bitbrains, 65 %, mixed nodes"
    GOOGLE_HEAVY = "Google, heavy-tailed Deployments"
    # See `benchmarks.eventful_days`.
    CRONJOBS = "CronJobs"
    LIFE = "a day with life"
    CRONJOBS_ANY_MINUTE = "CronJobs, each at a minute of its own"
    LIFE_ANY_MINUTE = "a day with life, Jobs at minutes of their own"
    RELIEVED_NODE = "relieved node"


MEAN_CPU = {Kind.MILD_HOURS: (0.68, 0.68), Kind.CLIMBING_HOURS: (0.6, 0.8)}
"""The kinds that are hours: the mean CPU load of all nodes at the beginning and at the end."""
LEAD_IN_SAMPLES = 4
LEAD_IN_SECONDS = LEAD_IN_SAMPLES * SECONDS_PER_SAMPLE
"""The hours are preceded by as much load as the default policy looks back on."""
MEAN_LOAD, SATURATED_LOAD = (0.655, 0.587), (0.73, 0.62)
"""The mean CPU and memory load of a day without further patterns; the first is the trace's."""

LARGE_WORKLOADS = 5
LARGE_SHARE = 0.8
FILLED_SHARE = (0.85, 0.95)
"""The share of the scarcer of CPU and memory that all requests together fill on a full day."""
MOST_SHIFT = 12
"""Each drawn job is up to so many samples earlier or later than the others."""


class Size(NamedTuple):
    """The nodes and pods of a day, and how long it lasts; 24 hours if its kind is not in MEAN_CPU.

    The series of pods have LEAD_IN_SECONDS more if it is.
    """

    nodes: int = 100
    pods: int = 1_600
    hours: int = 24


SIZES = {
    Kind.MILD_HOURS: Size(50, 800, 6),
    Kind.CLIMBING_HOURS: Size(50, 800, 6),
    Kind.SATURATED: Size(24, 384),
    Kind.RELIEVED_NODE: Size(10, 31, 10),
}


def size_of(kind: Kind) -> Size:
    """The usual size of a day of this kind."""
    return SIZES.get(kind, Size())


def pace_of(kind: Kind) -> Pace:
    """When cycles run on such a day."""
    return Pace(begins_at=LEAD_IN_SECONDS) if kind in MEAN_CPU else ORDINARY_PACE


def a_day(
    jobs: Jobs,
    seed: int,
    regime: Regime,
    kind: Kind = Kind.MANY_WORKLOADS,
    *,
    size: Size | None = None,
    intensity: float = 1.0,
) -> Day:
    """A cluster drawn from the trace; the scheduler places its pods in a random order.

    The seed draws jobs, with repetition, until there are enough machines, each for one pod; it also
    draws the time of the trace at which the day begins. All is scaled to the mean load of the kind.
    The pods of a workload are neighbors in this order: mostly machines of one job. `intensity`
    multiplies the usage of pods, not their requests.
    """
    nodes, pods, hours = size or size_of(kind)
    chance = np.random.default_rng(seed)
    shares = drawn(jobs, pods, chance)
    load = SATURATED_LOAD if kind is Kind.SATURATED else MEAN_LOAD
    shares *= np.array(load) * nodes / pods / shares.mean(axis=(0, 1))
    if kind is Kind.SAME_USAGE:
        shares = np.broadcast_to(shares.mean(axis=0), shares.shape)
    large = LARGE_WORKLOADS if kind in {Kind.FIVE_LARGE, Kind.FULL} else 0
    groups = groups_of(len(shares), chance, large)
    if kind in MEAN_CPU:
        shares = _with_mean_cpu(shares, MEAN_CPU[kind], hours, nodes)
    medians = [np.median(shares[members].reshape(-1, 2), axis=0) for members in groups]
    wanted = np.array([m * chance.uniform(*REQUEST_FACTORS[regime]) for m in medians])
    if kind is Kind.FULL:
        requested = wanted.T @ [len(members) for members in groups]
        wanted *= chance.uniform(*FILLED_SHARE) * nodes / requested.max()
    order = chance.permutation(len(groups))
    usage = _series(shares * intensity, _factors(kind, groups, chance))
    nodes_of_day = {f"n{i:03}": NODE for i in range(nodes)}
    return placed(Day(nodes_of_day, deployments(groups, order.tolist(), wanted * CAPACITY, usage)))


def deployments(
    groups: Sequence[range], order: Sequence[int], wanted: Floats, usage: Sequence[UsageSeries]
) -> tuple[Deployment, ...]:
    """A Deployment of each group of pods, which request `wanted`: group x (millicores, bytes)."""
    found = []
    for number in order:
        cpu, memory = wanted[number]
        requests = Amounts(max(10, round(cpu)), max(2**20, round(memory)), pods=1)
        template = PodTemplate(
            scheduling=SchedulingClass(requests),
            usage_by_replica=tuple(usage[member] for member in groups[number]),
            labels={"app": f"w{number:03}"},
        )
        found.append(Deployment(f"w{number:03}", template, namespace="day"))
    return tuple(found)


def drawn(jobs: Jobs, count: int, chance: np.random.Generator) -> Floats:
    """Machines of random jobs, in a day that begins at a random time."""
    begin, found = int(chance.integers(SAMPLES)), []
    missing = count
    while missing > 0:
        job = jobs[chance.integers(len(jobs))][:missing]
        shift = begin + int(chance.integers(-MOST_SHIFT, MOST_SHIFT, endpoint=True))
        found.append(np.roll(job, -shift, axis=1))
        missing -= len(job)
    return np.concatenate(found)


def _with_mean_cpu(shares: Floats, mean_cpu: tuple[float, float], hours: int, nodes: int) -> Floats:
    """The first hours with their lead-in; the mean CPU load of all nodes is as wanted."""
    samples = LEAD_IN_SAMPLES + hours * 3600 // SECONDS_PER_SAMPLE
    found = shares[:, :samples].copy()
    wanted = np.interp(np.arange(samples), (LEAD_IN_SAMPLES, samples), mean_cpu)
    found[:, :, 0] *= wanted * nodes / found[:, :, 0].sum(axis=0)
    return found


def _factors(kind: Kind, groups: Sequence[range], chance: np.random.Generator) -> Floats | None:
    match kind:
        case Kind.NOISE:
            return noise(groups[-1].stop, chance)
        case Kind.BURSTS:
            return bursts(groups, chance)
        case Kind.SURGES:
            return surges(groups, chance)
        case Kind.LEAKS:
            return leaks(groups, chance)
        case _:
            return None


def _series(shares: Floats, factors: Floats | None) -> list[UsageSeries]:
    """The usage of each pod; by minute if there are factors."""
    if factors is None:
        return [UsageSeries(SECONDS_PER_SAMPLE, each * CAPACITY) for each in shares]
    minutes = SECONDS_PER_SAMPLE // 60
    by_minute = (np.repeat(each, minutes, axis=0) for each in shares)
    pairs = zip(by_minute, factors, strict=True)
    return [UsageSeries(60, each * factor * CAPACITY) for each, factor in pairs]


def groups_of(count: int, chance: np.random.Generator, large: int = 0) -> list[range]:
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


def placed(day: Day) -> Day:
    """The day with the scheduler's choice for every pod, so that it chooses only once."""
    found: dict[str, list[str]] = {}
    for pod in day.begin().cluster.read_cluster().pods:
        found.setdefault(pod.labels["app"], []).append(pod.node)
    return replace(
        day, deployments=tuple(replace(d, nodes=tuple(found[d.name])) for d in day.deployments)
    )
