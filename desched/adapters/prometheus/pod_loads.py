"""The usage of pods: one sum for each node, and by pod for those pods whose usage decides.

A cluster may have 150,000 pods, and few of them are on overloaded nodes. The sums show which labels
the series of a node's pods have; the queries for the pods on some nodes match these labels. Pods of
a controller are matched by their names, which begin with its own.
"""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from os.path import commonprefix
from typing import TypeVar

import msgspec

from desched.adapters.prometheus.client import (
    LONGEST_QUERY_CHARACTERS,
    url_length,
)
from desched.adapters.prometheus.cycle_queries import CycleQueries, Query, requests_for
from desched.adapters.prometheus.nodes import NodeIndex
from desched.adapters.prometheus.pod_usages import (
    PodKey,
    PodSeries,
    Usages,
    agree,
    scale,
    throttled,
    usage_query,
    usages,
)
from desched.adapters.prometheus.queries import (
    Scope,
    pod_scope,
    pod_sums,
    pod_usage,
    throttled_pods,
)
from desched.model.cluster import ClusterState, ControllerKey
from desched.model.groups import grouped
from desched.model.load import PodChoice, PodUsage
from desched.model.resources import Resource
from desched.policy.policy import MetricsSource

MOST_REQUESTS = 16
"""For some pods; if these take more, all pods are asked for.

Many short requests cost Prometheus and desched less than one for all pods does.
"""

MOST_MATCHERS_OF_NAMES = 4
"""With each of them, Prometheus compares the names of all pods."""

MOST_PODS_SHARE = 0.5
"""The share of the pods above which all of them are asked for."""

T = TypeVar("T")

_SUFFIX = "-[a-z0-9]+"
_IS_SUFFIX = re.compile(_SUFFIX).fullmatch
_NOT_LITERAL = re.compile(r"[^a-zA-Z0-9_:-]")


class PodReadings(msgspec.Struct, frozen=True):
    """The usage of some pods, and the throttled ones among them; None means all pods."""

    usage: Mapping[PodKey, PodUsage]
    throttled: frozenset[PodKey]
    pods: PodChoice | None


class PodLoads:
    """Reads the usage of pods in one cycle, over the windows of each resource."""

    def __init__(
        self,
        queries: CycleQueries,
        index: NodeIndex,
        metrics: MetricsSource,
        windows: Mapping[Resource, Sequence[int]],
        cluster: ClusterState,
    ) -> None:
        self._cluster = cluster
        self._queries = queries
        self._index = index
        self._windows = windows
        self._metrics = metrics
        self._own = {resource for resource in windows if f"pod_{resource}" in metrics.queries}
        self._scopes = {resource: pod_scope(metrics, resource) for resource in windows}
        self._hints: dict[str, set[tuple[str, str]]] = {}

    @property
    def can_choose(self) -> bool:
        """Whether the pods of some nodes can be asked for; a query of the user is for all pods."""
        return not self._own

    def sums(self) -> dict[str, dict[Resource, tuple[float, ...]]]:
        """What the pods of each node use together, a value per window; see `ClusterLoad`."""
        found: dict[str, dict[Resource, tuple[float, ...]]] = {}
        answers = self._queries.parts_of_pods(
            {
                f"{resource}_{seconds}": Query(pod_sums(resource, seconds, self._scopes[resource]))
                for resource, windows in self._windows.items()
                for seconds in windows
            }
        )
        for resource, windows in self._windows.items():
            columns = [self._by_node(answers[f"{resource}_{s}"], resource) for s in windows]
            for node in set().union(*columns):
                of_node = tuple(column.get(node, 0.0) for column in columns)
                found.setdefault(node, {})[resource] = of_node
        return found

    def read(self, pods: PodChoice | None) -> PodReadings:
        """The usage of at least these pods, after `sums`; None means all."""
        parts = self._parts(pods) if pods is not None else None
        if pods is None or parts is None:
            found = {r: self._usages(r, self._everywhere(r), None) for r in self._windows}
            held_back = throttled(self._all_throttled(), self._index)
            return PodReadings(_pods(found), held_back, None)
        answers = self._queries.parts_of_pods(parts)

        def about(name: str) -> PodSeries:
            return chain.from_iterable(a for part, a in answers.items() if part.startswith(name))

        found = {
            resource: self._usages(resource, (about(f"{resource}_{s}_") for s in windows), pods)
            for resource, windows in self._windows.items()
        }
        held_back = throttled(about("throttled_"), self._index)
        return PodReadings(_pods(found), held_back, pods)

    def _by_node(self, found: PodSeries, resource: Resource) -> dict[str, float]:
        """The sum of each node; infinity if it is in doubt, so that the pods of the node are read.

        Two series of a node may be scrapes of one kubelet, or each a part of its pods.
        """
        sums: dict[str, float] = {}
        for each in found:
            hints = each.labels.node, each.labels.instance
            node = self._index.hinted(hints)
            if node is None:
                continue
            self._hints.setdefault(node, set()).add(hints)
            value = each.value * scale(resource) if each.value >= 0.0 else math.inf
            known = sums.get(node, value)
            sums[node] = max(value, known) if agree(value, known) else math.inf
        return sums

    def _everywhere(self, resource: Resource) -> Iterator[PodSeries]:
        """The series of all pods, window by window."""
        for seconds in self._windows[resource]:
            yield self._queries.of_pods(usage_query(resource, seconds, self._metrics))

    def _all_throttled(self) -> PodSeries:
        windows = self._windows.get(Resource.CPU)
        if not windows:
            return ()
        return self._queries.of_pods(throttled_pods(windows[0], self._scopes[Resource.CPU]))

    def _parts(self, pods: PodChoice) -> dict[str, Query] | None:
        """The queries for these pods, None if it is better to ask for all."""
        controllers = self._pods_by_controller(pods.controllers)
        on_nodes = sum(len(self._cluster.pods_by_node.get(node, ())) for node in pods.nodes)
        of_controllers = sum(len(names) for _, names in controllers)
        if on_nodes + of_controllers > MOST_PODS_SHARE * len(self._cluster.pods):
            return None
        nodes = sorted(pods.nodes & self._hints.keys())
        for count in range(1, MOST_REQUESTS + 1):
            by_name = _dealt(controllers, min(count, MOST_MATCHERS_OF_NAMES))
            matchers = [
                *map(self._node_matcher, _dealt(nodes, count)),
                *map(_pod_matcher, by_name),
            ]
            if None in matchers:
                return None
            parts: dict[str, Query] = {}
            for number, matcher in enumerate(filter(None, matchers)):
                parts |= self._about(matcher, number)
            requests = requests_for(parts)
            longest = max((url_length(promql) for promql, _ in requests), default=0)
            if longest <= LONGEST_QUERY_CHARACTERS and len(requests) <= MOST_REQUESTS:
                return parts
        return None

    def _pods_by_controller(
        self, controllers: Collection[ControllerKey]
    ) -> list[tuple[str, list[str]]]:
        """The names of these controllers, and of the pods of each."""
        found = grouped(
            ((pod.namespace, owner.uid, owner.name), pod.name)
            for pod in self._cluster.pods
            if (owner := pod.owner) is not None and (pod.namespace, owner.uid) in controllers
        )
        return sorted((name, pods) for (_, _, name), pods in found.items())

    def _node_matcher(self, nodes: Iterable[str]) -> Scope | None:
        """A matcher of the labels `node` or `instance` of the pods' series, None without these."""
        hints = {hints for node in nodes for hints in self._hints[node]}
        for label, values in zip(("node", "instance"), zip(*hints, strict=True), strict=True):
            if all(values):
                return f'{label}=~"{_one_of(values)}"'
        return None

    def _about(self, matcher: str, number: int) -> Iterator[tuple[str, Query]]:
        """The queries for the pods whose series match."""
        for resource, windows in self._windows.items():
            scope = f"{self._scopes[resource]},{matcher}"
            for seconds in windows:
                query = Query(pod_usage(resource, seconds, scope))
                yield f"{resource}_{seconds}_{number}", query
            if resource is Resource.CPU:
                yield f"throttled_{number}", Query(throttled_pods(windows[0], scope))

    def _usages(
        self, resource: Resource, windows: Iterable[PodSeries], pods: PodChoice | None
    ) -> Usages:
        """The usage of these pods; None means all."""
        found = usages(resource, windows, self._index, named=resource not in self._own)
        if pods is None:
            return found
        # Matchers may select more.
        return {key: used for key, used in found.items() if pods.has(self._index.pod(*key))}


def _pods(found: Mapping[Resource, Usages]) -> dict[PodKey, PodUsage]:
    cpu, memory = found.get(Resource.CPU, {}), found.get(Resource.MEMORY, {})
    return {pod: PodUsage(cpu.get(pod, ()), memory.get(pod, ())) for pod in cpu.keys() | memory}


def _dealt(items: Sequence[T], count: int) -> list[Sequence[T]]:
    """The items in as many parts of nearly the same size; none is empty."""
    return [items[i::count] for i in range(min(count, len(items)))]


def _pod_matcher(controllers: Iterable[tuple[str, Sequence[str]]]) -> Scope:
    """A matcher of the names of these controllers' pods: the controller's name with a suffix."""
    beginnings, others = set[str](), set[str]()
    for controller, pods in controllers:
        length = len(controller)
        if all(p.startswith(controller) and _IS_SUFFIX(p, length) for p in pods):
            beginnings.add(controller)
        else:
            others.update(pods)
    expressions = [_one_of(beginnings) + _SUFFIX] if beginnings else []
    expressions += [_one_of(others)] if others else []
    return f'pod=~"{"|".join(expressions)}"'


def _one_of(values: Iterable[str]) -> str:
    """A short regular expression for these values, and perhaps for others.

    A dot stands for each character that would have to be escaped.
    """
    literal = sorted({_NOT_LITERAL.sub(".", value) for value in values})
    prefix = commonprefix(literal)  # noqa: RUF071  (these are no paths)
    backwards = [value[len(prefix) :][::-1] for value in literal]
    suffix = commonprefix(backwards)  # noqa: RUF071  (nor are these)
    middles = [value[len(suffix) :][::-1] for value in backwards]
    return f"{prefix}({'|'.join(middles)}){suffix[::-1]}" if len(literal) > 1 else prefix
