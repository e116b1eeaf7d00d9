"""The series of kubelets: the labels by which a query selects a node, and the sum of its pods.

The cgroup of all pods of a node is one series. Where it is not kept, as in kube-prometheus-stack,
Prometheus adds up the pods, which costs it more than most of what a cycle reads.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from os.path import commonprefix

from desched.adapters.prometheus.client import LONGEST_QUERY_CHARACTERS, url_length
from desched.adapters.prometheus.cycle_queries import CycleQueries, Query
from desched.adapters.prometheus.nodes import NodeIndex
from desched.adapters.prometheus.pod_usages import PodSeries, agree, scale
from desched.adapters.prometheus.queries import (
    kubelets,
    kubelets_of_pods,
    pod_scope,
    pod_sums,
    root_sums,
)
from desched.model.groups import grouped
from desched.model.resources import Resource
from desched.policy.policy import MetricsSource
from desched.promql.sources import Scope

_NOT_LITERAL = re.compile(r"[^a-zA-Z0-9_:-]")

_LONGEST_MATCHER_CHARACTERS = LONGEST_QUERY_CHARACTERS // 4
"""Two selectors of a query have it, with their other conditions."""

MOST_NODES_SHARE = 0.5
"""The share of the nodes above which the pods of all of them are added up."""

Sums = dict[str, dict[Resource, tuple[float, ...]]]
"""By node name, a value for each window; see `ClusterLoad`."""

_SumQuery = Callable[[Resource, int, Scope], str]


class Kubelets:
    """Reads the series of kubelets in one cycle, over the windows of each resource.

    `hints` has the labels `node` and `instance` of each node's series, as far as they were learnt.
    """

    def __init__(
        self,
        queries: CycleQueries,
        index: NodeIndex,
        metrics: MetricsSource,
        windows: Mapping[Resource, Sequence[int]],
    ) -> None:
        self._queries = queries
        self._index = index
        self._roots: Sums | None = None
        self._asked_pods = False
        self.windows = windows
        self.scopes = {resource: pod_scope(metrics, resource) for resource in windows}
        self.hints: dict[str, set[tuple[str, str]]] = {}

    def learn(self) -> None:
        """Learn the labels of all kubelets, unless that has been done."""
        if self._roots is not None:
            return
        scopes = enumerate(sorted(set(self.scopes.values())))
        labels = {f"kubelets_{i}": Query(kubelets(scope)) for i, scope in scopes}
        answers = self._queries.parts_of_pods(labels | dict(self._parts(root_sums)))
        for name in labels:
            self._learn(answers[name])
        roots, columns = self._sums(answers), self._columns(answers)
        whole = set(roots).intersection(*(seen for of in columns.values() for seen in of))
        self._roots = {node: roots[node] for node in whole}
        if not self.hints:
            self.learn_from_pods()

    def learn_from_pods(self) -> bool:
        """Learn the labels from the series of pods; false if that has been done."""
        if self._asked_pods:
            return False
        self._asked_pods = True
        self.hints.clear()
        parts = {f"{r}_pods": Query(kubelets_of_pods(r, s)) for r, s in self.scopes.items()}
        for series in self._queries.parts_of_pods(parts).values():
            self._learn(series)
        return True

    def sums(self, nodes: frozenset[str]) -> Sums:
        """What the pods of each of these nodes use together, as far as that was measured."""
        self.learn()
        roots = self._roots or {}
        found = {node: roots[node] for node in nodes if node in roots}
        for containers in (True, False):
            left = nodes - found.keys()
            if not left:
                break
            query = partial(pod_sums, containers=containers)
            parts = dict(self._parts(query, self._matcher_of_few(left)))
            summed = self._sums(self._queries.parts_of_pods(parts))
            found |= {node: summed[node] for node in left if node in summed}
        return found

    def matcher(self, nodes: Iterable[str]) -> Scope | None:
        """A matcher of the labels `node` or `instance` of these nodes, None without these."""
        hints = {hints for node in nodes for hints in self.hints[node]}
        for label, values in zip(("node", "instance"), zip(*hints, strict=True), strict=True):
            if all(values):
                return f'{label}=~"{one_of(values)}"'
        return None

    def matchers(self, nodes: Iterable[str]) -> list[Scope]:
        """Short matchers of all series of these nodes, as far as their labels were learnt."""
        hints = {hints for node in nodes for hints in self.hints.get(node, ())}
        labelled = {("node", name) if name else ("instance", instance) for name, instance in hints}
        return [
            f'{label}=~"{one_of(part)}"'
            for label, values in grouped(sorted(labelled)).items()
            for part in _short_parts(values)
        ]

    def _matcher_of_few(self, nodes: frozenset[str]) -> Scope:
        """The same for nodes that are few enough for one query, else none: of all nodes."""
        if len(nodes) > MOST_NODES_SHARE * len(self.hints) or not nodes <= self.hints.keys():
            return ""
        matcher = self.matcher(nodes) or ""
        return matcher if url_length(matcher) <= _LONGEST_MATCHER_CHARACTERS else ""

    def _parts(self, query: _SumQuery, matcher: Scope = "") -> Iterator[tuple[str, Query]]:
        for resource, windows in self.windows.items():
            scope = ",".join(filter(None, (self.scopes[resource], matcher)))
            for seconds in windows:
                yield f"{resource}_{seconds}", Query(query(resource, seconds, scope))

    def _sums(self, answers: Mapping[str, PodSeries]) -> Sums:
        """By node; 0 in windows in which no pod was measured."""
        sums: Sums = {}
        for resource, columns in self._columns(answers).items():
            for node in set().union(*columns):
                of_node = tuple(column.get(node, 0.0) for column in columns)
                sums.setdefault(node, {})[resource] = of_node
        return sums

    def _columns(self, answers: Mapping[str, PodSeries]) -> dict[Resource, list[dict[str, float]]]:
        """The sums of nodes in each window."""
        return {
            resource: [self._by_node(answers[f"{resource}_{s}"], resource) for s in windows]
            for resource, windows in self.windows.items()
        }

    def _by_node(self, answer: PodSeries, resource: Resource) -> dict[str, float]:
        """The sum of each node; infinity if it is in doubt, so that the pods of the node are read.

        Two series of a node may be scrapes of one kubelet, or each a part of its pods.
        """
        sums: dict[str, float] = {}
        for series in answer:
            node = self._index.hinted((series.labels.node, series.labels.instance))
            if node is None:
                continue
            value = series.value * scale(resource) if series.value >= 0.0 else math.inf
            sum_before = sums.get(node, value)
            sums[node] = max(value, sum_before) if agree(value, sum_before) else math.inf
        return sums

    def _learn(self, answer: PodSeries) -> None:
        for series in answer:
            hints = series.labels.node, series.labels.instance
            if node := self._index.hinted(hints):
                self.hints.setdefault(node, set()).add(hints)


def _short_parts(values: Sequence[str]) -> Iterator[Sequence[str]]:
    """The values in parts that are short as an expression."""
    if len(values) == 1 or url_length(one_of(values)) <= _LONGEST_MATCHER_CHARACTERS:
        yield values
    else:
        half = len(values) // 2
        yield from _short_parts(values[:half])
        yield from _short_parts(values[half:])


def one_of(values: Iterable[str]) -> str:
    """A short regular expression for these values, and perhaps for others.

    A dot stands for each character that would have to be escaped.
    """
    literal = sorted({_NOT_LITERAL.sub(".", value) for value in values})
    prefix = commonprefix(literal)  # noqa: RUF071  (these are no paths)
    backwards = [value[len(prefix) :][::-1] for value in literal]
    suffix = commonprefix(backwards)  # noqa: RUF071  (nor are these)
    middles = [value[len(suffix) :][::-1] for value in backwards]
    return f"{prefix}({'|'.join(middles)}){suffix[::-1]}" if len(literal) > 1 else prefix
