"""Reads the load of the whole cluster: a handful of queries, whatever its size."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from desched.adapters.prometheus.client import PrometheusClient
from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.cycle_queries import CycleQueries
from desched.adapters.prometheus.history import LoadTracks
from desched.adapters.prometheus.measures import look
from desched.adapters.prometheus.node_loads import NodeLoads
from desched.adapters.prometheus.nodes import NodeIndex
from desched.adapters.prometheus.pod_usages import Usages, pod_usages, throttled
from desched.adapters.prometheus.queries import NODE_SOURCES, check_matchers
from desched.model.cluster import ClusterState
from desched.model.load import ClusterLoad, LoadProblem, PodUsage
from desched.model.measures import MetricsFacts
from desched.model.resources import Resource
from desched.model.text import shortened
from desched.policy.policy import MetricsSource, Policy

T = TypeVar("T")

_LISTED_VALUES = 5  # of a label, in a sentence
_LONGEST_VALUE = 60  # characters


class PrometheusLoadReader:
    """Reads load through one Prometheus-compatible server.

    `wait` pauses between attempts of a request and returns true if desched is stopping. User's
    queries (policy `metrics.queries`) return for `node_cpu` and `node_memory` a share of capacity
    (0 to 1) per node, for `pod_cpu` cores and for `pod_memory` bytes with the labels namespace and
    pod. The age of what they compute is unknown: that of the built-in raw series is checked if
    there are any, otherwise the query is trusted.
    """

    def __init__(self, connection: PrometheusConnection, wait: Callable[[float], bool]) -> None:
        self._client = PrometheusClient(connection, wait)

    def close(self) -> None:
        """Close the pooled connections."""
        self._client.close()

    def read_metrics(self, cluster: ClusterState, policy: Policy) -> MetricsFacts:
        """What Prometheus has for each measure; an error of one measure does not end the others.

        Raises:
            ObservationError: Prometheus answers no query at all.
            ConfigurationError: a matcher is not permitted.
        """
        check_matchers(policy.metrics.matchers)
        return look(self._client, cluster, policy)

    def read_load(self, cluster: ClusterState, policy: Policy) -> ClusterLoad:
        """The load of nodes and pods over the policy's windows, ending now.

        Raises:
            ObservationError: Prometheus did not answer, or answered with an error.
            ConfigurationError: a matcher is not permitted.
        """
        check_matchers(policy.metrics.matchers)
        queries, index = CycleQueries(self._client), NodeIndex(cluster)
        node_loads = NodeLoads(queries, index, policy.metrics)
        windows = {r: found for r in NODE_SOURCES if (found := policy.windows(r))}
        loads = node_loads.read(windows, cluster)
        expressions = {r: node_loads.expression(r, its[0]) for r, its in windows.items()}
        tracks = LoadTracks(queries, index, {r: e for r, e in expressions.items() if e})
        usages = {
            resource: pod_usages(resource, its, queries, index, policy.metrics)
            for resource, its in windows.items()
        }
        held_back = throttled(queries, index, policy)
        sustained_seconds = policy.sustained_seconds
        histories = tracks.history(sustained_seconds) if sustained_seconds else {}
        destinations = dict(_destinations(tracks, policy))
        return ClusterLoad(
            {
                node.name: {r: of_node[node.name] for r, of_node in loads.items()}
                for node in cluster.nodes
            },
            _pods(usages.get(Resource.CPU, {}), usages.get(Resource.MEMORY, {})),
            tuple(_problems(queries, node_loads, policy.metrics)),
            len(node_loads.unresolved),
            _by_node(histories),
            _by_node(destinations),
            held_back,
            (min(queries.evaluated), max(queries.evaluated)) if queries.evaluated else None,
            node_loads.seen,
        )


def _destinations(
    tracks: LoadTracks, policy: Policy
) -> Iterator[tuple[Resource, dict[str, tuple[float | None, ...]]]]:
    for rule in policy.rules:
        if rule.destination_windows and rule.resource in tracks.expressions:
            own = policy.metrics.queries.get(f"node_{rule.resource}_destination")
            yield rule.resource, tracks.destination_ratios(rule, own)


def _by_node(found: Mapping[Resource, Mapping[str, T]]) -> dict[str, dict[Resource, T]]:
    nodes: dict[str, dict[Resource, T]] = {}
    for resource, by_node in found.items():
        for name, value in by_node.items():
            nodes.setdefault(name, {})[resource] = value
    return nodes


def _pods(cpu: Usages, memory: Usages) -> dict[tuple[str, str], PodUsage]:
    return {pod: PodUsage(cpu.get(pod, ()), memory.get(pod, ())) for pod in cpu.keys() | memory}


def _problems(
    queries: CycleQueries, node_loads: NodeLoads, metrics: MetricsSource
) -> Iterator[tuple[LoadProblem, str]]:
    for warning in queries.warnings:
        yield LoadProblem.PARTIAL_DATA, f"Prometheus warns: {warning}"
    for label, values in sorted(node_loads.cluster_values.items()):
        if len(values) > 1 and label not in metrics.matchers:
            listed = sorted(values, key=lambda value: (not value, value))[:_LISTED_VALUES]
            listed = [shortened(value, _LONGEST_VALUE) for value in listed]
            names = ", ".join(value or "none" for value in listed)
            sentence = (
                f"Prometheus has data of {len(values)} clusters by the label {label} ({names}); "
                f"add this one to metrics.matchers, such as {{{label}: {listed[0]}}}, and to your "
                "own queries"
            )
            yield LoadProblem.SEVERAL_CLUSTERS, sentence
