"""Reads the load of the whole cluster: a handful of queries, whatever its size."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from desched.adapters.prometheus.client import PrometheusClient, Series
from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.cycle_queries import CycleQueries
from desched.adapters.prometheus.history import LoadTracks
from desched.adapters.prometheus.node_loads import NodeLoads
from desched.adapters.prometheus.nodes import NodeIndex
from desched.adapters.prometheus.queries import (
    NODE_SOURCES,
    check_matchers,
    own_query,
    pod_scope,
    pod_usage,
    throttled_pods,
)
from desched.model.cluster import ClusterState
from desched.model.load import ClusterLoad, LoadHistory, LoadProblem, Measured, PodUsage, Unknown
from desched.model.resources import Resource
from desched.model.text import shortened
from desched.policy.policy import MetricsSource, Policy

T = TypeVar("T")

_LISTED_VALUES = 5  # of a label, in a sentence
_LONGEST_VALUE = 60  # characters
_MILLICORES_PER_CORE = 1000.0
_AGREEMENT_SHARE = 0.2
"""Two scrapes of one kubelet may differ by this much, because they are not simultaneous."""

Usages = Mapping[tuple[str, str], tuple[float, ...]]
"""By namespace and name, one value per window: millicores or bytes."""


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

    def read_load(self, cluster: ClusterState, policy: Policy) -> ClusterLoad:
        """The load of nodes and pods over the policy's windows, ending now.

        Raises:
            ObservationError: Prometheus did not answer, or answered with an error.
            ConfigurationError: a matcher is not permitted.
        """
        check_matchers(policy.metrics.matchers)
        queries, index = CycleQueries(self._client), NodeIndex(cluster)
        node_loads = NodeLoads(queries, index, policy.metrics)
        nodes: dict[str, dict[Resource, Measured | Unknown]] = {n.name: {} for n in cluster.nodes}
        usages: dict[Resource, Usages] = {}
        histories: dict[Resource, dict[str, LoadHistory]] = {}
        destinations: dict[Resource, dict[str, tuple[float | None, ...]]] = {}
        for resource in NODE_SOURCES:
            if windows := policy.windows(resource):
                for name, load in node_loads.read(resource, windows, cluster).items():
                    nodes[name][resource] = load
                usages[resource] = _pod_usages(resource, windows, queries, index, policy.metrics)
                if expression := node_loads.expression(resource, windows[0]):
                    tracks = LoadTracks(queries, index, expression, windows[0])
                    if policy.sustained_seconds:
                        histories[resource] = tracks.history(policy.sustained_seconds)
                    if further := policy.destination_windows(resource):
                        own = policy.metrics.queries.get(f"node_{resource}_destination")
                        destinations[resource] = tracks.destination_ratios(further, own)
        throttled = _throttled(queries, index, policy)
        return ClusterLoad(
            nodes,
            _pods(usages.get(Resource.CPU, {}), usages.get(Resource.MEMORY, {})),
            tuple(_problems(queries, node_loads, policy.metrics)),
            len(node_loads.unresolved),
            _by_node(histories),
            _by_node(destinations),
            throttled,
            (min(queries.evaluated), max(queries.evaluated)) if queries.evaluated else None,
            node_loads.seen,
        )


def _pod_usages(
    resource: Resource,
    windows_seconds: Sequence[int],
    queries: CycleQueries,
    index: NodeIndex,
    metrics: MetricsSource,
) -> Usages:
    """The usage of the pods that exist and were measured in every window.

    A value that is not a number of zero or more does not count.
    """
    own = metrics.queries.get(f"pod_{resource}")
    scale = _MILLICORES_PER_CORE if resource is Resource.CPU else 1.0
    found: dict[tuple[str, str], list[float]] = {}
    for position, seconds in enumerate(windows_seconds):
        query = pod_usage(resource, seconds, pod_scope(metrics, resource))
        if own is not None:
            query = own_query(own, seconds)
        for pod, value in _values(queries.vector(query), index, named=own is None).items():
            earlier = found.setdefault(pod, [])
            if len(earlier) == position:
                earlier.append(value * scale)
    return {pod: tuple(v) for pod, v in found.items() if len(v) == len(windows_seconds)}


def _values(
    series: Iterable[Series], index: NodeIndex, *, named: bool
) -> dict[tuple[str, str], float]:
    """The value of each pod; with `named` only series that name the pod's node count.

    Where several series of a pod disagree it is unknown which of them is true.
    """
    found: dict[tuple[str, str], float] = {}
    doubtful: set[tuple[str, str]] = set()
    for each in series:
        pod = each.labels.get("namespace", ""), each.labels.get("pod", "")
        if not (index.is_where_named(each.labels) if named else index.has_pod(*pod)):
            continue
        value = found.setdefault(pod, each.value)
        usable = math.isfinite(each.value) and each.value >= 0
        if not usable or not math.isclose(value, each.value, rel_tol=_AGREEMENT_SHARE):
            doubtful.add(pod)
        found[pod] = max(value, each.value)
    return {pod: value for pod, value in found.items() if pod not in doubtful}


def _throttled(
    queries: CycleQueries, index: NodeIndex, policy: Policy
) -> frozenset[tuple[str, str]]:
    """The throttled pods that exist; none if nothing measures throttling."""
    windows = policy.windows(Resource.CPU)
    if not windows:
        return frozenset()
    scope = pod_scope(policy.metrics, Resource.CPU)
    return frozenset(
        (one.labels["namespace"], one.labels["pod"])
        for one in queries.vector(throttled_pods(windows[0], scope))
        if index.is_where_named(one.labels)
    )


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
