"""Days on which more happens than load: CronJobs, a day with life, and a node that was relieved.

The first ones are a day of the Google trace with less load (`BASE`), so that there is room.
"""

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np

from benchmarks.day import Size, placed
from benchmarks.life import (
    BarePod,
    CronJob,
    Drain,
    NodeArrival,
    NodeLoss,
    Restart,
    Rollout,
    autoscaled,
)
from benchmarks.other_days import Draw, other_day
from benchmarks.trace import SECONDS_PER_SAMPLE, Jobs, Trace
from desched.lab.closed_loop import Day, Deployment, Event
from desched.lab.history import Usage, UsageSeries
from desched.lab.template import PodTemplate
from desched.model.cluster import SchedulingClass
from desched.model.resources import Amounts

GIB = 2**30
BASE = Draw(Trace.GOOGLE, 0.55)
HOURS = range(1, 24)

CRONJOBS_PER_NODE, CRONJOBS_OF_LIFE = 1.0, 0.5
JOB_REQUEST_SHARE, JOB_SHARES, JOB_MINUTES = 0.02, (0.08, 0.2), (10, 30)
"""Of a node's CPU: what a Job requests, and the range of what it uses; it lasts so long."""

AUTOSCALED_SHARE = 0.2
"""Of Deployments."""
ROLLOUTS_PER_HOUR, LOSSES, ARRIVALS_AFTER_MINUTES, DRAINS, DRAIN_MINUTES = 2, 2, 30, 3, 30
RESTARTED_SHARE, START_FACTOR = 0.1, 2.0
"""The Deployments of which a pod restarts, and how much more CPU it uses in that sample."""


def day_with_cronjobs(jobs: Jobs, seed: int, size: Size | None = None) -> Day:
    """Each hour a Job for each node, which requests less than it uses."""
    day, chance = other_day(jobs, seed, BASE, size), np.random.default_rng([seed, 2])
    return replace(day, events=_cronjobs(day, CRONJOBS_PER_NODE, chance))


def with_own_minutes(day: Day, seed: int) -> Day:
    """The same day with each CronJob at a minute of its own, not all at the same one."""
    chance = np.random.default_rng([seed, 3])
    events = (
        replace(event, at_minute=int(chance.integers(60))) if isinstance(event, CronJob) else event
        for event in day.events
    )
    return replace(day, events=tuple(events))


def day_with_life(jobs: Jobs, seed: int, size: Size | None = None) -> Day:
    """A day on which everything happens that `benchmarks.life` has."""
    day, chance = other_day(jobs, seed, BASE, size), np.random.default_rng([seed, 2])
    deployments = [replace(each, nodes=()) for each in day.deployments]
    events: list[Event] = [*_cronjobs(day, CRONJOBS_OF_LIFE, chance)]
    numbers = chance.permutation(len(deployments)).tolist()
    scaled = numbers[: round(AUTOSCALED_SHARE * len(numbers))]
    others = numbers[len(scaled) :]
    for number in scaled:
        deployments[number], scaling = autoscaled(deployments[number], SECONDS_PER_SAMPLE)
        events.append(scaling)
    for number in others[: round(RESTARTED_SHARE * len(numbers))]:
        deployments[number], restart = _restarted(deployments[number], chance)
        events.append(restart)
    events += _rollouts(deployments, chance)
    events += _nodes_that_change(day, chance)
    return placed(replace(day, deployments=tuple(deployments), events=tuple(events)))


def relieved_node() -> Day:
    """Ten nodes: one has too much load and, relieved, the fewest requests, so that Jobs go there.

    On the first node, a pod without a controller uses six times its request. Each hour, ten Jobs
    use six times their requests for 20 minutes. It always is the same day.
    """
    names = [f"n{i}" for i in range(10)]
    pairs = names[1:] + names[5:]
    deployments = (
        _steady("web", 1_000, 1_000, [names[0]] * 4 + names[1:5]),
        _steady("base", 2_000, 1_400, pairs),
        _steady("fill", 1_000, 700, names[1:5]),
    )
    agent = BarePod("agent", _template("agent", 500, 3_000), names[0])
    jobs = [CronJob(f"cron{i}", 200, 1_200, 20, range(1, 10)) for i in range(10)]
    nodes = dict.fromkeys(names, Amounts(8_000, 64 * GIB))
    return Day(nodes, deployments, events=(agent, *jobs))


def _template(name: str, requested: int, used: float) -> PodTemplate:
    requests = Amounts(requested, GIB, pods=1)
    return PodTemplate(
        scheduling=SchedulingClass(requests), usage=Usage(used, GIB), labels={"app": name}
    )


def _steady(name: str, requested: int, used: float, nodes: Sequence[str]) -> Deployment:
    template = _template(name, requested, used)
    series = UsageSeries(SECONDS_PER_SAMPLE, [template.usage])
    template = msgspec.structs.replace(template, usage_by_replica=(series,) * len(nodes))
    return Deployment(name, template, tuple(nodes))


def _cronjobs(day: Day, per_node: float, chance: np.random.Generator) -> tuple[CronJob, ...]:
    cores = float(np.mean([node.cpu_millicores for node in day.nodes.values()]))
    return tuple(
        CronJob(
            f"cron{i:03}",
            round(JOB_REQUEST_SHARE * cores),
            cores * chance.uniform(*JOB_SHARES),
            int(chance.integers(*JOB_MINUTES, endpoint=True)),
            HOURS,
        )
        for i in range(round(per_node * len(day.nodes)))
    )


def _time(chance: np.random.Generator) -> float:
    """A second of the day, but not of its first and last hour."""
    return float(chance.uniform(HOURS.start, HOURS.stop - 1)) * 3600


def _restarted(deployment: Deployment, chance: np.random.Generator) -> tuple[Deployment, Restart]:
    """The Deployment with one pod that restarts once, and what the start uses."""
    usage = list(deployment.template.usage_by_replica)
    at, number = _time(chance), int(chance.integers(len(usage)))
    chosen = usage[number]
    assert isinstance(chosen, UsageSeries)
    amounts = chosen.amounts
    amounts[int(at // SECONDS_PER_SAMPLE), 0] *= START_FACTOR
    usage[number] = UsageSeries(SECONDS_PER_SAMPLE, amounts)
    template = msgspec.structs.replace(deployment.template, usage_by_replica=tuple(usage))
    restart = Restart(at, deployment.namespace, deployment.name, number)
    return replace(deployment, template=template), restart


def _rollouts(deployments: Sequence[Deployment], chance: np.random.Generator) -> list[Rollout]:
    found = []
    for hour in HOURS:
        for number in chance.choice(len(deployments), ROLLOUTS_PER_HOUR, replace=False):
            chosen, at = deployments[number], 3600 * (hour + chance.uniform(0, 0.9))
            found.append(Rollout(at, chosen.namespace, chosen.name))
    return found


def _nodes_that_change(day: Day, chance: np.random.Generator) -> list[Event]:
    """Nodes that are lost and replaced later, and others that are drained for a while."""
    names = [str(name) for name in chance.choice(list(day.nodes), LOSSES + DRAINS, replace=False)]
    found: list[Event] = [Drain(_time(chance), name, DRAIN_MINUTES) for name in names[LOSSES:]]
    for name in names[:LOSSES]:
        at = _time(chance)
        found.append(NodeLoss(at, name))
        arrives = at + ARRIVALS_AFTER_MINUTES * 60
        found.append(NodeArrival(arrives, f"{name}-new", day.nodes[name]))
    return found
