"""The new pods of Jobs that have been seen: when they came, and what they requested and used."""

import math
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from desched.model.cluster import Node, Pod
from desched.model.resources import Resource
from desched.model.state import Newcomers, State
from desched.planning.overload.pod_usage import UsageBook

HOUR = timedelta(hours=1)
TIMES = 12
"""The times of an hour that are told apart: as long as the usual interval of cycles."""

LEAST_KNOWN, USUAL_USE = 3, 2.0
"""Fewer new pods show nothing. Fewer measured ones do not show what they use: then this multiple of
their requests counts."""

USE_HALF_LIFE, RATE_HALF_LIFE = timedelta(hours=12), timedelta(hours=2)
FORGOTTEN_NODES = 0.001
"""What was seen fades, until so little is left."""

MOST_REQUESTED_SHARE = 0.05
"""Of the nodes: more new pods in an hour are those of a new cluster, which do not come again."""

MUCH = 0.5
"""Soft taints wait for Jobs that request so much of what comes on average in the same time."""


def share_of(pod: Pod, node: Node) -> float:
    """The share of a node that a pod requests as the scheduler compares: mean of CPU and memory."""
    requests, size = pod.scheduling.requests, node.allocatable
    cpu = requests.cpu_millicores / max(1, size.cpu_millicores)
    return (cpu + requests.memory_bytes / max(1, size.memory_bytes)) / 2


def lasts(pod: Pod) -> bool:
    """Whether the pod neither has ended nor ends by itself."""
    return not (pod.finished or pod.of_job)


def seen_newcomers(book: UsageBook, state: State) -> Newcomers | None:
    """What Jobs request in an hour and use, by their pods that are there now, or were before.

    Pods of other owners do not count: what a rollout starts replaces other pods.
    """
    nodes = book.snapshot.cluster.node_by_name
    new = [
        (pod, nodes[pod.node])
        for pod in book.snapshot.cluster.pods
        if pod.node in nodes and pod.of_job and _began(pod) > book.now - HOUR
    ]
    newcomers = _faded(state.newcomers, book.now)
    if len(new) < LEAST_KNOWN:
        return newcomers
    by_time = np.zeros(TIMES)
    for pod, node in new:
        by_time[_time_of(_began(pod))] += share_of(pod, node)
    by_time *= min(1.0, MOST_REQUESTED_SHARE * len(nodes) / max(by_time.sum(), FORGOTTEN_NODES))
    ratios = [
        max(used) / max(1, node.allocatable.cpu_millicores) / share
        for pod, node in new
        if (share := share_of(pod, node)) and (used := book.measured(pod, Resource.CPU))
    ]
    use = float(np.median(ratios)) if len(ratios) >= LEAST_KNOWN else USUAL_USE
    if newcomers is not None:
        use = max(use, newcomers.use_of_requests)
        by_time = np.maximum(by_time, newcomers.requested_by_time)
    since = newcomers.since if newcomers else book.now
    return Newcomers(use, tuple(by_time.tolist()), book.now, since)


class Due(NamedTuple):
    """What Jobs request that are expected soon, 1.0 for a whole node.

    `much` is whether it is enough that nodes get soft taints against it.
    """

    requested: float = 0.0
    much: bool = False


def due_jobs(state: State, now: datetime) -> Due:
    """What Jobs are expected until the cycle after the next, by when they came before.

    Without a cycle before this one, those of an hour are.
    """
    newcomers, last = state.newcomers, state.last_cycle
    if newcomers is None:
        return Due()
    ahead = min(HOUR, 2 * (now - last.at)) if last else HOUR
    coming = {_time_of(now + i * HOUR / TIMES) for i in range(1 + math.ceil(TIMES * ahead / HOUR))}
    requested = math.fsum(newcomers.requested_by_time[time] for time in coming)
    return Due(requested, requested >= MUCH * newcomers.requested_nodes * len(coming) / TIMES)


def _faded(newcomers: Newcomers | None, now: datetime) -> Newcomers | None:
    """What was seen before, as far as it counts now."""
    if newcomers is None:
        return None
    passed = now - newcomers.at
    rate = math.exp2(-(passed / RATE_HALF_LIFE))
    by_time = tuple(rate * requested for requested in newcomers.requested_by_time)
    if math.fsum(by_time) < FORGOTTEN_NODES:
        return None
    use = newcomers.use_of_requests * math.exp2(-(passed / USE_HALF_LIFE))
    since = None if newcomers.since is None or now - newcomers.since >= HOUR else newcomers.since
    return Newcomers(use, by_time, now, since)


def _began(pod: Pod) -> datetime:
    return pod.started_at or pod.created_at


def _time_of(moment: datetime) -> int:
    return moment.minute * TIMES // 60
