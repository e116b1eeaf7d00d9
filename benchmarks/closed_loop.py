"""A day of load in virtual time, with and without deschedulers: `python -m benchmarks.closed_loop`.

All contestants start with the same 100 nodes and 1,600 pods at midnight and act every five minutes.
The benchmark counts node-minutes above a target, evictions, replicas that moved twice within an
hour, and the minutes that pods were pending. Besides days with many workloads there are days with
five large ones, and days on which all pods use the same.

In large clusters kube-scheduler compares only a part of the nodes. "half compared" is desched with
a scheduler that compares a random half, as desched knows it of large clusters; for "not known"
desched assumes that the scheduler compares all. `--quick` is a small form, with nodes that are
nearly all too overloaded for moves to help.
"""

import argparse
import dataclasses
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from benchmarks.baselines import Baseline, biggest_first, by_priority
from benchmarks.day import NODES, Kind, Regime, a_day
from benchmarks.measures import (
    LEGEND,
    Figures,
    figures_of,
    landings_of,
    show_aim,
    show_calibration,
    show_shares,
    show_table,
    version,
)
from benchmarks.oracle import Oracle
from benchmarks.tally import Tally
from benchmarks.trace import DEFAULT, SAMPLES, read_trace
from desched import __version__
from desched.planning.kube_scheduler.scores import node_sampling
from desched.policy.compatibility import Steering
from desched.policy.loading import parse_policy
from desched.policy.policy import Policy, SteeringRules
from desched.ports import World
from desched.simulation.closed_loop import Day, Descheduler, LoopResult, run
from desched.simulation.history import Floats
from desched.simulation.world import Simulation

SEEDS = 5
FIRST_NEW_SEED, NEW_SEEDS = 10, 3
"""Days of the other kinds; they were drawn once, and nothing was tuned on them."""

NOBODY, SIGS, VOLCANO = "no descheduler", "first fit by priority", "biggest first"
SIGS_LOW, VOLCANO_LOW = "first fit, below 30 %", "biggest, below 30 %"
DESCHED, WITHOUT_STEERING, WITHOUT_CHAINS = "desched", "without steering", "without chains"
HALF, HALF_UNKNOWN = "half compared", "half, not known"
ORACLE, ORACLE_STEERING = "oracle", "oracle that steers"
CONTESTANTS = (
    NOBODY,
    SIGS,
    VOLCANO,
    SIGS_LOW,
    VOLCANO_LOW,
    DESCHED,
    WITHOUT_STEERING,
    HALF,
    HALF_UNKNOWN,
    ORACLE,
    ORACLE_STEERING,
)
ON_OTHER_DAYS = (NOBODY, SIGS, VOLCANO, DESCHED, WITHOUT_STEERING, HALF, HALF_UNKNOWN)
ON_FULL_DAYS = (*ON_OTHER_DAYS, WITHOUT_CHAINS)
BASELINES = {
    SIGS: (by_priority, True),
    VOLCANO: (biggest_first, True),
    SIGS_LOW: (by_priority, False),
    VOLCANO_LOW: (biggest_first, False),
}
MOST_LEFT = {DESCHED: 0.14, HALF: 0.20}
"""The aims on days with many workloads: the share of the overload that may be left."""
MOST_LEFT_ON_OTHER_DAYS = {DESCHED: 0.25, HALF: 0.25}
MOST_LEFT_WITH_CHAINS = {DESCHED: 0.15, HALF: 0.25}
"""With five large workloads, whether or not requests fill the cluster."""
MOST_EVICTIONS, MOST_EVICTIONS_WITH_CHAINS = 120, 250
MOST_AGAIN = 0.01
MOST_TOO_HOT = {DESCHED: 0.08, HALF: 0.12}
"""The aims for landings on a node that is overloaded ten minutes later."""

QUIET = "desched on a quiet day"
QUIET_PEAK_RATIO = 0.99
"""The highest load of any node on a quiet day, as a share of its target."""

POLICY = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: closed-loop
  pluginConfig:
  - name: LoadAware
    args:
      metrics: {type: Prometheus}
      targetThresholds: {cpu: 80, memory: 85}
      thresholds: {cpu: 30, memory: 30}
  plugins: {balance: {enabled: [LoadAware]}}
"""


def default_policy() -> Policy:
    return parse_policy(POLICY, "closed-loop").policy


def run_day(day: Day, contestant: str, policy: Policy) -> tuple[LoopResult, Figures]:
    """Run one contestant on a day."""
    if contestant in {HALF, HALF_UNKNOWN}:
        day = dataclasses.replace(day, compared_share=0.5)
    began = time.process_time()
    simulation, tally = day.begin(), Tally()
    act = _contestant(contestant, simulation, policy, tally)
    with _sampling(len(day.nodes) // 2 if contestant == HALF else node_sampling.FEWEST_TO_FIND):
        result = run(simulation, act, policy, cycles=SAMPLES - 1)
    figures = figures_of(
        result,
        time.process_time() - began,
        taints=tally.taints,
        most_tainted=tally.most_tainted,
        acting_seconds=tally.acting_seconds,
        landings=landings_of(result, tally.named),
        results=dict(tally.results),
        stays=dict(tally.stays),
    )
    return result, figures


@contextmanager
def _sampling(fewest: int) -> Iterator[None]:
    """Let the forecast assume that the scheduler samples clusters of more than so many nodes.

    kube-scheduler does so from 100 nodes on, which is the size of the simulated cluster.
    """
    before, node_sampling.FEWEST_TO_FIND = node_sampling.FEWEST_TO_FIND, fewest
    try:
        yield
    finally:
        node_sampling.FEWEST_TO_FIND = before


def _contestant(
    name: str, simulation: Simulation, policy: Policy, tally: Tally
) -> Callable[[World], None]:
    if name in {DESCHED, WITHOUT_STEERING, WITHOUT_CHAINS, HALF, HALF_UNKNOWN}:
        mode = Steering.OFF if name == WITHOUT_STEERING else Steering.WHEN_NEEDED
        rules = SteeringRules(mode, policy.steering.most_nodes)
        policy = replace(
            policy, steering=rules, chains=name not in {WITHOUT_STEERING, WITHOUT_CHAINS}
        )
        desched = Descheduler(policy, "closed loop")
        return lambda world: tally.add(desched.cycle(world))
    if name in {ORACLE, ORACLE_STEERING}:
        return Oracle(simulation, policy, steering=name == ORACLE_STEERING).act
    if name in BASELINES:
        order, generous = BASELINES[name]
        return Baseline(policy, order, generous).act
    return lambda _: None


def quiet_day(trace: Floats, seed: int, regime: Regime, nodes: int) -> Day:
    """The same day with less usage, so that no node is above a target."""
    result = run_day(a_day(trace, seed, regime, nodes=nodes), NOBODY, default_policy())[0]
    peak = float((result.load / result.targets).max())
    return a_day(trace, seed, regime, nodes=nodes, intensity=QUIET_PEAK_RATIO / peak)


def _show_aims(name: str, found: Mapping[str, Sequence[Figures]], kind: Kind) -> None:
    ordinary, large = kind is Kind.MANY_WORKLOADS, kind in {Kind.FIVE_LARGE, Kind.FULL}
    days = found[name]
    left = sum(day.overload_node_minutes for day in days)
    before = sum(day.overload_node_minutes for day in found[NOBODY])
    most_left = MOST_LEFT_WITH_CHAINS if large else MOST_LEFT_ON_OTHER_DAYS
    most = (MOST_LEFT if ordinary else most_left)[name]
    show_aim(
        f"{name}: {left / before:.1%} of the overload left",
        f"at most {most:.0%}",
        met=left <= most * before,
    )
    evictions = sum(day.evictions for day in days)
    if ordinary or large:
        mean, bound = evictions / len(days), MOST_EVICTIONS_WITH_CHAINS if large else MOST_EVICTIONS
        show_aim(f"{name}: {mean:.0f} evictions on a day", f"at most {bound}", met=mean <= bound)
    if ordinary:
        too_hot = sum(day.landed_overloaded + day.came_back for day in days) / max(1, evictions)
        hottest = MOST_TOO_HOT[name]
        aim = f"at most {hottest:.0%}"
        show_aim(f"{name}: {too_hot:.1%} of landings too hot", aim, met=too_hot <= hottest)
    again = sum(day.replica_repeats for day in days) / max(1, evictions)
    show_aim(
        f"{name}: {again:.1%} of replicas moved again within the hour",
        "at most 1 %",
        met=again <= MOST_AGAIN,
    )


class Job(NamedTuple):
    """One contestant and its day, as input of another process."""

    trace: Floats
    nodes: int
    regime: Regime
    kind: Kind
    seed: int
    contestant: str


def do(job: Job) -> Figures:
    """Draw the day and run it."""
    if job.contestant == QUIET:
        day = quiet_day(job.trace, job.seed, job.regime, nodes=job.nodes)
        return run_day(day, DESCHED, default_policy())[1]
    day = a_day(job.trace, job.seed, job.regime, job.kind, nodes=job.nodes)
    return run_day(day, job.contestant, default_policy())[1]


def _contestants_of(kind: Kind) -> tuple[str, ...]:
    return ON_FULL_DAYS if kind is Kind.FULL else ON_OTHER_DAYS


def _show(regime: Regime, kind: Kind, found: Mapping[str, Sequence[Figures]]) -> None:
    print(f"\n{regime}, {kind}, {len(found[NOBODY])} days")
    show_table(found)
    for name in MOST_LEFT:
        _show_aims(name, found, kind)
    for name in (DESCHED, WITHOUT_STEERING):
        days = found[name]
        print(f"  {name}:")
        show_calibration(days)
        show_shares(
            "Results of the evictions, as desched reports them:", [day.results for day in days]
        )
        show_shares(
            "Nodes measured above a target, by what desched did about them in the same cycle:",
            [day.stays for day in days],
        )
        longest = max(day.acting_seconds for day in days)
        most = max(day.most_tainted for day in days)
        print(
            f"  Acting took at most {longest:.0f} s of a cycle; at most {most} nodes had a taint.",
            flush=True,
        )


def main(arguments: Sequence[str]) -> None:
    """Run all contestants on all days."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.closed_loop")
    parser.add_argument("--trace", type=Path, default=DEFAULT)
    parser.add_argument("--quick", action="store_true", help="24 nodes, one seed; two minutes")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--kind", type=Kind, action="append", help="all kinds if not given")
    parser.add_argument("--jobs", type=int, default=1, help="days at a time, one core each")
    options = parser.parse_args(arguments)
    seeds = options.seeds or (1 if options.quick else SEEDS)
    nodes = 24 if options.quick else NODES
    trace = read_trace(options.trace)
    print(
        f"desched {__version__} ({version()}), Python {platform.python_version()}, "
        f"numpy {np.__version__}, {platform.machine()}, {len(os.sched_getaffinity(0))} cores ({options.jobs} used); "
        f"{nodes} nodes\n{LEGEND}",
        flush=True,
    )
    with ProcessPoolExecutor(options.jobs) as pool:
        for regime in Regime:
            quiet = pool.submit(do, Job(trace, nodes, regime, Kind.MANY_WORKLOADS, 0, QUIET))
            for kind in options.kind or Kind:
                if kind is Kind.FULL and regime is not Regime.FAIR:
                    continue  # the same days: their requests are scaled to fill the cluster
                ordinary = kind is Kind.MANY_WORKLOADS
                names = CONTESTANTS if ordinary else _contestants_of(kind)
                first, count = (0, seeds) if ordinary else (FIRST_NEW_SEED, min(seeds, NEW_SEEDS))
                days = [(name, first + i) for i in range(count) for name in names]
                jobs = [Job(trace, nodes, regime, kind, seed, name) for name, seed in days]
                found: dict[str, list[Figures]] = {name: [] for name in names}
                for (name, _), outcome in zip(days, pool.map(do, jobs), strict=True):
                    found[name].append(outcome)
                _show(regime, kind, found)
            evictions = quiet.result().evictions
            show_aim(f"{evictions} evictions on a quiet day", "none", met=evictions == 0)


if __name__ == "__main__":
    main(sys.argv[1:])
