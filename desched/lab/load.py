"""Measurements of the simulated cluster, as Prometheus would have them."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
from msgspec.structs import replace

from desched.lab.cluster import SimulatedCluster
from desched.lab.history import Floats, Mask, Usage, host_of
from desched.model.cache import cached
from desched.model.cluster import ClusterState, Node, Pod
from desched.model.load import (
    ClusterLoad,
    Level,
    LoadHistory,
    Measured,
    PodChoice,
    PodPast,
    PodUsage,
    Unknown,
    UnknownReason,
)
from desched.model.resources import Resource
from desched.policy.policy import DestinationWindow, Policy, ResourceRule
from desched.ports import ChoosePods, all_pods

MEASURED = (Resource.CPU, Resource.MEMORY)
"""The resources in the order of the fields of Usage."""
HOUR = (12, 300)
"""The steps of the last hour, which is read for people, and their length in seconds."""

Histories = dict[str, dict[Resource, LoadHistory]]

T = TypeVar("T")


def size_of(node: Node) -> Usage:
    """What the whole machine has of each measured resource."""
    return Usage(node.capacity.cpu_millicores, node.capacity.memory_bytes)


class SimulatedLoad:
    """The LoadReader port: means over windows that end now.

    A node is never more than full, although its pods' usage may add up to more. As from Prometheus,
    only the usage of pods that are chosen is read, and with `last_hour` people see that as well.
    """

    def __init__(self, cluster: SimulatedCluster, *, last_hour: bool = False) -> None:
        self._cluster = cluster
        self._last_hour = last_hour

    def read_load(
        self, cluster: ClusterState, policy: Policy, choose: ChoosePods = all_pods
    ) -> ClusterLoad:
        """The load of nodes and pods over the policy's windows."""
        pods = _PodLoads(self._cluster, policy)
        sums = PodChoice(sums=frozenset(node.name for node in cluster.nodes))
        load = replace(self._of_nodes(cluster, policy), pods_of=sums, pod_sums=pods.sums())
        while load.pods_of is not None:
            chosen = choose(load)
            if chosen is not None and not chosen - load.pods_of:
                break
            read = None if chosen is None else load.pods_of | chosen
            load = replace(
                load,
                pods=pods.of(_chosen(cluster, read)),
                pods_of=read,
                pod_sums=load.pod_sums if read else {},
                pod_pasts=self._pasts(policy, read.pasts if read else ()),
            )
        return load

    def highest(self, nodes: Sequence[Node], policy: Policy) -> Floats:
        """The load of each node in its highest window.

        Node x rule of a measured resource; NaN where it is unknown.
        """
        loads, pods = NodeLoads(nodes, self._cluster), _PodLoads(self._cluster, policy)
        columns = []
        for rule in _rules(policy):
            ratios = loads.by_window(rule)
            if rule.resource is Resource.MEMORY:
                allocatable = np.array([float(node.allocatable.memory_bytes) for node in nodes])
                used = pods.used_on(nodes, rule.resource)
                with np.errstate(divide="ignore", invalid="ignore"):  # a node may state no memory
                    ratios = np.maximum(ratios, used / allocatable[:, None])
            columns.append(ratios.max(axis=1))
        return np.stack(columns, axis=1)

    def _of_nodes(self, cluster: ClusterState, policy: Policy) -> ClusterLoad:
        """The load of nodes without any pods."""
        rules, names = _rules(policy), [node.name for node in cluster.nodes]
        nodes = NodeLoads(cluster.nodes, self._cluster)
        further = {r.resource: nodes.statistics(r) for r in rules if r.destination_windows}
        return ClusterLoad(
            nodes=_by_node(names, {rule.resource: nodes.levels(rule) for rule in rules}),
            pods={},
            destination_ratios=_by_node(names, further) if further else {},
            last_hour=self._back(cluster.nodes, rules, *HOUR) if self._last_hour else {},
            history=self._back(cluster.nodes, rules, *policy.history),
        )

    def _pasts(self, policy: Policy, nodes: Collection[str]) -> dict[tuple[str, str], PodPast]:
        """The past of the pods that are or were on these nodes."""
        if not nodes:
            return {}
        steps, step_seconds = policy.history
        history, now = self._cluster.history, self._cluster.clock.monotonic()
        users = self._cluster.names_on(nodes, now - steps * step_seconds)
        ends = [now - i * step_seconds for i in reversed(range(steps + 1))]
        columns: dict[Resource, tuple[tuple[float | None, ...], ...]] = {}
        began = {uid: history.stays_of(uid)[0].began for uid in users}
        for i, resource in enumerate(MEASURED):
            window = min(policy.windows(resource), default=0)
            if not window:
                columns[resource] = ((),) * len(users)
                continue
            means = [history.of_users(users, end - window, end)[:, i] for end in ends]
            rows = np.stack(means, axis=1)
            for row, uid in zip(rows, users, strict=True):
                row[np.array(ends) <= began[uid]] = np.nan
            columns[resource] = tuple(
                tuple(None if math.isnan(x) else x for x in row) for row in rows.tolist()
            )
        keys = users.values()
        where = [history.stays_of(uid)[-1].node for uid in users]
        return dict(zip(keys, map(PodPast, *columns.values(), where), strict=True))

    def _back(
        self, nodes: Sequence[Node], rules: Sequence[ResourceRule], steps: int, step_seconds: int
    ) -> Histories:
        loads = NodeLoads(nodes, self._cluster)
        recent = {rule.resource: loads.recent(rule, steps, step_seconds) for rule in rules}
        return _by_node([node.name for node in nodes], recent)


class _PodLoads:
    """The usage of all pods over the policy's windows, by the history's numbers of users."""

    def __init__(self, cluster: SimulatedCluster, policy: Policy) -> None:
        self._history = history = cluster.history
        now = cluster.clock.monotonic()
        self._latest = latest = history.latest()
        # A rate counts the time before the pod as no usage; a mean of samples omits it.
        age_seconds = np.maximum(now - latest.began, math.ulp(1.0))
        self._means: dict[Resource, Floats] = {}
        self._measured: dict[Resource, Mask] = {}
        for i, resource in enumerate(MEASURED):
            windows = policy.windows(resource)
            means = np.zeros((len(latest.began), len(windows)))
            for position, window in enumerate(windows):
                means[:, position] = history.by_number(now - window, now)[:, i]
                if resource is Resource.MEMORY:
                    means[:, position] *= np.maximum(1.0, window / age_seconds)
            self._means[resource] = means
            self._measured[resource] = (latest.began < now) & ~np.isnan(means).any(axis=1)

    def sums(self) -> dict[str, dict[Resource, tuple[float, ...]]]:
        """What the pods on each node use together, a value for each window."""
        sums_of: dict[Resource, list[tuple[float, ...]]] = {
            resource: list(map(tuple, self._sums(resource).tolist()))
            for resource, means in self._means.items()
            if means.shape[1]
        }
        return _by_node(list(self._history.nodes), sums_of)

    def used_on(self, nodes: Sequence[Node], resource: Resource) -> Floats:
        """The same for these nodes and one resource: node x window."""
        numbers = self._history.nodes
        used: Floats = self._sums(resource)[[numbers[node.name] for node in nodes]]
        return used

    def _sums(self, resource: Resource) -> Floats:
        """What the pods on each node use together, by the history's numbers of nodes, x window."""
        latest, nodes = self._latest, len(self._history.nodes)
        counted = latest.lasting & self._measured[resource]
        columns = [
            np.bincount(latest.nodes[counted], column, nodes)
            for column in self._means[resource][counted].T
        ]
        return np.stack(columns, axis=1)

    def of(self, pods: Iterable[Pod]) -> dict[tuple[str, str], PodUsage]:
        """The usage of these pods."""
        keys = [((pod.namespace, pod.name), pod.uid) for pod in pods]
        numbers = self._history.numbers(uid for _, uid in keys)
        columns: list[list[tuple[float, ...]]] = []
        for resource, means in self._means.items():
            rows: list[tuple[float, ...]] = list(map(tuple, means[numbers].tolist()))
            for position in np.flatnonzero(~self._measured[resource][numbers]).tolist():
                rows[position] = ()
            columns.append(rows)
        return dict(zip((key for key, _ in keys), map(PodUsage, *columns), strict=True))


class NodeLoads:
    """The load of some nodes over time, in their order."""

    def __init__(self, nodes: Sequence[Node], cluster: SimulatedCluster) -> None:
        self._history = cluster.history
        self._names = [node.name for node in nodes]
        self._sizes = np.array([size_of(node) for node in nodes], dtype=float).reshape(-1, 2)
        self._now = now = cluster.clock.monotonic()
        at = cluster.clock.now()
        ages = [(at - node.created_at).total_seconds() for node in nodes]
        # An adopted node is older than its first measurement.
        stays = [self._history.stays_of(host_of(name))[-1] for name in self._names]
        began = [stay.began for stay in stays]
        self._measured = np.maximum(np.array([now - age for age in ages]), began)
        self._removed = np.array([stay.ended for stay in stays])

    def shares(self, begin: float, end: float) -> Floats:
        """Mean usage as shares of capacity, node x (CPU, memory), more than 1 where it adds up.

        NaN where samples do not cover the whole time.
        """
        used = self._history.of_nodes(self._names, begin, end)
        absent = (self._measured > begin) | (self._removed < end)
        found: Floats = np.where(absent[:, None], np.nan, used / self._sizes)
        return found

    @cached
    def _at_most_full(self, begin: float, end: float) -> Floats:
        shares: Floats = np.minimum(1.0, self.shares(begin, end))
        return shares

    def _ratios(self, resource: Resource, begin: float, end: float) -> Floats:
        ratios: Floats = self._at_most_full(begin, end)[:, MEASURED.index(resource)]
        return ratios

    def by_window(self, rule: ResourceRule) -> Floats:
        """The load of each node over the windows of a rule: node x window, NaN where unknown."""
        windows, now = rule.windows_seconds, self._now
        return np.stack([self._ratios(rule.resource, now - w, now) for w in windows], axis=1)

    def levels(self, rule: ResourceRule) -> list[Measured | Unknown]:
        """The load of each node over the windows of a rule."""
        windows = rule.windows_seconds
        found: list[Measured | Unknown] = []
        for position, row in enumerate(self.by_window(rule).tolist()):
            if any(map(math.isnan, row)):
                covered, longest = self._now - self._measured[position], max(windows)
                detail = f"samples cover {covered:.0f} of {longest} seconds"
                if covered >= longest:
                    detail = f"samples do not cover all of the last {longest} seconds"
                found.append(Unknown(UnknownReason.WINDOW_NOT_COVERED, detail))
            else:
                found.append(Measured(tuple(map(Level, windows, row))))
        return found

    def recent(self, rule: ResourceRule, steps: int, step_seconds: int) -> list[LoadHistory]:
        """The history of each node."""
        points = self._points(rule, steps, step_seconds)
        return [LoadHistory(step_seconds, row) for row in points]

    def statistics(self, rule: ResourceRule) -> list[tuple[float | None, ...]]:
        """For each node one value for each destination window."""
        columns = [self._statistic(rule, window) for window in rule.destination_windows]
        return list(zip(*columns, strict=True))

    def _statistic(self, rule: ResourceRule, window: DestinationWindow) -> list[float | None]:
        step_seconds = rule.windows_seconds[0]
        rows = self._points(rule, max(1, window.window_seconds // step_seconds), step_seconds)
        measured = ([point for point in row if point is not None] for row in rows)
        pairs = zip(rows, measured, strict=True)
        return [window.of(points) if len(points) == len(row) else None for row, points in pairs]

    def _points(
        self, rule: ResourceRule, steps: int, step_seconds: int
    ) -> list[tuple[float | None, ...]]:
        """Means over the shortest window, which ends at regular times, the last time now."""
        window = rule.windows_seconds[0]
        ends = [self._now - i * step_seconds for i in reversed(range(steps + 1))]
        columns = [self._ratios(rule.resource, end - window, end) for end in ends]
        rows = np.stack(columns, axis=1).tolist()
        return [tuple(None if math.isnan(point) else point for point in row) for row in rows]


def _rules(policy: Policy) -> list[ResourceRule]:
    return [rule for rule in policy.rules if rule.resource in MEASURED]


def _chosen(cluster: ClusterState, choice: PodChoice | None) -> Iterator[Pod]:
    """The running pods of a choice, None means all."""
    if choice is None:
        yield from (pod for pod in cluster.pods if pod.node)
        return
    for node in choice.nodes:
        yield from cluster.pods_by_node.get(node, ())
    for controller in choice.controllers:
        yield from cluster.pods_by_controller.get(controller, ())


def _by_node(
    names: Sequence[str], values_of: Mapping[Resource, Sequence[T]]
) -> dict[str, dict[Resource, T]]:
    return {name: {r: values_of[r][i] for r in values_of} for i, name in enumerate(names)}
