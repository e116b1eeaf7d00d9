"""Reads the past of a cluster through one Prometheus-compatible server."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from desched.adapters.prometheus.client import PrometheusClient
from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.nodes import NodeIndex
from desched.adapters.prometheus.queries import (
    NODE_EXPORTER,
    NODE_SOURCES,
    check_matchers,
    exporter_names,
    own_query,
    pod_scope,
    pod_usage,
    several_clusters,
)
from desched.adapters.prometheus.session import OF_A_HISTORY
from desched.errors import ObservationError, ObservationSource
from desched.lab.prometheus.cache import BlockCache
from desched.lab.prometheus.loads import NodeRatios, PodUsages
from desched.lab.prometheus.objects import (
    HIGHEST_PRIORITY,
    LONG_STEP_SECONDS,
    Stretch,
    plan_objects,
    read_objects,
)
from desched.lab.prometheus.queries import KUBE_STATE_SCOPE, KubeState, cluster_created
from desched.lab.prometheus.range_queries import Progress, RangeQueries, Read
from desched.lab.recorded_past import Caveat, Doubt, Past, PastPod, PastUsage
from desched.model.cluster import ClusterState
from desched.model.resources import Resource
from desched.policy.policy import MetricsSource, Policy
from desched.promql.sources import NodeSource, Scope, scope_of


class HowToRead(NamedTuple):
    """What does not change the result: the present time, where answers are kept (None: nowhere).

    `kube_state_scope` are the matchers of kube-state-metrics if they are not the usual ones.
    """

    now: datetime
    cache_directory: Path | None = None
    progress: Progress = lambda _done, _all: None
    kube_state_scope: str = KUBE_STATE_SCOPE


class LoadReads(NamedTuple):
    """What to read about load, by resource; `names` are the host names that exporters report."""

    nodes: Mapping[Resource, Read]
    pods: Mapping[Resource, Read]
    names: tuple[Read, ...]


class PastReader:
    """Reads the past as the live reader reads the present: same queries, labels and matchers.

    `wait` pauses between attempts of a request and returns true if desched is stopping.
    """

    def __init__(
        self, connection: PrometheusConnection, wait: Callable[[float], bool], how: HowToRead
    ) -> None:
        self._client = PrometheusClient(connection, wait, OF_A_HISTORY)
        self._connection = connection
        self._queries = RangeQueries(self._client, how.now, how.progress)
        self._how = how

    def close(self) -> None:
        """Close the pooled connections."""
        self._client.close()

    def read(self, policies: Sequence[Policy], stretch: Stretch) -> Past:
        """The past as far as the policies need it; they must have the same source of load.

        Raises:
            ObservationError: Prometheus did not answer, or its data does not suffice.
            ConfigurationError: a matcher is not permitted.
        """
        metrics = policies[0].metrics
        check_matchers(metrics.matchers)
        queries = self._queries
        scope = scope_of(metrics, "kube_state", self._how.kube_state_scope)
        queries.cache = self._cache(scope, stretch)
        object_reads = plan_objects(queries, KubeState(scope, LONG_STEP_SECONDS), stretch)
        load_reads = self._plan_loads(policies, stretch)
        objects = read_objects(queries, object_reads, stretch, policies)
        _refuse_several_clusters(queries.cluster_values, metrics)
        nodes = tuple(past_node.node for past_node in objects.nodes)
        cluster = ClusterState(nodes, tuple(pod.pod for pod in objects.pods))
        # Metrics of objects have no ports of nodes, and nothing is evicted by the past.
        index = NodeIndex(cluster, named=True)
        names = chain.from_iterable(map(queries.blocks, load_reads.names))
        index.learn_names(labels for block in names for labels in block.labels)
        ratios = {}
        for resource, read in load_reads.nodes.items():
            of_nodes = NodeRatios([node.name for node in nodes], stretch.steps)
            of_nodes.add(queries.blocks(read), index)
            ratios[resource] = of_nodes.ratios
        _refuse_several_clusters(queries.cluster_values, metrics)
        usages = PodUsages(objects.pods, stretch.steps, index)
        for resource, read in load_reads.pods.items():
            usages.add(queries.blocks(read), resource)
        usage = usages.total()
        classes = dict.fromkeys(_named_classes(policies), HIGHEST_PRIORITY)
        return Past(
            started_at=datetime.fromtimestamp(stretch.begin, UTC),
            step_seconds=stretch.step_seconds,
            steps=stretch.steps.count,
            nodes=objects.nodes,
            pods=objects.pods,
            usage=usage,
            node_ratios=ratios,
            priority_classes=classes,
            doubts=(*objects.doubts, *self._doubts(objects.pods, usage)),
        )

    def _cache(self, scope: Scope, stretch: Stretch) -> BlockCache | None:
        """What is kept of this cluster, None if it is not known which one Prometheus has."""
        directory = self._how.cache_directory
        if directory is None:
            return None
        at = stretch.end
        created = self._client.query_samples(cluster_created(scope), at, at, stretch.step_seconds)
        if not created.series:
            return None
        cluster = repr(created.series[0].values.tolist())
        cache = BlockCache(directory, self._connection, cluster, self._how.now)
        cache.remove_old()
        return cache

    def _plan_loads(self, policies: Sequence[Policy], stretch: Stretch) -> LoadReads:
        metrics, plan = policies[0].metrics, self._queries.plan
        nodes, pods, names = {}, {}, {}
        for resource in NODE_SOURCES:
            if not any(policy.windows(resource) for policy in policies):
                continue
            source, nodes[resource] = self._plan_nodes(resource, metrics, stretch)
            if source is not None and source.name == NODE_EXPORTER:
                scope = scope_of(metrics, f"node_{resource}", source.scope)
                names[scope] = plan(exporter_names(scope), *stretch.long_grids)
            query = pod_usage(resource, stretch.step_seconds, pod_scope(metrics, resource))
            if (own := metrics.queries.get(f"pod_{resource}")) is not None:
                query = own_query(own, stretch.step_seconds)
            pods[resource] = plan(query, stretch.grid)
        return LoadReads(nodes, pods, tuple(names.values()))

    def _plan_nodes(
        self, resource: Resource, metrics: MetricsSource, stretch: Stretch
    ) -> tuple[NodeSource | None, Read]:
        """The first source of node load that has any series, None for a user's query."""
        for source, expression in _node_queries(resource, metrics, stretch.step_seconds):
            read = self._queries.plan(expression, stretch.grid)
            if read.chunks:
                return source, read
        where = " under metrics.matchers" if metrics.matchers else ""
        raise ObservationError(
            ObservationSource.PROMETHEUS,
            f"Prometheus has no {resource} load of any node in this time{where}; check that its "
            "retention reaches back so far, and set metrics.sources if its jobs have unusual "
            "names.",
        )

    def _doubts(self, pods: Sequence[PastPod], usage: PastUsage) -> Iterator[Doubt]:
        unmeasured = sum(
            int(usage.missing[pod.first_row + pod.levels]) == pod.levels for pod in pods
        )
        if unmeasured:
            yield Doubt(Caveat.PODS_NOT_MEASURED, f"{unmeasured} of {len(pods)} pods")
        for warning in self._queries.warnings:
            yield Doubt(Caveat.HISTORY_GAPS, f"Prometheus warns: {warning}")


def _node_queries(
    resource: Resource, metrics: MetricsSource, step_seconds: int
) -> Iterator[tuple[NodeSource | None, str]]:
    """The queries for the load of nodes, in order of preference."""
    own = metrics.queries.get(f"node_{resource}")
    if own is not None:
        yield None, own_query(own, step_seconds)
        return
    for source in NODE_SOURCES[resource]:
        scope = scope_of(metrics, f"node_{resource}", source.scope)
        yield source, source.ratio(step_seconds, scope)


def _named_classes(policies: Iterable[Policy]) -> Iterator[str]:
    for policy in policies:
        name = policy.protections.priority_threshold.class_name
        if name is not None:
            yield name


def _refuse_several_clusters(values_of: Mapping[str, set[str]], metrics: MetricsSource) -> None:
    for label, values in sorted(values_of.items()):
        if len(values) > 1 and label not in metrics.matchers:
            raise ObservationError(
                ObservationSource.PROMETHEUS, f"{several_clusters(label, values)}."
            )
