"""Days of other traces, on nodes of unequal size, and with Deployments of very unequal size.

The scheduler places the pods in a random order, by their requests. All usage is scaled to a mean
CPU of the whole cluster. No pod uses more than half of the smallest node: a series that is above
that for more than a tenth of the day is scaled down, and the rest is cut off, as by a CPU limit.

PlanetLab and Bitbrains have no memory. Their pods use a constant amount, which they request, so
that memory never is the bottleneck.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.day import (
    MEAN_LOAD,
    REQUEST_FACTORS,
    Kind,
    Regime,
    Size,
    deployments,
    drawn,
    groups_of,
    placed,
)
from benchmarks.trace import SECONDS_PER_SAMPLE, Jobs, Trace
from desched.lab.closed_loop import Day
from desched.lab.history import Floats, UsageSeries
from desched.model.resources import Amounts

EQUAL_CORES, MIXED_CORES = (32,), (8, 16, 32, 64)
"""The sizes of nodes, all equally frequent."""
MEMORY_BYTES_PER_CORE = 4 * 2**30

MOST_OF_SMALLEST_NODE = 0.5
USUAL_SHARE = 0.9
"""A pod is below the maximum for so much of the day before the rest is cut off."""

MOST_FACTOR, BISECTIONS = 1e9, 60

MOST_REPLICAS = 200
MEAN_MEMORY, MEMORY_DEVIATION = 0.4, 0.3
"""Without memory in the trace: the mean of the cluster, and the deviation of its logarithm."""
MEMORY_FACTORS = (1.0, 1.2)
"""The memory request of such pods, as a factor of their use."""
ODD_FACTORS, ODD_SHARE = (1.0, 16.0), 0.6
"""Odd CPU requests: their range, and the share of the cluster that they fill together."""
MOST_REQUESTED = 0.85
"""All pods together request at most this share of the cluster, so that there is room for each."""


class Draw(NamedTuple):
    """How a day is drawn."""

    trace: Trace
    mean_cpu: float
    mixed_nodes: bool = False
    requests: Regime = Regime.FAIR
    heavy_tailed: bool = False


DRAWS: Mapping[Kind, Draw] = {
    Kind.PLANETLAB_35: Draw(Trace.PLANETLAB, 0.35),
    Kind.PLANETLAB_50: Draw(Trace.PLANETLAB, 0.5),
    Kind.PLANETLAB_50_MIXED: Draw(Trace.PLANETLAB, 0.5, mixed_nodes=True),
    Kind.PLANETLAB_50_ODD: Draw(Trace.PLANETLAB, 0.5, mixed_nodes=True, requests=Regime.ODD),
    Kind.PLANETLAB_65: Draw(Trace.PLANETLAB, 0.65),
    Kind.BITBRAINS_35_ODD: Draw(Trace.BITBRAINS, 0.35, mixed_nodes=True, requests=Regime.ODD),
    Kind.BITBRAINS_50: Draw(Trace.BITBRAINS, 0.5),
    Kind.BITBRAINS_50_MIXED: Draw(Trace.BITBRAINS, 0.5, mixed_nodes=True),
    Kind.BITBRAINS_50_ODD: Draw(Trace.BITBRAINS, 0.5, mixed_nodes=True, requests=Regime.ODD),
    Kind.BITBRAINS_50_HEAVY: Draw(Trace.BITBRAINS, 0.5, mixed_nodes=True, heavy_tailed=True),
    Kind.BITBRAINS_65: Draw(Trace.BITBRAINS, 0.65, mixed_nodes=True),
    Kind.GOOGLE_HEAVY: Draw(Trace.GOOGLE, MEAN_LOAD[0], heavy_tailed=True),
}


def other_day(jobs: Jobs, seed: int, draw: Draw, size: Size | None = None) -> Day:
    """A cluster drawn from a trace: its nodes, and Deployments with requests and usage."""
    nodes, pods, _ = size or Size()
    chance = np.random.default_rng(seed)
    cores = np.resize(MIXED_CORES if draw.mixed_nodes else EQUAL_CORES, nodes)
    total = cores.sum() * np.array([1_000, MEMORY_BYTES_PER_CORE], dtype=float)
    most_cpu = MOST_OF_SMALLEST_NODE * 1_000 * float(cores.min())
    use = drawn(jobs, pods, chance)
    groups = unequal_groups(pods, chance) if draw.heavy_tailed else groups_of(pods, chance)
    use[:, :, 0] = with_mean(use[:, :, 0], draw.mean_cpu * total[0] / pods, most_cpu)
    if draw.trace is Trace.GOOGLE:
        use[:, :, 1] *= MEAN_LOAD[1] * total[1] / pods / use[:, :, 1].mean()
    else:
        use[:, :, 1] = _constant_memory(groups, total[1], chance)[:, None]
    wanted = _requests(use, groups, draw, total, chance)
    wanted[:, 0] = np.minimum(wanted[:, 0], most_cpu)
    requested = wanted.T @ [len(members) for members in groups]
    wanted *= np.minimum(1.0, MOST_REQUESTED * total / requested)
    order = chance.permutation(len(groups)).tolist()
    usage = [UsageSeries(SECONDS_PER_SAMPLE, each) for each in use]
    sizes = {
        f"n{i:03}": Amounts(1_000 * count, MEMORY_BYTES_PER_CORE * count)
        for i, count in enumerate(cores.tolist())
    }
    return placed(Day(sizes, deployments(groups, order, wanted, usage)))


def with_mean(cpu: Floats, mean: float, most: float) -> Floats:
    """The series, pod x sample, scaled to this mean, and none above the maximum.

    All have the same factor, but those that would be cut off for too long have a smaller one.
    """
    usual = np.maximum(np.quantile(cpu, USUAL_SHARE, axis=1, keepdims=True), np.finfo(float).tiny)

    def scaled(factor: float) -> Floats:
        found: Floats = np.minimum(cpu * np.minimum(factor, most / usual), most)
        return found

    low, high = 0.0, mean / cpu.mean()
    while scaled(high).mean() < mean:
        low, high = high, 2 * high
        if high > MOST_FACTOR:
            raise ValueError("the pods of this trace cannot use so much")
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if scaled(middle).mean() < mean else (low, middle)
    return scaled(high)


def unequal_groups(count: int, chance: np.random.Generator) -> list[range]:
    """Ranges of pods: half of them are one or two pods, and the largest have MOST_REPLICAS.

    The probability of at least s pods is about 1 / s.
    """
    groups: list[range] = []
    start = 0
    while start < count:
        size = int(1 / (1 - chance.uniform() * (1 - 1 / (MOST_REPLICAS + 1))))
        groups.append(range(start, min(count, start + size)))
        start = groups[-1].stop
    return groups


def _constant_memory(
    groups: Sequence[range], total_bytes: float, chance: np.random.Generator
) -> Floats:
    """What each pod uses all day; the same for all pods of a workload."""
    levels = chance.lognormal(0, MEMORY_DEVIATION, len(groups))
    found: Floats = np.repeat(levels, [len(members) for members in groups])
    found *= MEAN_MEMORY * total_bytes / found.sum()
    return found


def _requests(
    use: Floats,
    groups: Sequence[range],
    draw: Draw,
    total: Floats,
    chance: np.random.Generator,
) -> Floats:
    """What the pods of each group request: group x (millicores, bytes)."""
    factors = np.array([REQUEST_FACTORS.get(draw.requests, ODD_FACTORS)] * 2)
    if draw.trace is not Trace.GOOGLE:
        factors[1] = MEMORY_FACTORS
    medians = [np.median(use[members].reshape(-1, 2), axis=0) for members in groups]
    wanted = np.array([m * chance.uniform(*factors.T) for m in medians])
    if draw.requests is Regime.ODD:
        replicas = [len(members) for members in groups]
        low, high = np.log(ODD_FACTORS)
        odd = np.exp(chance.uniform(low, high, len(groups)))
        wanted[:, 0] = odd * ODD_SHARE * total[0] / (odd @ replicas)
    return wanted
