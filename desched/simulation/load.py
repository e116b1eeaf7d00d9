"""Measurements of the simulated cluster, as Prometheus would have them."""

from collections.abc import Sequence

from desched.errors import ObservationError
from desched.model.cluster import ClusterState, Node
from desched.model.load import (
    ClusterLoad,
    Level,
    LoadHistory,
    LoadProblem,
    Measured,
    PodUsage,
    Unknown,
    UnknownReason,
)
from desched.model.resources import Resource
from desched.policy.policy import DestinationWindow, Policy, ResourceRule
from desched.simulation.cluster import SimulatedCluster
from desched.simulation.history import Usage

MEASURED = (Resource.CPU, Resource.MEMORY)
STALE_AFTER_SECONDS = 180.0
HISTORY_STEPS = 10


class SimulatedLoad:
    """The LoadReader port: means over windows that end at the newest sample.

    A node is never more than full, although its pods' usage may add up to more. Set `outage` to
    let reading fail; `problems` forbid acting as a whole.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._silent_since: dict[str, float] = {}
        self._unknown: dict[str, Unknown] = {}
        self.outage: ObservationError | None = None
        self.problems: tuple[tuple[LoadProblem, str], ...] = ()

    def silence(self, node: str) -> None:
        """The node's exporter sends no samples from now on, so that its data becomes stale."""
        self._silent_since[node] = self._cluster.clock.monotonic()

    def distort(self, node: str, unknown: Unknown) -> None:
        """The node's data cannot be trusted for this reason."""
        self._unknown[node] = unknown

    def read_load(self, cluster: ClusterState, policy: Policy) -> ClusterLoad:
        """The load of nodes and pods over the policy's windows."""
        if self.outage:
            raise self.outage
        rules = [rule for rule in policy.rules if rule.resource in MEASURED]
        nodes = {
            node.name: {r.resource: self._node(node, r.resource, r.windows_seconds) for r in rules}
            for node in cluster.nodes
        }
        return ClusterLoad(
            nodes=nodes,
            pods=self._pods(cluster, policy),
            problems=self.problems,
            history=self._history(cluster, rules, policy.sustained_seconds),
            destination_ratios=self._destination_ratios(cluster, rules),
        )

    def _history(
        self, cluster: ClusterState, rules: Sequence[ResourceRule], sustained_seconds: int
    ) -> dict[str, dict[Resource, LoadHistory]]:
        step_seconds = sustained_seconds // HISTORY_STEPS
        if not step_seconds:
            return {}
        return {
            node.name: {
                rule.resource: LoadHistory(
                    step_seconds, self._points(node, rule, HISTORY_STEPS, step_seconds)
                )
                for rule in rules
            }
            for node in cluster.nodes
        }

    def _destination_ratios(
        self, cluster: ClusterState, rules: Sequence[ResourceRule]
    ) -> dict[str, dict[Resource, tuple[float | None, ...]]]:
        further = [rule for rule in rules if rule.destination_windows]
        return {
            node.name: {
                rule.resource: tuple(
                    self._statistic(node, rule, window) for window in rule.destination_windows
                )
                for rule in further
            }
            for node in cluster.nodes
            if further
        }

    def _statistic(self, node: Node, rule: ResourceRule, window: DestinationWindow) -> float | None:
        step_seconds = rule.windows_seconds[0]
        steps = max(1, window.window_seconds // step_seconds)
        points = self._points(node, rule, steps, step_seconds)
        known = [point for point in points if point is not None]
        return window.of(known) if len(known) == len(points) else None

    def _points(
        self, node: Node, rule: ResourceRule, steps: int, step_seconds: int
    ) -> tuple[float | None, ...]:
        """Means over the shortest window that end at regular times, the last of them now."""
        now, window = self._cluster.clock.monotonic(), rule.windows_seconds[0]
        newest = self._silent_since.get(node.name, now)
        born = now - (self._cluster.clock.now() - node.created_at).total_seconds()
        ends = [now - i * step_seconds for i in reversed(range(steps + 1))]
        return tuple(
            self._ratio(node, rule.resource, end - window, end)
            if born <= end - window and end <= newest and node.name not in self._unknown
            else None
            for end in ends
        )

    def _ratio(self, node: Node, resource: Resource, begin: float, end: float) -> float:
        usage = self._cluster.history.node_means(begin, end)[node.name]
        return min(1.0, _amount(usage, resource) / _size(node, resource))

    def _node(
        self, node: Node, resource: Resource, windows_seconds: tuple[int, ...]
    ) -> Measured | Unknown:
        if node.name in self._unknown:
            return self._unknown[node.name]
        now = self._cluster.clock.monotonic()
        newest = self._silent_since.get(node.name, now)
        if now - newest > STALE_AFTER_SECONDS:
            return Unknown(
                UnknownReason.STALE, f"the newest sample is {now - newest:.0f} seconds old"
            )
        known_seconds = (self._cluster.clock.now() - node.created_at).total_seconds()
        if known_seconds < max(windows_seconds):
            return Unknown(
                UnknownReason.WINDOW_NOT_COVERED,
                f"samples cover {known_seconds:.0f} of {max(windows_seconds)} seconds",
            )
        levels = tuple(
            Level(window, self._ratio(node, resource, newest - window, newest))
            for window in windows_seconds
        )
        return Measured(levels, age_seconds=now - newest)

    def _pods(self, cluster: ClusterState, policy: Policy) -> dict[tuple[str, str], PodUsage]:
        history, now = self._cluster.history, self._cluster.clock.monotonic()
        cpu, memory = (
            [(window, history.user_means(now - window, now)) for window in policy.windows(resource)]
            for resource in MEASURED
        )
        found = {}
        for pod in cluster.pods:
            if not pod.node or pod.node in self._silent_since:
                continue
            began = history.began(pod.uid)
            usage = PodUsage()
            if began is not None and began < now:
                # A rate counts the time before the pod as no usage; a mean of samples omits it.
                usage = PodUsage(
                    tuple(means[pod.uid].cpu_millicores for _, means in cpu),
                    tuple(
                        means[pod.uid].memory_bytes * max(1.0, window / (now - began))
                        for window, means in memory
                    ),
                )
            found[pod.namespace, pod.name] = usage
        return found


def _amount(usage: Usage, resource: Resource) -> float:
    return usage.cpu_millicores if resource is Resource.CPU else usage.memory_bytes


def _size(node: Node, resource: Resource) -> int:
    capacity = node.capacity
    return capacity.cpu_millicores if resource is Resource.CPU else capacity.memory_bytes
