"""Clusters with days of history and one more day, for which a policy is tuned.

`python -m benchmarks.tuned_days` prints the figures of the default policy and of the recommended
one. As in `benchmarks.closed_loop`, seeds from 1,000 on are for judging.

A day of the trace (`benchmarks.day`) is repeated with changes: on each day each workload uses more
or less and does so earlier or later. In the history nothing moved; the day after it is run in the
closed loop, whose loads are by the minute and whose scheduler chooses any of equal nodes.
"""

import argparse
import dataclasses
import resource
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from benchmarks.aims import DESCHED, NOBODY
from benchmarks.closed_loop import POLICY, run_day
from benchmarks.day import NODE, Regime, Size, a_day
from benchmarks.measures import measured_by
from benchmarks.trace import DEFAULT, SAMPLES, SECONDS_PER_SAMPLE, Jobs, read_jobs
from desched.history.past import Past, PastNode, PastPod, PastUsage
from desched.model.resources import Resource
from desched.policy.loading import PolicyText, read_policy
from desched.whatif.clock import EPOCH
from desched.whatif.closed_loop import Day, Deployment
from desched.whatif.figures import PolicyFigures
from desched.whatif.history import Floats, UsageSeries
from desched.whatif.past.backtest import backtest
from desched.whatif.past.run import Span
from desched.whatif.template import PodTemplate
from desched.whatif.tuning.replays import Score, Stop, local_executor, usable_processors
from desched.whatif.tuning.sampler import OptunaSampler
from desched.whatif.tuning.search import Search, front, spans_of
from desched.whatif.tuning.space import Space

LEAD = timedelta(hours=2)
"""The history begins so much earlier, for the windows of the first cycles."""

LEVEL_SIGMA, MOST_SHIFT = 0.15, 6
"""How much a workload differs from day to day: log-normal, and in samples of five minutes."""


class Cluster(NamedTuple):
    """Days of history, the day that follows, and that day as a history after a day before it."""

    past: Past
    unseen: Day
    later: Past


def a_cluster(jobs: Jobs, seed: int, days: int, size: Size) -> Cluster:
    """The cluster of a seed."""
    day, chance = a_day(jobs, seed, Regime.FAIR, size=size), np.random.default_rng([seed, 1])
    levels = [_levels(each) for each in day.deployments]
    history = [
        np.concatenate([_other_day(one, chance) for _ in range(days)], axis=1) for one in levels
    ]
    following = [_other_day(one, chance) for one in levels]
    unseen = [
        replace(each, template=_with_usage(each.template, usage))
        for each, usage in zip(day.deployments, following, strict=True)
    ]
    later = [
        np.concatenate([before[:, -SAMPLES:], after], axis=1)
        for before, after in zip(history, following, strict=True)
    ]
    return Cluster(_past(day, history), replace(day, deployments=tuple(unseen)), _past(day, later))


def _with_usage(template: PodTemplate, levels: Floats) -> PodTemplate:
    usage = tuple(UsageSeries(SECONDS_PER_SAMPLE, each) for each in levels)
    return msgspec.structs.replace(template, usage_by_replica=usage)


def _levels(deployment: Deployment) -> Floats:
    """Usage by replica: replica x SAMPLES x (CPU, memory)."""
    found = []
    for series in deployment.template.usage_by_replica:
        assert isinstance(series, UsageSeries)
        rows = series.bank.before[series.first : series.first + series.levels + 1]
        steps = np.diff(rows, axis=0) / series.bank.step_seconds
        found.append(steps.reshape(SAMPLES, -1, 2).mean(axis=1))
    return np.stack(found)


def _other_day(levels: Floats, chance: np.random.Generator) -> Floats:
    shift = int(chance.integers(-MOST_SHIFT, MOST_SHIFT, endpoint=True))
    factor = chance.lognormal(0, LEVEL_SIGMA)
    found: Floats = np.roll(levels, shift, axis=1) * np.array([factor, 1.0])
    return found


def _past(day: Day, history: list[Floats]) -> Past:
    cluster = day.begin().cluster.read_cluster()
    index = {node.name: i for i, node in enumerate(cluster.nodes)}
    started_at = EPOCH + timedelta(days=30)
    steps = history[0].shape[1]
    used = np.zeros((len(index), steps, 2))
    pods, rows = list[PastPod](), list[Floats]()
    by_workload = {d.name: iter(h) for d, h in zip(day.deployments, history, strict=True)}
    for pod in cluster.pods:
        levels = next(by_workload[pod.labels["app"]])
        used[index[pod.node]] += levels
        past = PastPod(
            msgspec.structs.replace(
                pod, uid=f"past-{pod.uid}", phase="Running", ready=True, started_at=EPOCH
            ),
            EPOCH,
            None,
            cluster.workload_of(pod),
            len(rows) * (steps + 1),
            0,
            steps,
        )
        pods.append(past)
        rows.append(
            np.concatenate([np.zeros((1, 2)), np.cumsum(levels * SECONDS_PER_SAMPLE, axis=0)])
        )
    size = np.array([NODE.cpu_millicores, NODE.memory_bytes])
    ratios = np.minimum(1.0, used / size).astype(np.float32)
    return Past(
        started_at,
        SECONDS_PER_SAMPLE,
        steps,
        tuple(PastNode(node, EPOCH) for node in cluster.nodes),
        tuple(pods),
        PastUsage(np.concatenate(rows), np.zeros(len(rows) * (steps + 1), dtype=np.uint16)),
        {Resource.CPU: ratios[:, :, 0], Resource.MEMORY: ratios[:, :, 1]},
    )


def main() -> None:
    """Tune on the history of each cluster, and compare on the day after it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path, default=DEFAULT)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seeds-from", type=int, default=0)
    parser.add_argument("--days", type=int, default=2)
    parser.add_argument("--nodes", type=int, default=24)
    parser.add_argument("--policies", type=int, default=24)
    parser.add_argument("--policy", type=Path, help="today's policy instead of the default one")
    parser.add_argument("--more-evictions", type=float, default=0.0)
    found = parser.parse_args()
    jobs, today = read_jobs(found.trace), PolicyText(POLICY, "default")
    if found.policy:
        today = read_policy(found.policy)
    effort = Effort(found.policies, found.more_evictions)
    print(measured_by())
    for seed in range(found.seeds_from, found.seeds_from + found.seeds):
        cluster = a_cluster(jobs, seed, found.days, Size(found.nodes, 16 * found.nodes))
        print(f"seed {seed}:", flush=True)
        for line in _measured(cluster, today, effort):
            print(f"  {line}", flush=True)


class Effort(NamedTuple):
    """How many policies are tried, and by what share evictions may grow."""

    policies: int
    more_evictions: float


def _measured(cluster: Cluster, today: PolicyText, effort: Effort) -> Iterator[str]:
    began = _cpu_seconds()
    past, space = cluster.past, Space(today)
    spans = spans_of(Span(past.started_at + LEAD, _ends_at(past)))
    stop = Stop()
    with local_executor({"": past}, usable_processors(), stop) as executor:
        search = Search(space, spans, executor, lambda: bool(stop))
        search.begin()
        search.run(OptunaSampler(space.dimensions, space.today_values, 0, 0), effort.policies)
        yield f"history of the search, today: {_text(search.today.played.score)}"
        yield f"{len(search.candidates)} policies, of the front:"
        for each in front(search.candidates):
            changes = "; ".join(change.line for change in each.changes) or "today"
            yield f"  {_text(each.played.score)}: {changes}"
        recommended = search.recommend(effort.more_evictions)
    yield f"{_cpu_seconds() - began:.0f} s of CPU"
    later = backtest(past, [space.today], spans.judged).policies[0]
    yield f"later days, today: {_text(_score(later))}"
    names, policies = ["today"], [space.today]
    if recommended is None:
        yield "today's policy is as good"
    else:
        names.append("recommended")
        policies.append(recommended.candidate.policy)
        yield f"later days, recommended: {_text(recommended.judged)}"
        for effect in recommended.effects:
            yield f"  without {effect.key}: {_text(effect.without)}"
        for change in recommended.candidate.changes:
            yield f"  {change.line}"
    nobody = run_day(cluster.unseen, NOBODY, space.today)[0]
    yield f"unseen day, nobody: {_text(Score.of(nobody))}"
    ends_at = _ends_at(cluster.later)
    span = Span(ends_at - timedelta(days=1), ends_at)
    replayed = backtest(cluster.later, policies, span, by_first_lines=True)
    for name, policy, again in zip(names, policies, replayed.policies, strict=True):
        result = run_day(cluster.unseen, DESCHED, policy)[0]
        judged = dataclasses.replace(result, targets=nobody.targets)
        yield f"unseen day, {name}: {_text(Score.of(judged))}"
        yield f"unseen day replayed, {name}: {_text(_score(again))}"


def _ends_at(past: Past) -> datetime:
    return past.started_at + timedelta(seconds=past.steps * past.step_seconds)


def _score(figures: PolicyFigures) -> Score:
    left = figures.with_policy
    return Score(left.node_minutes, left.excess_point_minutes, figures.evictions)


def _text(score: Score) -> str:
    return (
        f"{score.node_minutes:,.0f} node-minutes, {score.point_minutes:,.0f} point-minutes, "
        f"{score.evictions} evictions"
    )


def _cpu_seconds() -> float:
    return sum(
        each.ru_utime + each.ru_stime
        for each in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


if __name__ == "__main__":
    main()
