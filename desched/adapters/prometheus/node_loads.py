"""The load of every node: collects the evidence, series by series, and assesses it."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from desched.adapters.prometheus.client import Labels, Series
from desched.adapters.prometheus.cycle_queries import CycleQueries, Query
from desched.adapters.prometheus.exporter_sizes import (
    Contradicted,
    ExporterSizes,
    capacity_of,
    contradiction,
)
from desched.adapters.prometheus.nodes import NodeIndex
from desched.adapters.prometheus.queries import (
    CADVISOR,
    NODE_EXPORTER,
    NODE_SOURCES,
    exporter_names,
    least_on_node,
    own_query,
    pod_scope,
)
from desched.model.cluster import ClusterState, Node
from desched.model.load import Measured, SeenLoad, Unknown, UnknownReason
from desched.model.resources import Resource
from desched.policy.durations import duration_text
from desched.policy.policy import MetricsSource
from desched.promql.data_quality import (
    COVERED_CHECKPOINTS,
    HIGHEST_RATIO,
    Key,
    NodeEvidence,
    Sighting,
    WindowEvidence,
    judge,
    seen,
)
from desched.promql.sources import CLUSTER_LABELS, NodeSource, Scope, scope_of

SAMPLES_PER_WINDOW = 4
"""A window with fewer scrapes is too short."""

FOREIGN_NODES_SHARE = 0.1
"""Of the nodes: up to this share, series of other clusters make only these nodes unknown."""

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
        values = self.pods.get(node) or self.values.get(node, ())
        return min((s.value for s in values if math.isfinite(s.value)), default=0.0)

    def of(self, node: str) -> WindowEvidence:
        covered = {sighting.key: sighting.value for sighting in self.covered.get(node, ())}
        return WindowEvidence(self.seconds, self.values.get(node, ()), covered, self.remark)


class NodeLoads:
    """Reads the nodes' load of one cycle.

    `unresolved` are the series that belong to no known node. `cluster_values` are the values of
    labels that identify a cluster, if that of this one is not clear; "" if a series of a node lacks
    a label that others have. `short_windows`
    are sentences about windows that are too short for the scrape interval. `seen` is for people.
    `shortest` are the values of each node over the shortest window of each resource.
    """

    def __init__(
        self,
        queries: CycleQueries,
        index: NodeIndex,
        metrics: MetricsSource,
        sizes: ExporterSizes | None = None,
    ) -> None:
        self._queries = queries
        self._sizes = sizes or ExporterSizes()
        self._index = index
        self._metrics = metrics
        self._sources: dict[Resource, NodeSource] = {}
        self._resolved: dict[Key, tuple[str | None, bool]] = {}
        self.unresolved: set[Key] = set()
        self.cluster_values: dict[str, set[str]] = {}
        self.short_windows: dict[Resource, list[str]] = {}
        self.seen: dict[str, dict[Resource, SeenLoad]] = {}
        self.shortest: dict[Resource, Sightings] = {}

    def read(
        self, windows: Mapping[Resource, Sequence[int]], cluster: ClusterState
    ) -> dict[Resource, dict[str, Measured | Unknown]]:
        """The load of each node over the windows of each resource, by node name."""
        aged = self._found_sources(windows)
        answers = self._queries.vectors(dict(self._measures(windows)))
        evidence = {
            resource: [self._window(resource, seconds, answers) for seconds in its_windows]
            for resource, its_windows in windows.items()
        }
        self.shortest = {resource: of[0].values for resource, of in evidence.items()}
        foreign = self._foreign_nodes()
        contradicted = self._contradicted(answers, cluster)
        all_loads: dict[Resource, dict[str, Measured | Unknown]] = {}
        for resource, its_evidence in evidence.items():
            ages = aged.get(resource, {})
            least = self._least(answers.get(f"{resource}_least", ()))
            loads = all_loads[resource] = {}
            for node in cluster.nodes:
                load = self._load(node, resource, its_evidence, ages)
                if isinstance(load, Measured):
                    wrong = foreign.get(node.name) or contradicted.get((node.name, resource))
                    load = wrong or load
                if isinstance(load, Measured) and resource in self._sources:
                    load = self._confirmed(load, node, resource, least.get(node.name, 0.0))
                loads[node.name] = load
        return all_loads

    def _confirmed(self, load: Measured, node: Node, resource: Resource, usage: float) -> Measured:
        """The load with the share of its capacity that the kubelet reports as used."""
        if f"node_{resource}" in self._metrics.queries:
            return load
        capacity = capacity_of(node, resource)
        ratio = usage / capacity if capacity else 0.0
        # A sum of two counters in one series is far more than a node can have.
        plausible = ratio if ratio <= HIGHEST_RATIO else 0.0
        return msgspec.structs.replace(load, kubelet_ratio=plausible)

    def expression(self, resource: Resource, window_seconds: int) -> Query | None:
        """The query for the load over a window as of the latest `read`, None without a source."""
        own = self._metrics.queries.get(f"node_{resource}")
        if own is not None:
            return Query(own_query(own, window_seconds), alone=True)
        source = self._sources.get(resource)
        if source is None:
            return None
        return Query(source.ratio(window_seconds, self._scope(resource, source)))

    def source(self, resource: Resource) -> tuple[NodeSource, Scope] | None:
        """What the latest `read` of the resource has read, None if there is no source."""
        source = self._sources.get(resource)
        return (source, self._scope(resource, source)) if source else None

    def _scope(self, resource: Resource, source: NodeSource) -> Scope:
        return scope_of(self._metrics, f"node_{resource}", source.scope)

    def _found_sources(self, resources: Iterable[Resource]) -> dict[Resource, Sightings]:
        """Find the first source of each resource that has any series, and return their ages."""
        wanted = {resource: list(NODE_SOURCES[resource]) for resource in resources}
        self._sources = {r: source for r, source in self._sources.items() if r not in wanted}
        answers: dict[Resource, Sequence[Series[Labels]]] = {}
        while wanted:
            sources = {resource: left.pop(0) for resource, left in wanted.items()}
            ages = self._queries.vectors(
                {
                    f"{resource}_age": Query(source.age(self._scope(resource, source)))
                    for resource, source in sources.items()
                }
            )
            for resource, source in sources.items():
                if series := ages[f"{resource}_age"]:
                    self._sources[resource], answers[resource] = source, series
            wanted = {r: left for r, left in wanted.items() if left and r not in answers}
        self._learn_names(answers)
        return {resource: self._by_node(series) for resource, series in answers.items()}

    def _learn_names(self, answers: Mapping[Resource, Iterable[Series[Labels]]]) -> None:
        scopes = {
            self._scope(resource, source)
            for resource, ages in answers.items()
            if (source := self._sources[resource]).name == NODE_EXPORTER
            and any(self._index.would_need_names(series.labels) for series in ages)
        }
        if not scopes:
            return
        parts = {f"names_{i}": Query(exporter_names(s)) for i, s in enumerate(sorted(scopes))}
        reports = self._queries.vectors(parts).values()
        self._index.learn_names(series.labels for series in chain.from_iterable(reports))

    def _measures(self, windows: Mapping[Resource, Sequence[int]]) -> Iterator[tuple[str, Query]]:
        """The queries for each window, by the name of what they measure."""
        for resource, its_windows in windows.items():
            source = self._sources.get(resource)
            for seconds in its_windows:
                if query := self.expression(resource, seconds):
                    yield f"{resource}_load_{seconds}", query
                if source is not None:
                    scope = self._scope(resource, source)
                    covered = source.covered_checkpoints(seconds, scope)
                    yield f"{resource}_covered_{seconds}", Query(covered)
                    if source.pods_ratio is not None:
                        in_use = source.pods_ratio(seconds, scope)
                        yield f"{resource}_in_use_{seconds}", Query(in_use)
            if source is not None and f"node_{resource}" not in self._metrics.queries:
                yield from self._checks(resource, source, its_windows[0])

    def _checks(
        self, resource: Resource, source: NodeSource, seconds: int
    ) -> Iterator[tuple[str, Query]]:
        """The queries for what the exporters of nodes must agree with."""
        size = source.size
        if source.quick_size is not None and not self._sizes.count_all(self._scopes):
            size = source.quick_size
        if size is not None:
            yield f"{resource}_size", Query(size(self._scope(resource, source)))
        if source.name != CADVISOR:
            scope = pod_scope(self._metrics, resource)
            yield f"{resource}_least", Query(least_on_node(resource, seconds, scope))

    @property
    def _scopes(self) -> dict[Resource, Scope]:
        return {resource: self._scope(resource, of) for resource, of in self._sources.items()}

    def _contradicted(
        self, answers: Mapping[str, Sequence[Series[Labels]]], cluster: ClusterState
    ) -> Contradicted:
        """The nodes whose exporters have found another size than the nodes state."""
        wrong_loads: dict[tuple[str, Resource], Unknown] = {}
        for resource in self._sources:
            sizes = self._by_node(answers.get(f"{resource}_size", ()))
            for node in cluster.nodes:
                of_node = (sighting.value for sighting in sizes.get(node.name, ()))
                if (wrong := contradiction(node, resource, of_node)) is not None:
                    wrong_loads[node.name, resource] = wrong
        return self._sizes.judge(wrong_loads, self._scopes)

    def _least(self, answer: Iterable[Series[Labels]]) -> dict[str, float]:
        """The least usage of each node, as kubelets report it."""
        least: dict[str, float] = {}
        for series in answer:
            node = self._index.resolve(series.labels)
            if node is not None and series.value >= 0.0:
                least[node] = min(series.value, least.get(node, math.inf))
        return least

    def _window(
        self,
        resource: Resource,
        seconds: int,
        answers: Mapping[str, Sequence[Series[Labels]]],
    ) -> _ClusterWindow:
        values = self._by_node(answers.get(f"{resource}_load_{seconds}", ()))
        source = self._sources.get(resource)
        if source is None:
            return _ClusterWindow(seconds, values, {})
        covered = answers[f"{resource}_covered_{seconds}"]
        remark = ""
        if all(series.value < COVERED_CHECKPOINTS for series in covered):
            scope = self._scope(resource, source)
            remark = _too_short(seconds, self._queries.vector(source.scrape_interval(scope)))
        if remark:
            self.short_windows.setdefault(resource, []).append(remark)
        pods = self._by_node(answers.get(f"{resource}_in_use_{seconds}", ()))
        return _ClusterWindow(seconds, values, self._by_node(covered), remark, pods)

    def _load(
        self,
        node: Node,
        resource: Resource,
        windows: Sequence[_ClusterWindow],
        aged: Sightings,
    ) -> Measured | Unknown:
        source, own = self._sources.get(resource), f"node_{resource}" in self._metrics.queries
        evidence = NodeEvidence(
            windows=[window.of(node.name) for window in windows],
            ages={s.key: s.value for s in aged.get(node.name, ())},
            node_age_seconds=self._age_seconds(node),
            own_query=own,
            checkable=source is not None,
            absent_detail=self._absent_detail(source, own=own),
        )
        load = judge(evidence)
        self.seen.setdefault(node.name, {})[resource] = seen(evidence, load)
        if isinstance(load, Unknown):
            return load
        most = tuple(window.pods_ratio(node.name) for window in windows)
        return msgspec.structs.replace(load, pods_ratios=most)

    def _by_node(self, answer: Sequence[Series[Labels]]) -> Sightings:
        sightings: dict[str, list[Sighting]] = {}
        for series in answer:
            key = frozenset(series.labels.items())
            if key not in self._resolved:
                gone = self._index.exporter_is_gone(series.labels)
                self._resolved[key] = self._index.resolve(series.labels), gone
            node, gone = self._resolved[key]
            if node is None:
                self.unresolved.add(key)
                continue
            sightings.setdefault(node, []).append(Sighting(key, series.value, gone))
        return sightings

    def _foreign_nodes(self) -> dict[str, Unknown]:
        """The few nodes with series of other clusters than nearly all nodes.

        If they are more, nodes of another cluster may have the same names: see `cluster_values`.
        """
        foreign: dict[str, Unknown] = {}
        for label in CLUSTER_LABELS:
            values: dict[str, set[str]] = {}
            for key, (node, _) in self._resolved.items():
                if node is not None:
                    values.setdefault(node, set()).add(dict(key).get(label, ""))
            named = set().union(*values.values())
            if label in self._metrics.matchers or len(named) < 2:  # noqa: PLR2004  (several)
                self.cluster_values |= {label: named} if named - {""} else {}
                continue
            alone = Counter(value for (value, *more) in values.values() if not more)
            own, count = alone.most_common(1)[0] if alone else ("", 0)
            others = {node: of for node, of in values.items() if of != {own}}
            if len(others) < count and len(others) <= max(1, FOREIGN_NODES_SHARE * len(values)):
                self.cluster_values |= {label: {own}} if own else {}
                for node, of in others.items():
                    names = ", ".join(sorted(value or "none" for value in of))
                    doubt = f"its series have another {label} than those of other nodes: {names}"
                    foreign[node] = Unknown(UnknownReason.CONTRADICTORY, doubt)
            else:
                self.cluster_values[label] = named
        return foreign

    def own_values(self, label: str) -> list[str]:
        """The values of a label in the series of known nodes, that of most nodes first."""
        labelled = {(dict(key).get(label, ""), node) for key, (node, _) in self._resolved.items()}
        counts = Counter(value for value, node in labelled if node is not None)
        return sorted(counts, key=lambda value: (-counts[value], value))

    def _age_seconds(self, node: Node) -> float:
        evaluated_at = self._queries.evaluated_at
        return (evaluated_at - node.created_at).total_seconds() if evaluated_at else 0.0

    def _absent_detail(self, source: NodeSource | None, *, own: bool) -> str:
        if own:
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
    measured = (series.value for series in intervals if math.isfinite(series.value))
    interval = round(max(measured, default=0.0))
    if window_seconds >= interval * SAMPLES_PER_WINDOW:
        return ""
    return (
        f"window {duration_text(window_seconds)} is too short for a scrape interval of "
        f"{interval}s: set windows to at least {duration_text(interval * SAMPLES_PER_WINDOW)}"
    )
