"""Measurements of the simulated cluster, as Prometheus would have them."""

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
from desched.simulation.cluster import SimulatedCluster
from desched.simulation.history import Usage

MEASURED = (Resource.CPU, Resource.MEMORY)
"""The resources in the order of the fields of Usage."""
HISTORY_STEPS = 10


def size_of(node: Node) -> Usage:
    """What the whole machine has of each measured resource."""
    return Usage(node.capacity.cpu_millicores, node.capacity.memory_bytes)


class SimulatedLoad:
    """The LoadReader port: means over windows that end now.

    A node is never more than full, although its pods' usage may add up to more.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def read_load(self, cluster: ClusterState, policy: Policy) -> ClusterLoad:
        """The load of nodes and pods over the policy's windows."""
        rules = [rule for rule in policy.rules if rule.resource in MEASURED]
        with_windows = [rule for rule in rules if rule.destination_windows]
        step_seconds = policy.sustained_seconds // HISTORY_STEPS
        return ClusterLoad(
            nodes={
                node.name: {rule.resource: self._levels(node, rule) for rule in rules}
                for node in cluster.nodes
            },
            pods=self._pods(cluster, policy),
            history={
                node.name: {rule.resource: self._recent(node, rule, step_seconds) for rule in rules}
                for node in cluster.nodes
                if step_seconds
            },
            destination_ratios={
                node.name: {
                    rule.resource: tuple(
                        self._statistic(node, rule, window) for window in rule.destination_windows
                    )
                    for rule in with_windows
                }
                for node in cluster.nodes
                if with_windows
            },
        )

    def _levels(self, node: Node, rule: ResourceRule) -> Measured | Unknown:
        covered, longest = self._covered_seconds(node), max(rule.windows_seconds)
        if covered < longest:
            detail = f"samples cover {covered:.0f} of {longest} seconds"
            return Unknown(UnknownReason.WINDOW_NOT_COVERED, detail)
        now = self._cluster.clock.monotonic()
        return Measured(
            tuple(
                Level(window, self._ratio(node, rule.resource, now - window, now))
                for window in rule.windows_seconds
            )
        )

    def _recent(self, node: Node, rule: ResourceRule, step_seconds: int) -> LoadHistory:
        return LoadHistory(step_seconds, self._points(node, rule, HISTORY_STEPS, step_seconds))

    def _statistic(self, node: Node, rule: ResourceRule, window: DestinationWindow) -> float | None:
        step_seconds = rule.windows_seconds[0]
        steps = max(1, window.window_seconds // step_seconds)
        points = self._points(node, rule, steps, step_seconds)
        known = [point for point in points if point is not None]
        return window.of(known) if len(known) == len(points) else None

    def _points(
        self, node: Node, rule: ResourceRule, steps: int, step_seconds: int
    ) -> tuple[float | None, ...]:
        """Means over the shortest window, which ends at regular times, the last time now."""
        now, window = self._cluster.clock.monotonic(), rule.windows_seconds[0]
        created = now - self._covered_seconds(node)
        ends = [now - i * step_seconds for i in reversed(range(steps + 1))]
        return tuple(
            self._ratio(node, rule.resource, end - window, end) if created <= end - window else None
            for end in ends
        )

    def _covered_seconds(self, node: Node) -> float:
        return (self._cluster.clock.now() - node.created_at).total_seconds()

    def _ratio(self, node: Node, resource: Resource, begin: float, end: float) -> float:
        usage, i = self._cluster.history.node_means(begin, end)[node.name], MEASURED.index(resource)
        return min(1.0, usage[i] / size_of(node)[i])

    def _pods(self, cluster: ClusterState, policy: Policy) -> dict[tuple[str, str], PodUsage]:
        history, now = self._cluster.history, self._cluster.clock.monotonic()
        cpu, memory = (
            [(window, history.user_means(now - window, now)) for window in policy.windows(resource)]
            for resource in MEASURED
        )
        found = {}
        for pod in cluster.pods:
            if not pod.node:
                continue
            began = history.stays_of(pod.uid)[0].began
            usage = PodUsage()
            if began < now:
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
