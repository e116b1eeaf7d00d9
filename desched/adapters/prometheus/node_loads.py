"""The load of every node: collects the evidence, series by series, and assesses it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from desched.adapters.prometheus.client import Labels, Series
from desched.adapters.prometheus.cycle_queries import CycleQueries
from desched.adapters.prometheus.data_quality import (
    COVERED_CHECKPOINTS,
    Key,
    NodeEvidence,
    Sighting,
    WindowEvidence,
    judge,
    seen,
)
from desched.adapters.prometheus.nodes import NodeIndex
from desched.adapters.prometheus.queries import (
    CADVISOR,
    CLUSTER_LABELS,
    NODE_EXPORTER,
    NODE_SOURCES,
    NodeSource,
    Scope,
    exporter_names,
    own_query,
    scope_of,
)
from desched.model.cluster import ClusterState, Node
from desched.model.load import Measured, SeenLoad, Unknown
from desched.model.resources import Resource
from desched.policy.durations import duration_text
from desched.policy.policy import MetricsSource

SAMPLES_PER_WINDOW = 4
"""A window with fewer scrapes is too short."""

Sightings = Mapping[str, Sequence[Sighting]]
"""By node name."""


class _ClusterWindow(NamedTuple):
    """The evidence for one window, of all nodes."""

    seconds: int
    values: Sightings
    covered: Sightings
    remark: str = ""
    pods: Sightings = MappingProxyType({})

    def pods_ratio(self, node: str) -> float:
        """The least that is reported as the most that the node's pods can use, else its load."""
        known = self.pods.get(node) or self.values.get(node, ())
        return min((s.value for s in known if math.isfinite(s.value)), default=0.0)

    def of(self, node: str) -> WindowEvidence:
        covered = {sighting.key: sighting.value for sighting in self.covered.get(node, ())}
        return WindowEvidence(self.seconds, self.values.get(node, ()), covered, self.remark)


class NodeLoads:
    """Reads the nodes' load of one cycle, a resource at a time.

    `unresolved` are the series that belong to no known node. `cluster_values` are the values of
    labels that identify a cluster, "" if a series lacks a label that others have. `short_windows`
    are sentences about windows that are too short for the scrape interval. `seen` is for people.
    """

    def __init__(self, queries: CycleQueries, index: NodeIndex, metrics: MetricsSource) -> None:
        self._vector = queries.vector
        self._queries = queries
        self._index = index
        self._metrics = metrics
        self._sources: dict[Resource, NodeSource | None] = {}
        self.unresolved: set[Key] = set()
        self.cluster_values: dict[str, set[str]] = {}
        self.short_windows: dict[Resource, list[str]] = {}
        self.seen: dict[str, dict[Resource, SeenLoad]] = {}

    def read(
        self, resource: Resource, windows_seconds: Sequence[int], cluster: ClusterState
    ) -> dict[str, Measured | Unknown]:
        """The load of each node over the windows, by node name."""
        source, aged = self._found_source(resource)
        own = self._metrics.queries.get(f"node_{resource}")
        values = [self._values(resource, seconds) for seconds in windows_seconds]
        windows = list(map(partial(self._window, resource, source), windows_seconds, values))
        found: dict[str, Measured | Unknown] = {}
        for node in cluster.nodes:
            evidence = NodeEvidence(
                windows=[window.of(node.name) for window in windows],
                ages={s.key: s.value for s in aged.get(node.name, ())},
                node_age_seconds=self._age_seconds(node),
                own_query=own is not None,
                checkable=source is not None,
                absent_detail=self._absent_detail(source, own),
            )
            load = judge(evidence)
            if isinstance(load, Measured):
                most = tuple(window.pods_ratio(node.name) for window in windows)
                load = msgspec.structs.replace(load, pods_ratios=most)
            found[node.name] = load
            self.seen.setdefault(node.name, {})[resource] = seen(evidence, load)
        return found

    def expression(self, resource: Resource, window_seconds: int) -> str | None:
        """The query of the latest `read` of the resource, None if there is no source."""
        own = self._metrics.queries.get(f"node_{resource}")
        if own is not None:
            return own_query(own, window_seconds)
        source = self._sources.get(resource)
        return source.ratio(window_seconds, self._scope(resource, source)) if source else None

    def source(self, resource: Resource) -> tuple[NodeSource, Scope] | None:
        """What the latest `read` of the resource has read, None if there is no source."""
        source = self._sources.get(resource)
        return (source, self._scope(resource, source)) if source else None

    def _scope(self, resource: Resource, source: NodeSource) -> Scope:
        return scope_of(self._metrics, f"node_{resource}", source.scope)

    def _found_source(self, resource: Resource) -> tuple[NodeSource | None, Sightings]:
        """The first source that has any series, with their ages."""
        self._sources[resource] = None
        for source in NODE_SOURCES[resource]:
            scope = self._scope(resource, source)
            if ages := self._vector(source.age(scope)):
                self._sources[resource] = source
                self._learn_names(source, ages, scope)
                return source, self._by_node(ages)
        return None, {}

    def _learn_names(
        self, source: NodeSource, ages: Iterable[Series[Labels]], scope: Scope
    ) -> None:
        if source.name == NODE_EXPORTER and any(
            self._index.would_need_names(series.labels) for series in ages
        ):
            reports = self._vector(exporter_names(scope))
            self._index.learn_names(series.labels for series in reports)

    def _values(self, resource: Resource, seconds: int) -> Sightings:
        query = self.expression(resource, seconds)
        return self._by_node(self._vector(query)) if query is not None else {}

    def _window(
        self, resource: Resource, source: NodeSource | None, seconds: int, values: Sightings
    ) -> _ClusterWindow:
        if source is None:
            return _ClusterWindow(seconds, values, {})
        scope = self._scope(resource, source)
        covered = self._vector(source.covered_checkpoints(seconds, scope))
        remark = ""
        if all(series.value < COVERED_CHECKPOINTS for series in covered):
            remark = _too_short(seconds, self._vector(source.scrape_interval(scope)))
        if remark:
            self.short_windows.setdefault(resource, []).append(remark)
        pods: Sightings = {}
        if source.pods_ratio is not None:
            pods = self._by_node(self._vector(source.pods_ratio(seconds, scope)))
        return _ClusterWindow(seconds, values, self._by_node(covered), remark, pods)

    def _by_node(self, found: Sequence[Series[Labels]]) -> Sightings:
        sightings: dict[str, list[Sighting]] = {}
        self._learn_clusters(found)
        for series in found:
            labels = series.labels
            key = frozenset(labels.items())
            node = self._index.resolve(labels)
            if node is None:
                self.unresolved.add(key)
                continue
            gone = self._index.exporter_is_gone(labels)
            sightings.setdefault(node, []).append(Sighting(key, series.value, gone))
        return sightings

    def _learn_clusters(self, found: Sequence[Series[Labels]]) -> None:
        """Record the clusters that series belong to, and whether some have no label for it.

        The nodes of another cluster may have the same names.
        """
        for label in CLUSTER_LABELS:
            values = {series.labels.get(label, "") for series in found}
            if values - {""}:
                self.cluster_values.setdefault(label, set()).update(values)

    def _age_seconds(self, node: Node) -> float:
        evaluated_at = self._queries.evaluated_at
        return (evaluated_at - node.created_at).total_seconds() if evaluated_at else 0.0

    def _absent_detail(self, source: NodeSource | None, own: str | None) -> str:
        if own is not None:
            return "the query of metrics.queries has no value for this node"
        if source is not None:
            return f"no series of {source.name} belongs to this node"
        where = " under metrics.matchers" if self._metrics.matchers else ""
        return (
            f"Prometheus has no {NODE_EXPORTER} or {CADVISOR} series for any node{where}; if their "
            "jobs have unusual names, set metrics.sources"
        )


def _too_short(window_seconds: int, intervals: Iterable[Series[Labels]]) -> str:
    """Why a window is too short for the scrape interval; empty if not, or if unknown."""
    known = (series.value for series in intervals if math.isfinite(series.value))
    interval = round(max(known, default=0.0))
    if window_seconds >= interval * SAMPLES_PER_WINDOW:
        return ""
    return (
        f"window {duration_text(window_seconds)} is too short for a scrape interval of "
        f"{interval}s: set windows to at least {duration_text(interval * SAMPLES_PER_WINDOW)}"
    )
