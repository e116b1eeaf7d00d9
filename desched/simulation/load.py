"""Measurements of the simulated cluster, as Prometheus would have them."""

from desched.errors import ObservationError
from desched.model.cluster import ClusterState, Node, Pod
from desched.model.load import (
    ClusterLoad,
    Level,
    LoadProblem,
    Measured,
    PodUsage,
    Unknown,
    UnknownReason,
)
from desched.model.resources import Resource
from desched.policy.policy import Policy
from desched.simulation.cluster import SimulatedCluster
from desched.simulation.history import Usage

MEASURED = (Resource.CPU, Resource.MEMORY)
STALE_AFTER_SECONDS = 180.0


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
        pods = {
            (pod.namespace, pod.name): self._pod(pod, policy)
            for pod in cluster.pods
            if pod.node and pod.node not in self._silent_since
        }
        return ClusterLoad(nodes=nodes, pods=pods, problems=self.problems)

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
        levels = []
        for window in windows_seconds:
            usage = self._cluster.history.node_mean(node.name, newest - window, newest)
            levels.append(Level(window, min(1.0, _amount(usage, resource) / _size(node, resource))))
        return Measured(tuple(levels), age_seconds=now - newest)

    def _pod(self, pod: Pod, policy: Policy) -> PodUsage:
        history, now = self._cluster.history, self._cluster.clock.monotonic()
        began = history.began(pod.uid)
        if began is None or began == now:
            return PodUsage()
        # A rate knows nothing of the time before the pod; a mean of samples leaves it out.
        return PodUsage(
            cpu_millicores=tuple(
                history.user_mean(pod.uid, now - window, now).cpu_millicores
                for window in policy.windows(Resource.CPU)
            ),
            memory_bytes=tuple(
                history.user_mean(pod.uid, max(began, now - window), now).memory_bytes
                for window in policy.windows(Resource.MEMORY)
            ),
        )


def _amount(usage: Usage, resource: Resource) -> float:
    return usage.cpu_millicores if resource is Resource.CPU else usage.memory_bytes


def _size(node: Node, resource: Resource) -> int:
    capacity = node.capacity
    return capacity.cpu_millicores if resource is Resource.CPU else capacity.memory_bytes
