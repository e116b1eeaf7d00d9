"""A simulated day of 24 nodes for pictures: real cycles, and loads that are made up."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from desched.history.timeline import Timeline
from desched.lab.clock import EPOCH
from desched.lab.closed_loop import Day, Deployment, Descheduler, Pace, run
from desched.lab.comparison import comparison_of
from desched.lab.cycle_counts import CycleCounts
from desched.lab.demo import demo_policy
from desched.lab.history import UsageSeries
from desched.lab.loop_timeline import lines_by, timeline_of
from desched.lab.template import PodTemplate
from desched.model.cluster import SchedulingClass
from desched.model.report import CycleReport
from desched.model.resources import Amounts
from desched.policy.policy import Policy
from desched.ports import World
from desched.views.comparison import Comparison

NODES = 24
WORKLOADS = "web cart search ledger mail auth feed ads media geo chat jobs stock prices"
STEPS, STEP_SECONDS = 289, 300.0
GIB = 2**30


class ExampleDay(NamedTuple):
    """What happened without desched and with it, and the reports of its cycles."""

    before: Timeline
    after: Timeline
    reports: Sequence[CycleReport]

    @property
    def comparison(self) -> Comparison:
        """Both, as a page shows them."""
        about = (f"A simulated day of {NODES} nodes, with a cycle every five minutes.",)
        return comparison_of("Simulation of cluster prod-1", about, (self.before, self.after))


@cache
def example_day() -> ExampleDay:
    """The same day each time."""
    day, policy = _day(), demo_policy()
    before, _ = _lived(day, policy, acting=False)
    after, reports = _lived(day, policy, acting=True)
    return ExampleDay(before, after, reports)


def _lived(day: Day, policy: Policy, *, acting: bool) -> tuple[Timeline, Sequence[CycleReport]]:
    simulation, counts = day.begin(), CycleCounts(policy)
    desched = Descheduler(policy, "cluster prod-1")
    reports: list[CycleReport] = []

    def act(world: World) -> None:
        if acting:
            reports.append(desched.cycle(world))
            counts.add(reports[-1])

    result = run(simulation, act, policy, STEPS - 2, Pace(step_seconds=STEP_SECONDS))
    nodes = simulation.cluster.read_cluster().nodes
    name = "with desched" if acting else "without desched"
    return timeline_of(name, result, nodes, counts, EPOCH, lines_by(counts, nodes)), reports


def _day() -> Day:
    rng = np.random.default_rng(7)
    size = Amounts(16_000, 64 * GIB, pods=110)
    return Day(
        {f"worker-{number:02}": size for number in range(NODES)},
        tuple(_deployment(name, rng) for name in WORKLOADS.split()),
    )


def _deployment(name: str, rng: np.random.Generator) -> Deployment:
    """Its load has a peak around noon, and each replica its own noise of two hours."""
    replicas, mean = int(rng.integers(6, 16)), rng.uniform(500, 2300)
    peak, swing = rng.uniform(0.35, 0.7), rng.uniform(0.25, 0.6)
    daily = 1 + swing * np.cos(2 * np.pi * (np.arange(STEPS) / (STEPS - 1) - peak))
    series = []
    for _ in range(replicas):
        noise = np.convolve(rng.normal(0, 1, STEPS + 23), np.ones(24) / 24, "valid")
        cpu = mean * np.clip(daily + 0.9 * noise, 0.05, 3)
        memory = np.full(STEPS, rng.uniform(1, 4) * GIB)
        series.append(UsageSeries(STEP_SECONDS, np.stack([cpu, memory], axis=1)))
    requests = Amounts(int(0.6 * mean), 2 * GIB, pods=1)
    template = PodTemplate(
        scheduling=SchedulingClass(requests),
        usage_by_replica=tuple(series),
        labels={"app": name},
    )
    return Deployment(name, template, namespace="shop")
