"""Days of load in virtual time, with and without deschedulers: `python -m benchmarks.closed_loop`.

On each day, all contestants start with the same cluster and act every five minutes. A day is drawn
from the trace by its seed. Seeds below 1,000 are for tuning; the others are for judging, and nobody
looks at them before the work is finished (`--seeds-from 1000`). See `benchmarks.day` for the kinds
of days and `benchmarks.measures` for the columns.

In large clusters kube-scheduler compares only a part of the nodes. "half compared" is desched with
a scheduler that compares a random half, as desched knows it of large clusters; for "not known"
desched assumes that the scheduler compares all. Of equal nodes the scheduler chooses any, as the
real one does; only beside an oracle the first by name.

`--json FILE` writes a line for each run; `python -m benchmarks.compare BEFORE AFTER` compares two
such files. For quick answers: `--seeds 1 --kind "many workloads" --contestant desched`.
"""

import argparse
import dataclasses
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from benchmarks.aims import DESCHED, HALF, NOBODY, show_aims, show_no_worse
from benchmarks.baselines import Baseline, OneMetric, VolcanoDefaults, biggest_first, by_priority
from benchmarks.day import Kind, Regime, a_day, pace_of, size_of
from benchmarks.days import day_of, regimes_of, trace_of
from benchmarks.hindsight import brief_evictions
from benchmarks.measures import (
    LEGEND,
    Figures,
    Line,
    Run,
    figures_of,
    landings_of,
    measured_by,
    show_aim,
    show_calibration,
    show_shares,
    show_table,
    version,
)
from benchmarks.oracle import Oracle
from benchmarks.tally import Tally
from benchmarks.trace import DEFAULT, OTHERS, Jobs, Trace, read_jobs_of
from desched.lab.closed_loop import (
    ORDINARY_PACE,
    Act,
    Day,
    Descheduler,
    LoopResult,
    Pace,
    run,
)
from desched.lab.world import Simulation
from desched.planning.kube_scheduler.scores import node_sampling
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import Policy, SteeringRules
from desched.policy_file.loading import parse_policy

FIRST_JUDGING_SEED = 1_000
SEEDS, SEEDS_OF_OTHER_KINDS = 5, 3

SIGS, VOLCANO = "first fit by priority", "biggest first"
SIGS_DEFAULTS, VOLCANO_DEFAULTS = "one pod a node", "biggest, two minutes"
SIGS_LOW, VOLCANO_LOW = "first fit, below 30 %", "biggest, below 30 %"
WITHOUT_STEERING = "without steering"
HALF_UNKNOWN = "half, not known"
ORACLE, ORACLE_STEERING = "oracle", "oracle that steers"
RIVALS = (SIGS, SIGS_DEFAULTS, VOLCANO, VOLCANO_DEFAULTS)
VARIANTS = (DESCHED, WITHOUT_STEERING, HALF, HALF_UNKNOWN)
ALL = (
    NOBODY,
    *RIVALS,
    SIGS_LOW,
    VOLCANO_LOW,
    *VARIANTS,
    ORACLE,
    ORACLE_STEERING,
)
CONTESTANTS = {
    Kind.MANY_WORKLOADS: ALL,
    Kind.FULL: (NOBODY, *RIVALS, *VARIANTS),
    Kind.FIVE_LARGE: (NOBODY, *RIVALS, *VARIANTS),
    Kind.SAME_USAGE: (NOBODY, *RIVALS, *VARIANTS),
}
ON_OTHER_DAYS = (NOBODY, *RIVALS, DESCHED, WITHOUT_STEERING)
QUICK = (Kind.SATURATED, Kind.MILD_HOURS, Kind.CLIMBING_HOURS)

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


def run_day(
    day: Day, contestant: str, policy: Policy, hours: int = 24, pace: Pace = ORDINARY_PACE
) -> tuple[LoopResult, Figures]:
    """Run one contestant on a day."""
    if contestant in {HALF, HALF_UNKNOWN}:
        day = dataclasses.replace(day, compared_share=0.5)
    # The oracle has to know which of equal nodes is chosen.
    day = dataclasses.replace(day, random_ties=contestant not in {ORACLE, ORACLE_STEERING})
    began = time.process_time()
    simulation, tally = day.begin(), Tally()
    act = _contestant(contestant, simulation, policy, tally)
    cycles = int(hours * 3600 / pace.interval_seconds) - 1
    with _sampling(len(day.nodes) // 2 if contestant == HALF else node_sampling.FEWEST_TO_FIND):
        result = run(simulation, act, policy, cycles, pace)
    figures = figures_of(
        result,
        time.process_time() - began,
        brief_evictions=brief_evictions(simulation, result, pace.begins_at),
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


def _contestant(name: str, simulation: Simulation, policy: Policy, tally: Tally) -> Act:
    if name in {DESCHED, WITHOUT_STEERING, HALF, HALF_UNKNOWN}:
        mode = SteeringMode.OFF if name == WITHOUT_STEERING else SteeringMode.WHEN_NEEDED
        rules = SteeringRules(mode, policy.steering.most_nodes)
        policy = replace(policy, steering=rules)
        desched = Descheduler(policy, "closed loop")
        return lambda world: tally.add(desched.cycle(world))
    if name in {ORACLE, ORACLE_STEERING}:
        return Oracle(simulation, policy, steering=name == ORACLE_STEERING).act
    return _rival(name, policy)


def _rival(name: str, policy: Policy) -> Act:
    if name == SIGS_DEFAULTS:
        return OneMetric(policy).act
    if name == VOLCANO_DEFAULTS:
        return VolcanoDefaults(policy).act
    if name in {SIGS, SIGS_LOW}:
        return Baseline(policy, by_priority, generous=name == SIGS).act
    if name in {VOLCANO, VOLCANO_LOW}:
        return Baseline(policy, biggest_first, generous=name == VOLCANO).act
    return lambda _: None


def quiet_day(jobs: Jobs, seed: int, regime: Regime) -> Day:
    """The same day with less usage, so that no node is above a target."""
    result = run_day(a_day(jobs, seed, regime), NOBODY, default_policy())[0]
    peak = float((result.load / result.targets).max())
    return a_day(jobs, seed, regime, intensity=QUIET_PEAK_RATIO / peak)


class Job(NamedTuple):
    """A day with its contestants, as input of another process."""

    jobs: Jobs
    regime: Regime
    kind: Kind
    seed: int
    contestants: tuple[str, ...]
    policy: Policy


def do(job: Job) -> list[Line]:
    """Draw the day and run the contestants on it."""
    day, policy = day_of(job.kind, job.seed, job.regime, job.jobs), job.policy
    hours, pace = size_of(job.kind).hours, pace_of(job.kind)
    found = []
    for name in job.contestants:
        described = Run(name, job.kind, job.regime, job.seed, len(day.nodes), version())
        found.append(Line(described, run_day(day, name, policy, hours, pace)[1]))
    return found


def evictions_on_a_quiet_day(jobs: Jobs, regime: Regime, seed: int) -> int:
    """The evictions of desched on a day without overload."""
    return run_day(quiet_day(jobs, seed, regime), DESCHED, default_policy())[1].evictions


def _show(regime: Regime, kind: Kind, found: dict[str, list[Figures]]) -> None:
    days = max(map(len, found.values()))
    size = size_of(kind)
    print(
        f"\n{regime}, {kind}, {size.nodes} nodes, {size.pods:,} pods, "
        f"{days} days of {size.hours} hours"
    )
    show_table(found, found.get(NOBODY))
    show_aims(kind, found)
    show_no_worse(found)
    for name in (DESCHED, WITHOUT_STEERING):
        if name in found:
            _show_reasons(name, found[name])
    sys.stdout.flush()


def _show_reasons(name: str, days: Sequence[Figures]) -> None:
    print(f"  {name}:")
    show_calibration(days)
    show_shares("Results of the evictions, as desched reports them:", [day.results for day in days])
    show_shares(
        "Nodes measured above a target, by what desched did about them in the same cycle:",
        [day.stays for day in days],
    )
    longest = max(day.acting_seconds for day in days)
    most = max(day.most_tainted for day in days)
    print(f"  Acting took at most {longest:.0f} s of a cycle; at most {most} nodes had a taint.")


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.closed_loop")
    parser.add_argument("--trace", type=Path, default=DEFAULT)
    parser.add_argument("--other-traces", type=Path, default=OTHERS, help="their folder")
    parser.add_argument("--policy", type=Path, help="a policy file instead of the usual policy")
    parser.add_argument("--quick", action="store_true", help="a small form: hours and few nodes")
    parser.add_argument("--seeds", type=int, help="days of each kind")
    parser.add_argument("--seeds-from", type=int, default=0, help="1000 and more: to judge")
    parser.add_argument("--kind", type=Kind, action="append", help="all kinds if not given")
    parser.add_argument("--regime", type=Regime, action="append", help="all if not given")
    parser.add_argument("--contestant", choices=ALL, action="append", help="nobody always runs")
    parser.add_argument("--json", type=Path, help="also write the figures of each run to this file")
    parser.add_argument("--jobs", type=int, default=1, help="days at a time, one core each")
    return parser.parse_args(arguments)


def _contestants(kind: Kind, chosen: Sequence[str] | None) -> tuple[str, ...]:
    names = CONTESTANTS.get(kind, ON_OTHER_DAYS)
    return tuple(n for n in ALL if n == NOBODY or n in chosen) if chosen else names


def _seeds(kind: Kind, options: argparse.Namespace) -> range:
    ordinary = SEEDS if kind is Kind.MANY_WORKLOADS else SEEDS_OF_OTHER_KINDS
    if kind is Kind.RELIEVED_NODE:  # no seed changes it
        return range(options.seeds_from, options.seeds_from + 1)
    count = options.seeds or (1 if options.quick else ordinary)
    return range(options.seeds_from, options.seeds_from + count)


def _with_quiet_day(options: argparse.Namespace, kinds: Iterable[Kind]) -> bool:
    return Kind.MANY_WORKLOADS in kinds and not options.contestant


def main(arguments: Sequence[str]) -> None:
    """Run the contestants on the days."""
    options = _options(arguments)
    purpose = "to judge" if options.seeds_from >= FIRST_JUDGING_SEED else "for tuning"
    print(
        f"{measured_by()} ({options.jobs} used); seeds from {options.seeds_from}, {purpose}",
        LEGEND,
        sep="\n",
        flush=True,
    )
    kinds = options.kind or (QUICK if options.quick else Kind)
    policy = default_policy()
    if options.policy:
        policy = parse_policy(options.policy.read_text(), str(options.policy)).policy
    jobs: dict[Trace, Jobs] = {
        trace: read_jobs_of(trace, options.trace, options.other_traces)
        for trace in dict.fromkeys(map(trace_of, kinds))
    }
    with ExitStack() as stack:
        pool = stack.enter_context(ProcessPoolExecutor(options.jobs))
        file = stack.enter_context(options.json.open("wb")) if options.json else None
        for regime in options.regime or Regime:
            for kind in kinds:
                if regime not in regimes_of(kind):
                    continue
                names, trace = _contestants(kind, options.contestant), jobs[trace_of(kind)]
                seeds = _seeds(kind, options)
                days = [Job(trace, regime, kind, seed, names, policy) for seed in seeds]
                found: dict[str, list[Figures]] = {name: [] for name in names}
                for line in chain.from_iterable(pool.map(do, days)):
                    found[line.run.contestant].append(line.figures)
                    if file:
                        file.write(msgspec.json.encode(line) + b"\n")
                        file.flush()
                _show(regime, kind, found)
            if regime in regimes_of(Kind.MANY_WORKLOADS) and _with_quiet_day(options, kinds):
                google = jobs[Trace.GOOGLE]
                evictions = evictions_on_a_quiet_day(google, regime, options.seeds_from)
                show_aim(f"{evictions} evictions on a quiet day", "none", met=evictions == 0)


if __name__ == "__main__":
    main(sys.argv[1:])
