"""Measurements of the simulated cluster, as Prometheus would have them."""

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from desched.model.cluster import ClusterState, Node
from desched.model.load import (
    ClusterLoad,
    Level,
    LoadHistory,
    Measured,
    PodUsage,
    Unknown,
    UnknownReason,
)
from desched.model.resources import Resource
from desched.policy.policy import DestinationWindow, Policy, ResourceRule
from desched.ports import ChoosePods, all_pods
from desched.simulation.cluster import SimulatedCluster
from desched.simulation.history import Floats, Usage, host_of

MEASURED = (Resource.CPU, Resource.MEMORY)
"""The resources in the order of the fields of Usage."""
HISTORY_STEPS = 10

T = TypeVar("T")


def size_of(node: Node) -> Usage:
    """What the whole machine has of each measured resource."""
    return Usage(node.capacity.cpu_millicores, node.capacity.memory_bytes)


class SimulatedLoad:
    """The LoadReader port: means over windows that end now.

    A node is never more than full, although its pods' usage may add up to more.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def read_load(
        self,
        cluster: ClusterState,
        policy: Policy,
        choose: ChoosePods = all_pods,  # noqa: ARG002  (reading all pods costs nothing here)
    ) -> ClusterLoad:
        """The load of nodes and pods over the policy's windows."""
        rules = [rule for rule in policy.rules if rule.resource in MEASURED]
        names = [node.name for node in cluster.nodes]
        nodes = NodeLoads(cluster.nodes, self._cluster)
        with_windows = [rule for rule in rules if rule.destination_windows]
        step_seconds = policy.sustained_seconds // HISTORY_STEPS
        levels = {rule.resource: nodes.levels(rule) for rule in rules}
        recent = {rule.resource: nodes.recent(rule, step_seconds) for rule in rules if step_seconds}
        further = {rule.resource: nodes.statistics(rule) for rule in with_windows}
        return ClusterLoad(
            nodes=_by_node(names, levels),
            pods=self._pods(cluster, policy),
            history=_by_node(names, recent) if recent else {},
            destination_ratios=_by_node(names, further) if further else {},
        )

    def _pods(self, cluster: ClusterState, policy: Policy) -> dict[tuple[str, str], PodUsage]:
        history, now = self._cluster.history, self._cluster.clock.monotonic()
        pods = [pod for pod in cluster.pods if pod.node]
        users = [pod.uid for pod in pods]
        numbers = history.numbers(users)
        began = np.array([history.stays_of(user)[0].began for user in users])
        # A rate counts the time before the pod as no usage; a mean of samples omits it.
        age_seconds = np.maximum(now - began, math.ulp(1.0))
        columns: list[list[tuple[float, ...]]] = []
        for i, resource in enumerate(MEASURED):
            windows = policy.windows(resource)
            means = np.zeros((len(users), len(windows)))
            for position, window in enumerate(windows):
                means[:, position] = history.of_numbers(numbers, now - window, now)[:, i]
                if resource is Resource.MEMORY:
                    means[:, position] *= np.maximum(1.0, window / age_seconds)
            measured = (began < now) & ~np.isnan(means).any(axis=1)
            rows: list[tuple[float, ...]] = list(map(tuple, means.tolist()))
            for position in np.flatnonzero(~measured).tolist():
                rows[position] = ()
            columns.append(rows)
        keys = ((pod.namespace, pod.name) for pod in pods)
        return dict(zip(keys, map(PodUsage, *columns), strict=True))


class NodeLoads:
    """The load of some nodes over time, in their order."""

    def __init__(self, nodes: Sequence[Node], cluster: SimulatedCluster) -> None:
        self._history = cluster.history
        self._names = [node.name for node in nodes]
        self._hosts = [host_of(name) for name in self._names]
        self._sizes = np.array([size_of(node) for node in nodes], dtype=float).reshape(-1, 2)
        self._now = now = cluster.clock.monotonic()
        at = cluster.clock.now()
        ages = [(at - node.created_at).total_seconds() for node in nodes]
        # An adopted node is older than its first measurement.
        stays = [self._history.stays_of(host)[-1] for host in self._hosts]
        began = [stay.began for stay in stays]
        self._measured = np.maximum(np.array([now - age for age in ages]), began)
        self._removed = np.array([stay.ended for stay in stays])

    def shares(self, begin: float, end: float) -> Floats:
        """Mean usage as shares of capacity, node x (CPU, memory), more than 1 where it adds up.

        NaN where samples do not cover the whole time.
        """
        used = self._history.of_nodes(self._names, begin, end)
        hosts = self._history.of_users(self._hosts, begin, end)
        absent = (self._measured > begin) | (self._removed < end)
        found: Floats = np.where(absent[:, None] | np.isnan(hosts), np.nan, used / self._sizes)
        return found

    def _ratios(self, resource: Resource, begin: float, end: float) -> Floats:
        found: Floats = np.minimum(1.0, self.shares(begin, end)[:, MEASURED.index(resource)])
        return found

    def levels(self, rule: ResourceRule) -> list[Measured | Unknown]:
        """The load of each node over the windows of a rule."""
        windows = rule.windows_seconds
        ratios = [self._ratios(rule.resource, self._now - window, self._now) for window in windows]
        found: list[Measured | Unknown] = []
        for position, row in enumerate(np.stack(ratios, axis=1).tolist()):
            if any(map(math.isnan, row)):
                covered, longest = self._now - self._measured[position], max(windows)
                detail = f"samples cover {covered:.0f} of {longest} seconds"
                if covered >= longest:
                    detail = f"samples do not cover all of the last {longest} seconds"
                found.append(Unknown(UnknownReason.WINDOW_NOT_COVERED, detail))
            else:
                found.append(Measured(tuple(map(Level, windows, row))))
        return found

    def recent(self, rule: ResourceRule, step_seconds: int) -> list[LoadHistory]:
        """The history of each node over the time for which load must last."""
        points = self._points(rule, HISTORY_STEPS, step_seconds)
        return [LoadHistory(step_seconds, row) for row in points]

    def statistics(self, rule: ResourceRule) -> list[tuple[float | None, ...]]:
        """For each node one value for each destination window."""
        columns = [self._statistic(rule, window) for window in rule.destination_windows]
        return list(zip(*columns, strict=True))

    def _statistic(self, rule: ResourceRule, window: DestinationWindow) -> list[float | None]:
        step_seconds = rule.windows_seconds[0]
        rows = self._points(rule, max(1, window.window_seconds // step_seconds), step_seconds)
        known = ([point for point in row if point is not None] for row in rows)
        pairs = zip(rows, known, strict=True)
        return [window.of(found) if len(found) == len(row) else None for row, found in pairs]

    def _points(
        self, rule: ResourceRule, steps: int, step_seconds: int
    ) -> list[tuple[float | None, ...]]:
        """Means over the shortest window, which ends at regular times, the last time now."""
        window = rule.windows_seconds[0]
        ends = [self._now - i * step_seconds for i in reversed(range(steps + 1))]
        columns = [self._ratios(rule.resource, end - window, end) for end in ends]
        rows = np.stack(columns, axis=1).tolist()
        return [tuple(None if math.isnan(point) else point for point in row) for row in rows]


def _by_node(
    names: Sequence[str], found: Mapping[Resource, Sequence[T]]
) -> dict[str, dict[Resource, T]]:
    return {name: {r: found[r][i] for r in found} for i, name in enumerate(names)}
