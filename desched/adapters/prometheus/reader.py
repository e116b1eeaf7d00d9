"""Reads the load of the whole cluster: a handful of queries, whatever its size."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from desched.adapters.kept_history import KeptPasts, KeptTracks, Span
from desched.adapters.prometheus.client import PrometheusClient
from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.cycle_queries import CycleQueries
from desched.adapters.prometheus.device_loads import DeviceLoads
from desched.adapters.prometheus.exporter_sizes import ExporterSizes
from desched.adapters.prometheus.history import LAST_HOUR, LoadTracks, Now, lowest
from desched.adapters.prometheus.kubelets import Kubelets
from desched.adapters.prometheus.measures import look
from desched.adapters.prometheus.node_loads import NodeLoads
from desched.adapters.prometheus.nodes import NodeIndex
from desched.adapters.prometheus.pod_loads import NOTHING_READ, PodLoads, PodReadings
from desched.adapters.prometheus.pod_pasts import PodPasts, Sources
from desched.adapters.prometheus.queries import (
    NODE_SOURCES,
    check_matchers,
    names_exporters,
    several_clusters,
)
from desched.errors import ObservationError
from desched.model.cluster import ClusterState
from desched.model.load import ClusterLoad, LoadProblem, Measured, PodChoice, Unknown
from desched.model.measures import MetricsFacts
from desched.model.names import NodeName
from desched.model.resources import Resource
from desched.policy.policy import MetricsSource, Policy
from desched.ports import ChoosePods, all_pods

T = TypeVar("T")

MOST_ROUNDS = 4
"""Of choosing pods; then all are read."""


class PrometheusLoadReader:
    """Reads load through one Prometheus-compatible server.

    `wait` pauses between attempts of a request and returns true if desched is stopping. User's
    queries (policy `metrics.queries`) return for `node_cpu` and `node_memory` a share of capacity
    (0 to 1) per node, for `pod_cpu` cores and for `pod_memory` bytes with the labels namespace and
    pod. The age of what they compute is unknown: that of the built-in raw series is checked if
    there are any, otherwise the query is trusted. With `last_hour`, people see that as well.
    """

    def __init__(
        self,
        connection: PrometheusConnection,
        wait: Callable[[float], bool],
        *,
        last_hour: bool = False,
    ) -> None:
        self._client = PrometheusClient(connection, wait)
        self._last_hour = last_hour
        self._kept, self._kept_of_devices = KeptTracks(), dict[Resource, KeptTracks]()
        self._kept_pasts = KeptPasts()
        self._sizes = ExporterSizes()

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

    def read_load(
        self, cluster: ClusterState, policy: Policy, choose: ChoosePods = all_pods
    ) -> ClusterLoad:
        """The load of nodes and pods over the policy's windows, ending now.

        Raises:
            ObservationError: Prometheus did not answer, or answered with an error.
            ConfigurationError: a matcher is not permitted.
        """
        check_matchers(policy.metrics.matchers)
        windows = {r: window_seconds for r in NODE_SOURCES if (window_seconds := policy.windows(r))}
        named = names_exporters(policy.metrics, windows)
        queries, index = CycleQueries(self._client), NodeIndex(cluster, named=named)
        node_loads = NodeLoads(queries, index, policy.metrics, self._sizes)
        kubelets = Kubelets(queries, index, policy.metrics, windows)
        pod_loads = PodLoads(queries, index, policy.metrics, kubelets, cluster)
        loads = node_loads.read(windows, cluster)
        read_by = {r: node_loads.expression(r, its[0]) for r, its in windows.items()}
        expressions = {r: expression for r, expression in read_by.items() if expression}
        tracks = LoadTracks(queries, index, expressions, policy.shortest_window_seconds)
        devices = DeviceLoads(self._client, index, policy, self._kept_of_devices)
        of_nodes = ClusterLoad(
            {node.name: {r: of[node.name] for r, of in loads.items()} for node in cluster.nodes},
            {},
            destination_ratios=_by_node(dict(_destinations(tracks, policy))),
            pods_of=PodChoice(),
        )
        of_nodes = devices.added_to(of_nodes, cluster)
        span = Span.before(queries.now or devices.now, policy.history)
        sources = Sources(index, kubelets, pod_loads, cluster)
        pasts = PodPasts(queries, sources, policy.metrics, self._kept_pasts, span)
        pods = Pods(kubelets, pod_loads, pasts)
        self._kept.begin()
        try:
            history = tracks.until_now(span, self._kept, _now(loads, node_loads))
            history |= devices.history(span)
            load = replace(of_nodes, history=_by_node(history))
            completed = partial(_completed, queries, node_loads, policy.metrics)
            load = completed(_with_pods(load, pods, choose, completed))
        finally:
            if queries.warnings:  # a later cycle may have what is missing
                self._kept.undo()
                self._kept_pasts.undo()
        if self._last_hour:
            # It is read last and nothing depends on it, neither on a warning nor on an error.
            with suppress(ObservationError):
                load = replace(load, last_hour=_by_node(tracks.history(LAST_HOUR)))
        return load


class Pods(NamedTuple):
    """What is read of pods once they are chosen."""

    sums: Kubelets
    usage: PodLoads
    pasts: PodPasts


def _with_pods(
    load: ClusterLoad,
    pods: Pods,
    choose: ChoosePods,
    completed: Callable[[ClusterLoad], ClusterLoad],
) -> ClusterLoad:
    """The load with the usage, and with the past, of the chosen pods.

    What is read may show that further ones are needed. The last choice has exactly the load that
    is returned, unless all pods are read.
    """
    if choose is all_pods or not pods.usage.can_choose:
        load = _of_all_pods(load, pods.usage.read(None))
    if choose is all_pods:
        return load
    past_of = frozenset[NodeName]()
    for _ in range(MOST_ROUNDS):
        chosen = choose(completed(load))
        if chosen is None:
            break
        lacking = chosen.pasts - past_of
        read = chosen if load.pods_of is None else load.pods_of
        missing = replace(chosen, pasts=frozenset()) - read
        if not (lacking or missing):
            return load
        if missing:
            load = _with_usage(load, missing, pods)
        if lacking:
            past_of |= lacking
            load = _with_pasts(load, past_of, pods.pasts)
    return load if load.pods_of is None else _of_all_pods(load, pods.usage.read(None))


def _with_pasts(load: ClusterLoad, nodes: frozenset[NodeName], pasts: PodPasts) -> ClusterLoad:
    """The load with the past of the pods on these nodes."""
    read = None if load.pods_of is None else replace(load.pods_of, pasts=nodes)
    return replace(load, pod_pasts=pasts.read(nodes, load.pods), pods_of=read)


def _completed(
    queries: CycleQueries, node_loads: NodeLoads, metrics: MetricsSource, load: ClusterLoad
) -> ClusterLoad:
    """The load with what the answers so far tell about themselves."""
    evaluated = queries.evaluated
    return replace(
        load,
        problems=tuple(_problems(queries, node_loads, metrics)),
        unresolved_series=len(node_loads.unresolved),
        server_times=(min(evaluated), max(evaluated)) if evaluated else None,
        seen=node_loads.seen,
    )


def _with_usage(load: ClusterLoad, missing: PodChoice, pods: Pods) -> ClusterLoad:
    """The load with these pods and sums, or with all pods if they are too many."""
    sums = pods.sums.sums(missing.sums) if missing.sums else {}
    readings = pods.usage.read(missing) if missing.has_pods else NOTHING_READ
    if readings.pods is None:
        return _of_all_pods(load, readings)
    return replace(
        load,
        pods={**load.pods, **readings.usage},
        throttled=load.throttled | readings.throttled,
        pods_of=(load.pods_of or PodChoice()) | missing,
        pod_sums={**load.pod_sums, **sums},
    )


def _of_all_pods(load: ClusterLoad, readings: PodReadings) -> ClusterLoad:
    return replace(
        load, pods=readings.usage, throttled=readings.throttled, pods_of=None, pod_sums={}
    )


def _destinations(
    tracks: LoadTracks, policy: Policy
) -> Iterator[tuple[Resource, dict[str, tuple[float | None, ...]]]]:
    for rule in policy.rules:
        if rule.destination_windows and rule.resource in tracks.expressions:
            own = policy.metrics.queries.get(f"node_{rule.resource}_destination")
            yield rule.resource, tracks.destination_ratios(rule, own)


def _now(
    loads: Mapping[Resource, Mapping[str, Measured | Unknown]], node_loads: NodeLoads
) -> dict[Resource, Now]:
    """The present load over the shortest window of each resource."""
    return {
        resource: Now(
            lowest(node_loads.shortest[resource]),
            {n: load.levels[0].ratio for n, load in of.items() if isinstance(load, Measured)},
        )
        for resource, of in loads.items()
    }


def _by_node(loads: Mapping[Resource, Mapping[str, T]]) -> dict[str, dict[Resource, T]]:
    nodes: dict[str, dict[Resource, T]] = {}
    for resource, by_node in loads.items():
        for name, value in by_node.items():
            nodes.setdefault(name, {})[resource] = value
    return nodes


def _problems(
    queries: CycleQueries, node_loads: NodeLoads, metrics: MetricsSource
) -> Iterator[tuple[LoadProblem, str]]:
    for warning in queries.warnings:
        yield LoadProblem.PARTIAL_DATA, f"Prometheus warns: {warning}"
    for label, values in sorted(node_loads.cluster_values.items()):
        if len(values) > 1 and label not in metrics.matchers:
            sentence = several_clusters(label, values, node_loads.own_values(label))
            yield LoadProblem.SEVERAL_CLUSTERS, sentence
