"""A day of load in virtual time, with and without deschedulers: `python -m benchmarks.closed_loop`.

All contestants start with the same 100 nodes and 1,600 pods at midnight and act every five minutes.
The benchmark counts node-minutes above a target, evictions, repeated evictions of a workload or pod
within an hour, and the minutes that pods were pending. `--quick` is a small form, with nodes that
are nearly all too overloaded for moves to help.
"""

import argparse
import os
import platform
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from benchmarks.baselines import Baseline, biggest_first, by_priority
from benchmarks.day import NODES, Regime, a_day
from benchmarks.oracle import Oracle
from benchmarks.tally import Tally
from benchmarks.trace import DEFAULT, SAMPLES, read_trace
from desched import __version__
from desched.policy.compatibility import Steering
from desched.policy.loading import parse_policy
from desched.policy.policy import Policy, SteeringRules
from desched.ports import World
from desched.simulation.closed_loop import Day, Descheduler, LoopResult, run
from desched.simulation.history import Floats
from desched.simulation.world import Simulation

SEEDS = 5
NOBODY, SIGS, VOLCANO = "no descheduler", "first fit by priority", "biggest first"
DESCHED, DESCHED_STEERING = "desched", "desched that steers"
ORACLE, ORACLE_STEERING = "oracle", "oracle that steers"
CONTESTANTS = (NOBODY, SIGS, VOLCANO, DESCHED, DESCHED_STEERING, ORACLE, ORACLE_STEERING)
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


@dataclass(frozen=True)
class Outcome:
    """The result of one contestant's day, and its CPU seconds."""

    result: LoopResult
    seconds: float
    tally: Tally


def run_day(day: Day, contestant: str, policy: Policy) -> Outcome:
    """Run one contestant on a day."""
    began = time.process_time()
    simulation, tally = day.begin(), Tally()
    act = _contestant(contestant, simulation, policy, tally)
    result = run(simulation, act, policy, cycles=SAMPLES - 1)
    return Outcome(result, time.process_time() - began, tally)


def _contestant(
    name: str, simulation: Simulation, policy: Policy, tally: Tally
) -> Callable[[World], None]:
    if name in {DESCHED, DESCHED_STEERING}:
        mode = Steering.WHEN_NEEDED if name == DESCHED_STEERING else Steering.OFF
        policy = replace(policy, steering=SteeringRules(mode, policy.steering.most_nodes))
        desched = Descheduler(policy, "closed loop")
        return lambda world: tally.add(desched.cycle(world))
    if name in {ORACLE, ORACLE_STEERING}:
        return Oracle(simulation, policy, steering=name == ORACLE_STEERING).act
    if name in {SIGS, VOLCANO}:
        return Baseline(policy, by_priority if name == SIGS else biggest_first).act
    return lambda _: None


def quiet_day(trace: Floats, seed: int, regime: Regime, nodes: int) -> Day:
    """The same day with less usage, so that no node is above a target."""
    result = run_day(a_day(trace, seed, regime, nodes=nodes), NOBODY, default_policy()).result
    peak = float((result.load / result.targets).max())
    return a_day(trace, seed, regime, nodes=nodes, intensity=QUIET_PEAK_RATIO / peak)


# --- what is shown ----------------------------------------------------------------------------


def _spread(values: Sequence[float], digits: int = 0) -> str:
    middle = statistics.median(values)
    return f"{middle:,.{digits}f} ({min(values):,.{digits}f}-{max(values):,.{digits}f})"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.1f} %"


Column = tuple[str, int, Callable[[Sequence[Outcome]], str]]
"""Its heading, its width, and the text for a contestant's days."""


def _share_of_evictions(count: Callable[[LoopResult], int]) -> Callable[[Sequence[Outcome]], str]:
    return lambda days: _share(sum(count(d.result) for d in days), _evictions(days))


def _evictions(days: Sequence[Outcome]) -> int:
    return sum(len(day.result.moves) for day in days)


def _median(
    value: Callable[[Outcome], float], digits: int = 0
) -> Callable[[Sequence[Outcome]], str]:
    return lambda days: f"{statistics.median(map(value, days)):.{digits}f}"


TABLE: tuple[Column, ...] = (
    ("overload node-min", 27, lambda days: _spread([d.result.overload_minutes for d in days])),
    ("evictions", 22, lambda days: _spread([len(d.result.moves) for d in days])),
    ("w.load rep.", 12, _share_of_evictions(lambda result: result.workload_repeats)),
    ("pod rep.", 9, _share_of_evictions(lambda result: result.pod_repeats)),
    ("back", 7, _share_of_evictions(lambda result: result.came_back)),
    ("overl.", 7, _share_of_evictions(lambda result: result.landed_overloaded)),
    ("taints", 8, _median(lambda day: day.tally.taints)),
    ("pending", 9, _median(lambda day: day.result.pending_minutes)),
    ("s", 6, _median(lambda day: day.seconds, digits=1)),
)


def _table(found: dict[str, list[Outcome]]) -> None:
    print("  " + " " * 22 + "".join(f"{head:>{width}}" for head, width, _ in TABLE))
    for name, days in found.items():
        print(f"  {name:<22}" + "".join(f"{show(days):>{width}}" for _, width, show in TABLE))


def _aims(name: str, found: dict[str, list[Outcome]]) -> None:
    def removed(who: str) -> list[float]:
        pairs = zip(found[NOBODY], found[who], strict=True)
        return [a.result.overload_minutes - b.result.overload_minutes for a, b in pairs]

    def evictions(who: str) -> float:
        return statistics.median(len(day.result.moves) for day in found[who])

    share = statistics.median(
        own / most for own, most in zip(removed(name), removed(ORACLE), strict=True)
    )
    _aim(
        f"{name} removes {share:.0%} of what the oracle removes", "at least 70 %", met=share >= 0.7
    )
    total = max(1, _evictions(found[name]))
    repeats = sum(day.result.workload_repeats for day in found[name]) / total
    _aim(f"{repeats:.1%} of its evictions hit a workload again", "at most 2 %", met=repeats <= 0.02)
    best = max((SIGS, VOLCANO), key=lambda who: statistics.median(removed(who)))
    ratio = evictions(name) / max(1.0, evictions(best))
    _aim(f"it makes {ratio:.0%} of the evictions of '{best}'", "at most half", met=ratio <= 0.5)


def _aim(text: str, aim: str, *, met: bool) -> None:
    print(f"  {'met   ' if met else 'MISSED'}  {text} ({aim})")


class Job(NamedTuple):
    """One contestant and its day, as input of another process."""

    trace: Floats
    nodes: int
    regime: Regime
    seed: int
    contestant: str


def do(job: Job) -> Outcome:
    """Draw the day and run it."""
    make = quiet_day if job.contestant == QUIET else a_day
    day = make(job.trace, job.seed, job.regime, nodes=job.nodes)
    name = DESCHED if job.contestant == QUIET else job.contestant
    return run_day(day, name, default_policy())


def _show(regime: Regime, found: dict[str, list[Outcome]], quiet: Outcome) -> None:
    print(f"\n{regime}")
    _table(found)
    count = len(quiet.result.moves)
    _aim(f"{DESCHED} makes {count} evictions on a quiet day", "none", met=count == 0)
    for name in (DESCHED, DESCHED_STEERING):
        _aims(name, found)
        tallies = [day.tally for day in found[name]]
        _shares(
            "Results of its evictions, as it reports them:",
            sum((tally.results for tally in tallies), Counter()),
        )
        _shares(
            "Nodes measured above a target, by what it did about them in the same cycle:",
            sum((tally.stays for tally in tallies), Counter()),
        )
        longest = max(tally.acting_seconds for tally in tallies)
        most = max(tally.most_tainted for tally in tallies)
        print(
            f"  Acting took at most {longest:.0f} s of a cycle; at most {most} nodes had a taint.",
            flush=True,
        )


def _shares(title: str, counts: Counter[str]) -> None:
    print(f"  {title}")
    for what, number in counts.most_common():
        print(f"    {number / counts.total():6.1%}  {what}")


def main(arguments: Sequence[str]) -> None:
    """Run all contestants on all days."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.closed_loop")
    parser.add_argument("--trace", type=Path, default=DEFAULT)
    parser.add_argument("--quick", action="store_true", help="24 nodes, one seed; two minutes")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--jobs", type=int, default=1, help="days at a time, one core each")
    options = parser.parse_args(arguments)
    seeds = options.seeds or (1 if options.quick else SEEDS)
    nodes = 24 if options.quick else NODES
    trace = read_trace(options.trace)
    print(
        f"desched {__version__}, Python {platform.python_version()}, numpy {np.__version__}, "
        f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores ({options.jobs} used); "
        f"{nodes} nodes, medians (smallest-largest) of {seeds} seeds",
        flush=True,
    )
    with ProcessPoolExecutor(options.jobs) as pool:
        for regime in Regime:
            days = [(name, seed) for seed in range(seeds) for name in CONTESTANTS]
            jobs = [Job(trace, nodes, regime, seed, name) for name, seed in [*days, (QUIET, 0)]]
            *outcomes, quiet = pool.map(do, jobs)
            found: dict[str, list[Outcome]] = {name: [] for name in CONTESTANTS}
            for (name, _), outcome in zip(days, outcomes, strict=True):
                found[name].append(outcome)
            _show(regime, found, quiet)


if __name__ == "__main__":
    main(sys.argv[1:])
