"""The usage of those pods whose usage decides.

A cluster may have 150,000 pods, and few of them are on overloaded nodes. The queries for the pods
on some nodes match the labels of their kubelets' series. Pods of a controller are matched by their
names, which begin with its own.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import mul
from typing import NamedTuple, TypeVar

import msgspec

from desched.adapters.prometheus.client import (
    LONGEST_QUERY_CHARACTERS,
    PodLabels,
    Series,
    url_length,
)
from desched.adapters.prometheus.cycle_queries import CycleQueries, Query, requests_for
from desched.adapters.prometheus.kubelets import Kubelets, one_of
from desched.adapters.prometheus.nodes import NodeIndex
from desched.adapters.prometheus.pod_usages import (
    PodKey,
    PodSeries,
    Usages,
    throttled,
    usage_query,
    usages,
)
from desched.adapters.prometheus.queries import cgroup_usage, container_usage, throttled_pods
from desched.model.cluster import ClusterState, ControllerKey
from desched.model.groups import grouped
from desched.model.load import PodChoice, PodUsage
from desched.model.resources import Resource
from desched.planning.overload.pod_usage import seen_share
from desched.policy.policy import MetricsSource
from desched.promql.sources import Scope

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


class PodReadings(msgspec.Struct, frozen=True):
    """The usage of some pods, and the throttled ones among them; None means all pods."""

    usage: Mapping[PodKey, PodUsage]
    throttled: frozenset[PodKey]
    pods: PodChoice | None


class SeriesOfNodes(NamedTuple):
    """All series of the pods on these nodes, and further ones."""

    nodes: set[str]
    series: dict[Resource, list[Series[PodLabels]]]

    @classmethod
    def of(cls, resources: Iterable[Resource]) -> "SeriesOfNodes":
        """None yet, of these resources."""
        return cls(set(), {resource: [] for resource in resources})


UsageQuery = Callable[[Resource, int, Scope], str]

NOTHING_READ = PodReadings({}, frozenset(), PodChoice())


class PodLoads:
    """Reads the usage of pods in one cycle, over the windows of each resource.

    `shortest` is what was read of single nodes over the shortest windows, by the query.
    """

    def __init__(
        self,
        queries: CycleQueries,
        index: NodeIndex,
        metrics: MetricsSource,
        kubelets: Kubelets,
        cluster: ClusterState,
    ) -> None:
        self._cluster = cluster
        self._queries = queries
        self._index = index
        self._metrics = metrics
        self._kubelets = kubelets
        self._windows, self._scopes = kubelets.windows, kubelets.scopes
        self.own = {r for r in self._windows if f"pod_{r}" in metrics.queries}
        self.shortest: dict[UsageQuery, SeriesOfNodes] = {}

    @property
    def can_choose(self) -> bool:
        """Whether the pods of some nodes can be asked for; a query of the user is for all pods."""
        return not self.own

    def read(self, pods: PodChoice | None) -> PodReadings:
        """The usage of at least these pods; None means all."""
        readings = self._read_by(container_usage, pods) if pods is not None else None
        if readings is not None and (nodes := self._without_containers(readings)):
            readings = self._with_cgroups(readings, nodes)
        if readings is None:
            usages_of = {r: self._usages(r, self._everywhere(r), None) for r in self._windows}
            held_back = throttled(self._all_throttled(), self._index)
            return PodReadings(_pods(usages_of), held_back, None)
        if self._has_silent_node(readings) and self._kubelets.learn_from_pods():
            return self.read(pods)
        return readings

    def _read_by(self, usage: UsageQuery, pods: PodChoice) -> PodReadings | None:
        """The usage of these pods by such queries, None if it is better to ask for all."""
        parts = self._parts(usage, pods)
        if parts is None:
            return None
        answers = self._queries.parts_of_pods(parts)

        def about(name: str) -> PodSeries:
            return chain.from_iterable(a for part, a in answers.items() if part.startswith(name))

        usages_of = {
            resource: self._usages(resource, (about(f"{resource}_{s}_") for s in windows), pods)
            for resource, windows in self._windows.items()
        }
        read = self.shortest.setdefault(usage, SeriesOfNodes.of(self._windows))
        read.nodes.update(pods.nodes & self._kubelets.hints.keys())
        for resource, windows in self._windows.items():
            read.series[resource].extend(about(f"{resource}_{windows[0]}_"))
        held_back = throttled(about("throttled_"), self._index)
        return PodReadings(_pods(usages_of), held_back, pods)

    def _with_cgroups(self, readings: PodReadings, nodes: frozenset[str]) -> PodReadings | None:
        """The readings with the usage of chosen pods on these nodes that only cgroups have."""
        more = self._read_by(cgroup_usage, PodChoice(nodes))
        if more is None or readings.pods is None:
            return None
        chosen = {k: of for k, of in more.usage.items() if readings.pods.has(self._index.pod(*k))}
        return msgspec.structs.replace(readings, usage={**chosen, **readings.usage})

    def _without_containers(self, readings: PodReadings) -> frozenset[str]:
        """The nodes with a chosen pod without usage: its runtime may label no containers."""
        chosen, cluster = readings.pods or PodChoice(), self._cluster
        return frozenset(
            pod.node
            for pod in chain(
                *(cluster.pods_by_node.get(node, ()) for node in chosen.nodes),
                *(cluster.pods_by_controller.get(key, ()) for key in chosen.controllers),
            )
            if pod.ready and (pod.namespace, pod.name) not in readings.usage
        )

    def _has_silent_node(self, readings: PodReadings) -> bool:
        """Whether a chosen node has pods and none was measured: their labels may be others."""
        nodes = readings.pods.nodes if readings.pods else ()
        ready = ([p for p in self._cluster.pods_by_node.get(n, ()) if p.ready] for n in nodes)
        return any(
            pods and not any((pod.namespace, pod.name) in readings.usage for pod in pods)
            for pods in ready
        )

    def _everywhere(self, resource: Resource) -> Iterator[PodSeries]:
        """The series of all pods, window by window."""
        for seconds in self._windows[resource]:
            yield self._queries.of_pods(usage_query(resource, seconds, self._metrics))

    def _all_throttled(self) -> PodSeries:
        windows = self._windows.get(Resource.CPU)
        if not windows:
            return ()
        return self._queries.of_pods(throttled_pods(windows[0], self._scopes[Resource.CPU]))

    def _parts(self, usage: UsageQuery, pods: PodChoice) -> dict[str, Query] | None:
        """The queries for these pods, None if it is better to ask for all."""
        controllers = self._pods_by_controller(pods.controllers)
        on_nodes = sum(len(self._cluster.pods_by_node.get(node, ())) for node in pods.nodes)
        of_controllers = sum(len(names) for _, names in controllers)
        if on_nodes + of_controllers > MOST_PODS_SHARE * len(self._cluster.pods):
            return None
        if pods.nodes:
            self._kubelets.learn()
        nodes = sorted(pods.nodes & self._kubelets.hints.keys())
        for count in range(1, MOST_REQUESTS + 1):
            by_name = _dealt(controllers, min(count, MOST_MATCHERS_OF_NAMES))
            matchers = [
                *map(self._kubelets.matcher, _dealt(nodes, count)),
                *map(_pod_matcher, by_name),
            ]
            if None in matchers:
                return None
            parts: dict[str, Query] = {}
            for number, matcher in enumerate(filter(None, matchers)):
                parts |= self._about(usage, matcher, number)
            requests = requests_for(parts)
            longest = max((url_length(promql) for promql, _ in requests), default=0)
            if longest <= LONGEST_QUERY_CHARACTERS and len(requests) <= MOST_REQUESTS:
                return parts
        return None

    def _pods_by_controller(
        self, controllers: Collection[ControllerKey]
    ) -> list[tuple[str, list[str]]]:
        """The names of these controllers, and of the pods of each."""
        pods_of = grouped(
            ((pod.namespace, owner.uid, owner.name), pod.name)
            for pod in self._cluster.pods
            if (owner := pod.owner) is not None and (pod.namespace, owner.uid) in controllers
        )
        return sorted((name, pods) for (_, _, name), pods in pods_of.items())

    def _about(self, usage: UsageQuery, matcher: str, number: int) -> Iterator[tuple[str, Query]]:
        """The queries for the pods whose series match."""
        for resource, windows in self._windows.items():
            scope = f"{self._scopes[resource]},{matcher}"
            for seconds in windows:
                query = Query(usage(resource, seconds, scope))
                yield f"{resource}_{seconds}_{number}", query
            if resource is Resource.CPU and usage is container_usage:
                yield f"throttled_{number}", Query(throttled_pods(windows[0], scope))

    def _usages(
        self, resource: Resource, windows: Iterable[PodSeries], pods: PodChoice | None
    ) -> Usages:
        """The usage of these pods; None means all."""
        usages_of = usages(resource, windows, self._index, named=resource not in self.own)
        if resource is Resource.CPU and resource not in self.own:
            usages_of = self._over_windows(usages_of)
        if pods is None:
            return usages_of
        # Matchers may select more.
        return {key: used for key, used in usages_of.items() if pods.has(self._index.pod(*key))}

    def _over_windows(self, usages_of: Usages) -> Usages:
        """The CPU of pods as means over whole windows; that of young ones is over their time."""
        now, windows = self._queries.evaluated_at, self._windows[Resource.CPU]
        if now is None:
            return usages_of
        means = dict(usages_of)
        for key, used in usages_of.items():
            pod = self._index.pod(*key)
            shares = [seen_share(pod, seconds, now) for seconds in windows]
            if shares[-1] < 1.0:
                means[key] = tuple(map(mul, used, shares))
        return means


def _pods(usages_of: Mapping[Resource, Usages]) -> dict[PodKey, PodUsage]:
    cpu, memory = usages_of.get(Resource.CPU, {}), usages_of.get(Resource.MEMORY, {})
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
    expressions = [one_of(beginnings) + _SUFFIX] if beginnings else []
    expressions += [one_of(others)] if others else []
    return f'pod=~"{"|".join(expressions)}"'
