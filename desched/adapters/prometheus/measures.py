"""Looks at what Prometheus has for each measure: series, labels, matches, ages, intervals, values.

It asks what a cycle asks, by the same code, and more about what it finds or misses.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from desched.adapters.prometheus.client import Labels, PrometheusClient, Series, pod_labels
from desched.adapters.prometheus.cycle_queries import CycleQueries
from desched.adapters.prometheus.node_loads import NodeLoads
from desched.adapters.prometheus.nodes import NodeIndex
from desched.adapters.prometheus.pod_usages import counts, usage_query, usages
from desched.adapters.prometheus.queries import (
    CADVISOR,
    CPU_MODES,
    EXPORTER_SCOPE,
    NODE_SOURCES,
    cpu_modes,
    names_exporters,
    node_series_by_labels,
    pod_scope,
    pod_series,
    pod_series_by_labels,
    pods_by_labels,
    reach,
)
from desched.adapters.prometheus.scrape_jobs import jobs_of_strangers
from desched.errors import ObservationError
from desched.model.cluster import ClusterState
from desched.model.load import Measured
from desched.model.measures import LabelGroup, MeasureFacts, MetricsFacts
from desched.model.resources import Resource
from desched.policy.policy import Policy
from desched.promql.sources import CLUSTER_LABELS, scope_of, selector

MOST_EXAMPLES = 3
MOST_GROUPS = 50
MOST_SAMPLED_PODS = 20
_ALIVE = "vector(1)"
_REACH_POINTS = 60
_OF_SERVICE = ("job", "namespace", "service")
_UNIQUE_OWNERS = frozenset({"ReplicaSet", "DaemonSet", "Job"})
"""The names of their pods are random, so that another cluster hardly has the same."""


def look(client: PrometheusClient, cluster: ClusterState, policy: Policy) -> MetricsFacts:
    """All that Prometheus has for this cluster and policy.

    Raises:
        ObservationError: it answers no query at all.
    """
    client.query(_ALIVE)
    return _Look(client, cluster, policy).facts()


class _Values(NamedTuple):
    """The lowest and the highest of some values, None without any that is a number."""

    lowest: float | None
    highest: float | None

    @classmethod
    def of(cls, series: Iterable[Series[Labels]]) -> "_Values":
        values = [one.value for one in series if math.isfinite(one.value)]
        return cls(min(values, default=None), max(values, default=None))


class _Look:
    def __init__(self, client: PrometheusClient, cluster: ClusterState, policy: Policy) -> None:
        self._cluster = cluster
        self._policy = policy
        self._metrics = policy.metrics
        self._client = client
        self._queries = CycleQueries(client)
        watched = filter(policy.windows, NODE_SOURCES)
        named = names_exporters(policy.metrics, watched)
        self._index = NodeIndex(cluster, named=named)
        self._loads = NodeLoads(self._queries, self._index, policy.metrics)

    def facts(self) -> MetricsFacts:
        measures = tuple(self._measures())
        cluster_values = self._loads.cluster_values.items()
        values = {label: tuple(sorted(some)) for label, some in cluster_values}
        sampled = self._sampled_pods()
        try:
            sightings = self._sightings(sampled) if sampled else ()
        except ObservationError:
            sightings = None
        return MetricsFacts(measures, values, len(sampled), sightings, self._jobs_of_strangers())

    def _jobs_of_strangers(self) -> tuple[str, ...] | None:
        try:
            return jobs_of_strangers(self._client.configuration())
        except ObservationError:
            return None

    def _measures(self) -> Iterator[MeasureFacts]:
        for of_nodes in (True, False):
            for resource in NODE_SOURCES:
                if not self._policy.windows(resource):
                    continue
                name = f"{'node' if of_nodes else 'pod'}_{resource}"
                facts = MeasureFacts(
                    name=name,
                    resource=resource,
                    of_nodes=of_nodes,
                    own_query=name in self._metrics.queries,
                )
                try:
                    yield self._of_nodes(facts) if of_nodes else self._of_pods(facts)
                except ObservationError as error:
                    yield msgspec.structs.replace(facts, problem=str(error))

    def _of_nodes(self, facts: MeasureFacts) -> MeasureFacts:
        resource, windows = facts.resource, self._policy.windows(facts.resource)
        loads = self._loads.read({resource: windows}, self._cluster)[resource]
        expression = self._loads.expression(resource, windows[0])
        series = self._queries.vector(expression.promql) if expression else ()
        lowest, highest = _Values.of(series)
        facts = msgspec.structs.replace(
            facts,
            loads=loads,
            measured=sum(isinstance(load, Measured) for load in loads.values()),
            lowest=lowest,
            highest=highest,
            short_windows=tuple(self._loads.short_windows.get(resource, ())),
        )
        found = self._loads.source(resource)
        if found is not None:
            source, scope = found
            # The ages are without series that have ended, unlike values over a window.
            aged = [s for s in self._queries.vector(source.age(scope)) if self._node_of(s)]
            facts = msgspec.structs.replace(
                facts,
                source=source.name,
                oldest_age_seconds=_Values.of(aged).highest,
                interval_seconds=_Values.of(
                    self._queries.vector(source.scrape_interval(scope))
                ).highest,
            )
            if facts.measured < len(loads):
                facts = self._with_reach(facts, selector(*source.raw, scope))
        if resource is Resource.CPU and not facts.own_query:
            facts = msgspec.structs.replace(facts, missing_modes=self._missing_modes())
        matches = [self._index.match(one.labels) for one in series]
        ways = {match.node: match.way.value for match in matches if match is not None}
        left = [one for one, match in zip(series, matches, strict=True) if match is None]
        examples = [self._index.why_unmatched(one.labels) for one in left]
        facts = msgspec.structs.replace(facts, services=self._services(left))
        return self._described(facts, series, Counter(ways.values()), examples)

    def _missing_modes(self) -> tuple[str, ...]:
        """The modes of node_exporter that are not kept, if some are."""
        scope = scope_of(self._metrics, "node_cpu", EXPORTER_SCOPE)
        modes = {one.labels.get("mode") for one in self._queries.vector(cpu_modes(scope))}
        return tuple(mode for mode in CPU_MODES if mode not in modes) if modes else ()

    def _services(self, unmatched: Iterable[Series[Labels]]) -> tuple[LabelGroup, ...]:
        """The Services that the policy could name, by the number of nodes that they claim."""
        claims = {
            (tuple(one.labels.get(name, "") for name in _OF_SERVICE), node)
            for one in unmatched
            if (node := self._index.claimed_as_service(one.labels))
        }
        nodes = Counter(service for service, _ in claims)
        return tuple(
            LabelGroup(dict(zip(_OF_SERVICE, service, strict=True)), count)
            for service, count in sorted(nodes.items(), key=lambda item: (-item[1], item[0]))
        )[:MOST_GROUPS]

    def _node_of(self, series: Series[Labels]) -> str | None:
        return self._index.resolve(series.labels)

    def _of_pods(self, facts: MeasureFacts) -> MeasureFacts:
        resource, windows = facts.resource, self._policy.windows(facts.resource)
        queries = (usage_query(resource, seconds, self._metrics) for seconds in windows)
        answers = map(self._queries.of_pods, queries)
        usages_of = usages(resource, answers, self._index, named=not facts.own_query)
        series = self._queries.vector(usage_query(resource, windows[0], self._metrics))
        named = not facts.own_query
        left = [
            one for one in series if not counts(pod_labels(one.labels), self._index, named=named)
        ]
        lowest, highest = _Values.of(series)
        interval = None
        if not facts.own_query:
            root = next(one for one in NODE_SOURCES[resource] if one.name == CADVISOR)
            scraped = root.scrape_interval(pod_scope(self._metrics, resource))
            interval = _Values.of(self._queries.vector(scraped)).highest
        facts = msgspec.structs.replace(
            facts,
            source=CADVISOR if series and not facts.own_query else "",
            measured=len(usages_of),
            lowest=lowest,
            highest=highest,
            interval_seconds=interval,
        )
        if not (series or facts.own_query):
            scope = pod_scope(self._metrics, resource)
            facts = self._with_reach(facts, pod_series(resource, scope))
        ways = Counter({"namespace and pod": len(series) - len(left)})
        return self._described(facts, series, ways, map(self._why_not_counted, left))

    def _with_reach(self, facts: MeasureFacts, series: str) -> MeasureFacts:
        """The facts with how far back the samples reach, if that is less than a window."""
        window = max(self._policy.windows(facts.resource))
        step = max(1, window // _REACH_POINTS)
        oldest = _Values.of(self._queries.vector(reach(series, window, step))).highest
        # A sample at the begin of the window may be seen one step later.
        if oldest is None or oldest > window - step:
            return facts
        return msgspec.structs.replace(facts, reach_seconds=max(oldest, 0.0))

    def _why_not_counted(self, series: Series[Labels]) -> str:
        labels = series.labels
        namespace, pod = labels.get("namespace", ""), labels.get("pod", "")
        if not (namespace and pod):
            return "it has no labels namespace and pod"
        if not self._index.has_pod(pod_labels(labels)):
            return f"there is no pod {namespace}/{pod}"
        named = ", ".join(f'{key}="{labels.get(key, "")}"' for key in ("node", "instance"))
        return f"{named} does not name the node that {namespace}/{pod} is on"

    def _described(
        self,
        facts: MeasureFacts,
        series: Sequence[Series[Labels]],
        ways: Counter[str],
        unmatched: Iterable[str],
    ) -> MeasureFacts:
        """The facts with the series, what they led to, and what there is instead of them."""
        names = list(unmatched)
        is_there = series or facts.own_query or facts.reach_seconds is not None
        elsewhere = () if is_there else self._elsewhere(facts)
        return msgspec.structs.replace(
            facts,
            series=len(series),
            labels=tuple(sorted({name for one in series for name in one.labels})),
            matched={way: count for way, count in ways.items() if count},
            unmatched=len(names),
            examples=tuple(dict.fromkeys(names))[:MOST_EXAMPLES],
            elsewhere=elsewhere,
        )

    @property
    def _identifying(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*CLUSTER_LABELS, *self._metrics.matchers)))

    def _elsewhere(self, facts: MeasureFacts) -> tuple[LabelGroup, ...]:
        """Where there are series of this measure, whatever the policy's matchers and sources."""
        labels = ("job", "metrics_path", *self._identifying)
        if facts.of_nodes:
            sources = NODE_SOURCES[facts.resource]
            queries = [node_series_by_labels(source, labels) for source in sources]
        else:
            queries = [pod_series_by_labels(facts.resource, labels)]
        for query in queries:
            if series := self._queries.vector(query):
                return _groups(series)
        return ()

    def _sampled_pods(self) -> Sequence[str]:
        """The names of some running pods by which a cluster can be told from others."""
        names = [
            pod.name
            for pod in self._cluster.pods
            if pod.node and not pod.finished and pod.owner and pod.owner.kind in _UNIQUE_OWNERS
        ]
        step = max(1, len(names) // MOST_SAMPLED_PODS)
        return sorted(names)[::step][:MOST_SAMPLED_PODS]

    def _sightings(self, names: Sequence[str]) -> tuple[LabelGroup, ...]:
        """Where the pods with these names are seen: as cycles see them, but with any matchers."""
        watched = [r for r in NODE_SOURCES if self._policy.windows(r)]
        if all(f"pod_{resource}" in self._metrics.queries for resource in watched):
            return self._own_sightings(frozenset(names), watched)
        return _groups(self._queries.vector(pods_by_labels(names, self._identifying)))

    def _own_sightings(
        self, names: frozenset[str], watched: Sequence[Resource]
    ) -> tuple[LabelGroup, ...]:
        """The same by the policy's own queries, to which no matchers are added."""
        windows = ((resource, self._policy.windows(resource)[0]) for resource in watched)
        queries = [usage_query(resource, seconds, self._metrics) for resource, seconds in windows]
        seen = {
            (one.labels["namespace"], one.labels["pod"])
            for query in queries
            for one in self._queries.vector(query)
            if one.labels.get("pod") in names and "namespace" in one.labels
        }
        return (LabelGroup(self._metrics.matchers, len(seen)),) if seen else ()


def _groups(series: Iterable[Series[Labels]]) -> tuple[LabelGroup, ...]:
    """The groups of a query that counts, the largest first."""
    groups = [LabelGroup(dict(one.labels), round(one.value)) for one in series]
    groups.sort(key=lambda group: (-group.count, sorted(group.labels.items())))
    return tuple(groups[:MOST_GROUPS])
