"""The past of the pods on some nodes, also of those that have ended.

Only what is not kept is asked for: of a node that is chosen for the first time the whole past, and
later the latest point, unless a cycle is near to it.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from desched.adapters.kept_history import KeptPasts, OfPods, PodKey, PodResource, Points, Span
from desched.adapters.prometheus.client import PodLabels, pod_labels
from desched.adapters.prometheus.cycle_queries import CycleQueries, Parts, Query
from desched.adapters.prometheus.kubelets import Kubelets
from desched.adapters.prometheus.nodes import NodeIndex
from desched.adapters.prometheus.pod_loads import PodLoads, UsageQuery
from desched.adapters.prometheus.pod_usages import agree, scale
from desched.adapters.prometheus.queries import cgroup_usage, container_usage, own_query
from desched.model.cluster import ClusterState
from desched.model.load import PodPast, PodUsage
from desched.model.resources import Resource
from desched.policy.policy import MetricsSource

MOST_SAMPLES = 400_000
"""Of one query, as far as the pods that exist show it; an answer may have 64 MiB."""

_Row = tuple[Resource, PodLabels, Points]
_Ask = Callable[[Parts], Iterable[tuple[str, PodLabels, Points]]]
"""The rows of an answer, with the names of their parts."""
_RowsOf = Callable[[UsageQuery, frozenset[str]], Iterator[_Row]]
_OfNodes = Mapping[str, Mapping[PodResource, Points]]
"""By node, the values of its pods; None where there is none, or where several disagree."""

_OF_PODS = (Resource.CPU, Resource.MEMORY)


class Sources(NamedTuple):
    """What a cycle reads of pods and of their kubelets."""

    nodes: NodeIndex
    kubelets: Kubelets
    pods: PodLoads
    cluster: ClusterState


class PodPasts:
    """Reads the past of pods in one cycle, at the times of the span and now."""

    def __init__(
        self,
        queries: CycleQueries,
        sources: Sources,
        metrics: MetricsSource,
        kept: KeptPasts,
        span: Span,
    ) -> None:
        self._queries = queries
        self._index, self._kubelets, self._pods, self._cluster = sources
        self._shortest = {r: its[0] for r, its in self._kubelets.windows.items()}
        self._own = {
            r: own_query(metrics.queries[f"pod_{r}"], self._shortest[r]) for r in self._pods.own
        }
        self._built_in = [r for r in self._shortest if r not in self._own]
        self._kept = kept
        self._span = span
        self._of_cgroups: frozenset[str] = frozenset()
        self._now: dict[str, OfPods] = {}
        scopes = sorted(self._kubelets.scopes.items())
        kept.begin((*scopes, *sorted(self._shortest.items()), *sorted(self._own.items())), span)

    def read(
        self, nodes: frozenset[str], usage: Mapping[PodKey, PodUsage]
    ) -> dict[PodKey, PodPast]:
        """The past of the pods on these nodes; `usage` is what is known of pods now.

        Raises:
            ObservationError: Prometheus did not answer, or answered with an error.
        """
        if not (self._queries.evaluated and self._shortest):
            return {}
        if new := nodes.difference(self._now):
            self._now |= self._measured_now(new, usage)
        now = {node: self._now[node] for node in nodes}
        for missing, those in self._behind(now).items():
            own = self._own_past(frozenset(those), missing)
            for some in self._dealt(those, missing.size):
                measured = self._measured(some, partial(self._past_rows, missing))
                for node in some:
                    both = {**measured.get(node, {}), **own.get(node, {})}
                    self._kept.of(node).add(missing.first, missing.size, both)
        return self._kept.pasts(now, self._index.node_of)

    def _behind(self, now: Mapping[str, OfPods]) -> Mapping[Span, Sequence[str]]:
        """The times that are not known, with their nodes; what is measured now may be one."""
        near = self._span.near(self._queries.now, min(self._shortest.values()))
        behind: dict[Span, list[str]] = {}
        for node in sorted(now):
            points = self._kept.of(node)
            if near is not None:
                points.add(near, 1, {key: (value,) for key, value in now[node].items()})
            if (missing := points.missing()) is not None:
                behind.setdefault(missing, []).append(node)
        return behind

    def _measured_now(
        self, nodes: frozenset[str], usage: Mapping[PodKey, PodUsage]
    ) -> Mapping[str, OfPods]:
        """The present usage of the pods of each node."""
        measured = self._built_in_now(nodes)
        now: dict[str, dict[PodResource, float]] = {
            node: {k: value for k, (value,) in measured.get(node, {}).items() if value is not None}
            for node in nodes
        }
        for resource in self._own:
            for pod, used in usage.items():
                values = used.cpu_millicores if resource is Resource.CPU else used.memory_bytes
                node = self._index.node_of(pod)
                if values and node is not None and node in now:
                    now[node][resource, pod] = values[0]
        return now

    def _built_in_now(self, nodes: frozenset[str]) -> _OfNodes:
        """The present usage that is not a query of the user; without any the labels are learnt."""
        if not self._built_in:
            return {}
        self._kubelets.learn()
        measured = self._measured(nodes, self._rows_now)
        silent = any(not measured.get(node) and self._has_ready_pod(node) for node in nodes)
        if silent and self._kubelets.learn_from_pods():
            self._of_cgroups -= nodes
            measured = self._measured(nodes, self._rows_now)
        return measured

    def _measured(self, nodes: frozenset[str], rows_of: _RowsOf) -> _OfNodes:
        """The usage by containers, else by the cgroups of pods where a pod now has no other."""
        containers = self._by_node(rows_of(container_usage, nodes), nodes)
        if rows_of == self._rows_now:
            silent = (node for node in nodes if self._lacks_a_pod(node, containers))
            self._of_cgroups = self._of_cgroups.union(silent)
        of_cgroups = nodes & self._of_cgroups
        cgroups = self._by_node(rows_of(cgroup_usage, of_cgroups), of_cgroups)
        return {
            node: {**cgroups.get(node, {}), **containers.get(node, {})}
            for node in containers.keys() | cgroups.keys()
        }

    def _rows_now(self, usage: UsageQuery, nodes: frozenset[str]) -> Iterator[_Row]:
        """What this cycle has read already, and the others."""
        read = self._pods.shortest.get(usage)
        if read is not None:
            for resource in self._built_in:
                for series in read.series[resource]:
                    yield resource, series.labels, (series.value,)
            nodes -= read.nodes

        def ask(parts: Parts) -> Iterator[tuple[str, PodLabels, Points]]:
            for name, found in self._queries.parts_of_pods(parts).items():
                yield from ((name, series.labels, (series.value,)) for series in found)

        yield from self._rows(usage, nodes, ask)

    def _past_rows(self, span: Span, usage: UsageQuery, nodes: frozenset[str]) -> Iterator[_Row]:
        def ask(parts: Parts) -> Iterator[tuple[str, PodLabels, Points]]:
            for name, grids in self._queries.points(parts, span).items():
                yield from ((name, pod_labels(grid.labels), grid.values) for grid in grids)

        yield from self._rows(usage, nodes, ask)

    def _rows(self, usage: UsageQuery, nodes: frozenset[str], ask: _Ask) -> Iterator[_Row]:
        """The rows of these nodes, and perhaps of others that their matchers select."""
        matchers = self._kubelets.matchers(nodes)
        parts = {
            f"{resource}_{number}": Query(usage(resource, self._shortest[resource], scope))
            for resource in self._built_in
            for number, matcher in enumerate(matchers)
            for scope in [f"{self._kubelets.scopes[resource]},{matcher}"]
        }
        for name, labels, points in ask(parts):
            yield Resource(name.rpartition("_")[0]), labels, points

    def _by_node(self, rows: Iterable[_Row], nodes: frozenset[str]) -> _OfNodes:
        """The values of the rows that count."""
        points_of: dict[str, dict[PodResource, Points]] = {}
        for resource, labels, values in rows:
            node = self._index.past_node(labels)
            if node is None or node not in nodes:
                continue
            of_node = points_of.setdefault(node, {})
            key = resource, (labels.namespace, labels.pod)
            points = tuple(_usable(value, resource) for value in values)
            of_node[key] = _merged(of_node[key], points) if key in of_node else points
        return {
            node: {key: _known(points) for key, points in of_node.items()}
            for node, of_node in points_of.items()
        }

    def _own_past(self, nodes: frozenset[str], span: Span) -> _OfNodes:
        """The past by queries of the user, which are for all pods: those that exist count."""
        pasts: dict[str, dict[PodResource, Points]] = {}
        at_once = max(1, MOST_SAMPLES // max(1, len(self._cluster.pods)))
        for resource, promql in self._own.items():
            for begin in range(0, span.size, at_once):
                times = span.times[begin : begin + at_once]
                part = Span(times[0], times[-1], span.step_seconds)
                after = (None,) * (span.size - begin - part.size)
                asked = self._queries.points({"own": Query(promql, alone=True)}, part)
                for grid in asked["own"]:
                    labels = pod_labels(grid.labels)
                    pod = labels.namespace, labels.pod
                    node = self._index.node_of(pod)
                    if node is None or node not in nodes:
                        continue
                    values = (_usable(value, resource) for value in grid.values)
                    points = (*(None,) * begin, *values, *after)
                    of_node = pasts.setdefault(node, {})
                    key = resource, pod
                    of_node[key] = _merged(of_node[key], points) if key in of_node else points
        return {
            node: {key: _known(points) for key, points in of_node.items()}
            for node, of_node in pasts.items()
        }

    def _dealt(self, nodes: Iterable[str], points: int) -> Iterator[frozenset[str]]:
        """The nodes in parts with as many pods as may be read at once."""
        part, samples = set[str](), 0
        for node in nodes:
            own = points * len(self._cluster.pods_by_node.get(node, ()))
            if part and samples + own > MOST_SAMPLES:
                yield frozenset(part)
                part, samples = set(), 0
            part.add(node)
            samples += own
        yield frozenset(part)

    def _lacks_a_pod(self, node: str, found: _OfNodes) -> bool:
        """Whether a pod that is ready has no usage: its runtime may label no containers."""
        measured = {pod for _, pod in found.get(node, ())}
        pods = self._cluster.pods_by_node.get(node, ())
        return any(pod.ready and (pod.namespace, pod.name) not in measured for pod in pods)

    def _has_ready_pod(self, node: str) -> bool:
        return any(pod.ready for pod in self._cluster.pods_by_node.get(node, ()))


def _usable(value: float | None, resource: Resource) -> float | None:
    """A value in millicores or bytes; NaN, which no other value mends, if it is impossible."""
    if value is None:
        return None
    value *= scale(resource)
    return value if 0.0 <= value < math.inf else math.nan


def _merged(one: Points, other: Points) -> Points:
    """The values of two series of a pod; NaN where they disagree."""
    return tuple(map(_of_both, one, other))


def _of_both(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other) if agree(one, other) else math.nan


def _known(points: Points) -> Points:
    return tuple(None if value is None or math.isnan(value) else value for value in points)
