"""A day of load in virtual time, with and without deschedulers: `python -m benchmarks.closed_loop`.

Contestants get the same 100 nodes and 1,600 pods at midnight and act every five minutes. Counted
are node-minutes above a target, evictions, how many of them hit a workload or a pod again within
the hour, and the minutes that pods were pending. `--quick` is a small form of it, on nodes that
are nearly all too hot for moves to help.
"""

import argparse
import os
import platform
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from benchmarks.baselines import Baseline, biggest_first, by_priority
from benchmarks.day import NODES, TARGET, Day, Floats, Regime, a_day
from benchmarks.oracle import Oracle
from benchmarks.trace import DEFAULT, SAMPLES, SECONDS_PER_SAMPLE, read_trace
from desched import __version__
from desched.cycle import CycleInfo, run_cycle
from desched.model.cluster import PodRef
from desched.model.plan import NodeClass, NodeVerdict, Plan, PlannedEviction
from desched.model.report import CycleReport, EvictionVerdict, Mode, TaintChange
from desched.model.state import State
from desched.policy.loading import parse_policy
from desched.policy.policy import Policy, Steering, SteeringRules
from desched.ports import EvictionAnswer, Evictor
from desched.simulation.world import Simulation

SEEDS = 5
REPEAT_SECONDS = 3600.0
NOBODY, SIGS, VOLCANO = "no descheduler", "first fit by priority", "biggest first"
DESCHED, DESCHED_STEERING = "desched", "desched that steers"
ORACLE, ORACLE_STEERING = "oracle", "oracle that steers"
CONTESTANTS = (NOBODY, SIGS, VOLCANO, DESCHED, DESCHED_STEERING, ORACLE, ORACLE_STEERING)
QUIET = "desched on a quiet day"
QUIET_PEAK_RATIO = 0.99
"""On a quiet day the highest load of any node comes this near to its target."""

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
class Evicted:
    """An accepted eviction; `usage` identifies the replica, which its next pod takes over."""

    at: float
    workload: str
    usage: int
    uid: str


class CountingEvictor:
    """The Evictor port; it keeps a record of what was accepted."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.accepted: list[Evicted] = []

    def evict(self, pod: PodRef, reason: str) -> EvictionAnswer:
        """Ask the simulated Eviction API."""
        cluster = self._simulation.cluster
        found = cluster.pod(pod)
        answer = self._simulation.evictor.evict(pod, reason)
        if answer.verdict is EvictionVerdict.EVICTED and found and found.owner:
            stay = next(cluster.history.stays_of(found.uid))
            now = self._simulation.clock.monotonic()
            self.accepted.append(Evicted(now, found.owner.uid, id(stay.usage), found.uid))
        return answer

    def announce(self, eviction: PlannedEviction, note: str) -> None:
        """Leave the Event to the simulation."""
        self._simulation.evictor.announce(eviction, note)


@dataclass
class Tally:
    """What desched says of itself.

    `stays` counts what it did about each node that it measured above a target, in every cycle;
    `results` what it found to have become of its evictions; `acting_seconds` is the longest time
    that a cycle took in virtual time, which only acting takes. `taints` counts how often a node
    got the soft taint, `most_tainted` is the most nodes that had it at a time.
    """

    stays: Counter[str] = field(default_factory=Counter)
    results: Counter[str] = field(default_factory=Counter)
    acting_seconds: float = 0.0
    taints: int = 0
    most_tainted: int = 0


@dataclass
class Outcome:
    """What a day came to; `load` is node x minute x (CPU, memory)."""

    load: Floats
    evictions: Sequence[Evicted]
    pending_minutes: float
    came_back: int
    landed_overloaded: int
    seconds: float
    tally: Tally = field(default_factory=Tally)

    @property
    def overload_minutes(self) -> float:
        """Node-minutes with CPU or memory above its target."""
        return float((self.load > TARGET).any(axis=2).sum())

    @property
    def workload_repeats(self) -> int:
        """Evictions of a workload that had another less than an hour before."""
        return _repeats((e.at, e.workload) for e in self.evictions)

    @property
    def pod_repeats(self) -> int:
        """Evictions of the replacement of a pod that was evicted less than an hour before."""
        return _repeats((e.at, e.usage) for e in self.evictions)


def _repeats(events: Iterable[tuple[float, object]]) -> int:
    last: dict[object, float] = {}
    found = 0
    for at, what in events:
        found += what in last and at - last[what] < REPEAT_SECONDS
        last[what] = at
    return found


def run_day(day: Day, contestant: str, policy: Policy, *, cycles: int = SAMPLES - 1) -> Outcome:
    """One contestant's day, in this many cycles of five minutes."""
    began = time.process_time()
    simulation = day.begin()
    evictor = CountingEvictor(simulation)
    tally = Tally()
    act = _contestant(contestant, simulation, evictor, policy, tally)
    pending_seconds = 0.0
    for tick in range(1, cycles + 2):
        # Acting takes time too; the next cycle begins on its tick all the same.
        simulation.clock.advance(tick * SECONDS_PER_SAMPLE - simulation.clock.monotonic())
        pending_seconds += _pending_seconds(simulation)
        if tick <= cycles:
            act()
    load = day.node_load(simulation)
    back, hot = _landings(simulation, evictor.accepted, load)
    seconds = time.process_time() - began
    return Outcome(load, evictor.accepted, pending_seconds / 60, back, hot, seconds, tally)


def _contestant(
    name: str, simulation: Simulation, evictor: Evictor, policy: Policy, tally: Tally
) -> Callable[[], None]:
    world = simulation.world(acting=True)._replace(evictor=evictor)
    if name == DESCHED:
        return _Desched(simulation, evictor, policy, tally).act
    if name == DESCHED_STEERING:
        steering = SteeringRules(Steering.WHEN_NEEDED, policy.steering.most_nodes)
        return _Desched(simulation, evictor, replace(policy, steering=steering), tally).act
    if name in {ORACLE, ORACLE_STEERING}:
        return Oracle(simulation, evictor, policy, steering=name == ORACLE_STEERING).act
    if name == NOBODY:
        return lambda: None
    baseline = Baseline(policy, by_priority if name == SIGS else biggest_first)
    return lambda: baseline.act(world)


class _Desched:
    """The real cycle, and a tally of why nodes that are really hot were not relieved."""

    def __init__(
        self, simulation: Simulation, evictor: Evictor, policy: Policy, tally: Tally
    ) -> None:
        self._world = simulation.world(acting=True)._replace(evictor=evictor)
        self._policy = policy
        self._state = State()
        self._number = 0
        self._tally = tally
        self._tainted: set[str] = set()

    def act(self) -> None:
        self._number += 1
        info = CycleInfo(self._number, Mode.EVICT, "closed loop")
        report, self._state = run_cycle(self._world, self._policy, self._state, info)
        _count_stays(report, self._tally.stays)
        self._tally.results.update(r.result for r in report.settled if r.result is not None)
        longest = max(self._tally.acting_seconds, report.duration_seconds)
        self._tally.acting_seconds = longest
        self._count_taints(report.taints)

    def _count_taints(self, changes: Iterable[TaintChange]) -> None:
        for change in changes:
            if change.done and change.tainted:
                self._tally.taints += change.node not in self._tainted
                self._tainted.add(change.node)
            elif change.done:
                self._tainted.discard(change.node)
            self._tally.most_tainted = max(self._tally.most_tainted, len(self._tainted))


def _count_stays(report: CycleReport, stays: Counter[str]) -> None:
    """Count each node measured above its target under what became of it."""
    refused: dict[str, Counter[str]] = {}
    for refusal in report.plan.refusals:
        refused.setdefault(refusal.node, Counter())[refusal.reason] += 1
    for verdict in report.plan.nodes:
        if any(level > p.target_ratio for p in verdict.pressures for _, level in p.measured):
            why = _acted_on(verdict.node, report) or _left(verdict, report.plan)
            stays[why or _most_of(refused.get(verdict.node))] += 1


def _acted_on(node: str, report: CycleReport) -> str:
    if any(o.node == node and o.verdict is EvictionVerdict.EVICTED for o in report.outcomes):
        return "evicted from"
    if any(eviction.node == node for eviction in report.plan.evictions):
        return f"planned, but not done ({report.not_acting or 'not confirmed'})"
    return ""


def _left(verdict: NodeVerdict, plan: Plan) -> str:
    if verdict.node_class is not NodeClass.OVERLOADED:
        return f"not overloaded in this cycle's eyes ({verdict.reason or 'corrected'})"
    if plan.hold is not None:
        return f"cycle held: {plan.hold}"
    return f"node: {verdict.reason}" if verdict.reason is not None else ""


def _most_of(reasons: Counter[str] | None) -> str:
    return f"pods: mostly {reasons.most_common(1)[0][0]}" if reasons else "no pods"


def _pending_seconds(simulation: Simulation) -> float:
    """How long pods waited for a node in the last five minutes, summed."""
    now = simulation.clock.now()
    waited = 0.0
    for pod in simulation.cluster.read_cluster().pods:
        until = pod.started_at if pod.node and pod.started_at else now
        since = max((now - pod.created_at).total_seconds() - SECONDS_PER_SAMPLE, 0.0)
        waited += max(0.0, (until - pod.created_at).total_seconds() - since)
    return waited


def _landings(
    simulation: Simulation, evictions: Sequence[Evicted], load: Floats
) -> tuple[int, int]:
    """How many replacements came straight back, and how many made another node hot.

    The second: three minutes after it landed elsewhere, that node was above a target.
    """
    by_usage: dict[int, list[tuple[float, str, str]]] = {}
    for stay in simulation.cluster.history.stays():
        by_usage.setdefault(id(stay.usage), []).append((stay.began, stay.user, stay.node))
    back = hot = 0
    for evicted in evictions:
        stays = sorted(by_usage[evicted.usage])
        left = next(node for _, uid, node in stays if uid == evicted.uid)
        landed = next(((at, node) for at, _, node in stays if at >= evicted.at), None)
        if landed is None:
            continue
        at, node = landed
        back += node == left
        minute = min(int(at // 60) + 3, load.shape[1] - 1)
        hot += node != left and bool((load[int(node[1:]), minute] > TARGET).any())
    return back, hot


def quiet_day(trace: Floats, seed: int, regime: Regime, nodes: int) -> Day:
    """The same day with so much less use that no node comes above a target."""
    day = a_day(trace, seed, regime, nodes=nodes)
    peak = float((day.node_load(day.begin()) / TARGET).max())
    return a_day(trace, seed, regime, nodes=nodes, intensity=QUIET_PEAK_RATIO / peak)


# --- what is shown ----------------------------------------------------------------------------


def _spread(values: Sequence[float], digits: int = 0) -> str:
    middle = statistics.median(values)
    return f"{middle:,.{digits}f} ({min(values):,.{digits}f}-{max(values):,.{digits}f})"


def _share(parts: Sequence[int], wholes: Sequence[int]) -> str:
    return f"{100 * sum(parts) / max(1, sum(wholes)):.1f} %"


def _table(found: dict[str, list[Outcome]]) -> None:
    heads = (
        "overload node-min",
        "evictions",
        "w.load rep.",
        "pod rep.",
        "back",
        "hot",
        "taints",
        "pending",
        "s",
    )
    widths = (27, 22, 12, 9, 7, 7, 8, 9, 6)
    print("  " + " " * 22 + "".join(f"{h:>{w}}" for h, w in zip(heads, widths, strict=True)))
    for name, days in found.items():
        counts = [len(day.evictions) for day in days]
        cells = (
            _spread([day.overload_minutes for day in days]),
            _spread(counts),
            _share([day.workload_repeats for day in days], counts),
            _share([day.pod_repeats for day in days], counts),
            _share([day.came_back for day in days], counts),
            _share([day.landed_overloaded for day in days], counts),
            f"{statistics.median(day.tally.taints for day in days):.0f}",
            f"{statistics.median(day.pending_minutes for day in days):.0f}",
            f"{statistics.median(day.seconds for day in days):.1f}",
        )
        print(f"  {name:<22}" + "".join(f"{c:>{w}}" for c, w in zip(cells, widths, strict=True)))


def _aims(name: str, found: dict[str, list[Outcome]]) -> None:
    def removed(who: str) -> list[float]:
        pairs = zip(found[NOBODY], found[who], strict=True)
        return [before.overload_minutes - after.overload_minutes for before, after in pairs]

    def evictions(who: str) -> float:
        return statistics.median(len(day.evictions) for day in found[who])

    share = statistics.median(
        own / most for own, most in zip(removed(name), removed(ORACLE), strict=True)
    )
    _aim(
        f"{name} removes {share:.0%} of what the oracle removes", "at least 70 %", met=share >= 0.7
    )
    total = sum(len(day.evictions) for day in found[name])
    repeats = sum(day.workload_repeats for day in found[name]) / max(1, total)
    _aim(f"{repeats:.1%} of its evictions hit a workload again", "at most 2 %", met=repeats <= 0.02)
    best = max((SIGS, VOLCANO), key=lambda who: statistics.median(removed(who)))
    ratio = evictions(name) / max(1.0, evictions(best))
    _aim(f"it makes {ratio:.0%} of the evictions of '{best}'", "at most half", met=ratio <= 0.5)


def _aim(text: str, aim: str, *, met: bool) -> None:
    print(f"  {'met   ' if met else 'MISSED'}  {text} ({aim})")


class Job(NamedTuple):
    """One contestant's day of so many nodes; picklable, for it is done in another process."""

    trace: Floats
    nodes: int
    regime: Regime
    seed: int
    contestant: str


def do(job: Job) -> Outcome:
    """The day, which is drawn anew: its series are known by their identity."""
    make = quiet_day if job.contestant == QUIET else a_day
    day = make(job.trace, job.seed, job.regime, nodes=job.nodes)
    name = DESCHED if job.contestant == QUIET else job.contestant
    return run_day(day, name, default_policy())


def _show(regime: Regime, found: dict[str, list[Outcome]], quiet: Outcome) -> None:
    print(f"\n{regime}")
    _table(found)
    count = len(quiet.evictions)
    _aim(f"{DESCHED} makes {count} evictions on a quiet day", "none", met=count == 0)
    for name in (DESCHED, DESCHED_STEERING):
        _aims(name, found)
        tallies = [day.tally for day in found[name]]
        _shares(
            "What became of its evictions, by its own judgement:",
            sum((tally.results for tally in tallies), Counter()),
        )
        _shares(
            "Nodes measured above a target, by what it did about them in that cycle:",
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
    """All contestants on all days."""
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
