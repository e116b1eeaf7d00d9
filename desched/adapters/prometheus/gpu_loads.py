"""The load of GPUs by DCGM's exporter: how much of the time they are busy, with which pods."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean

from msgspec.structs import replace

from desched.adapters.kept_history import KeptTracks, Span
from desched.adapters.prometheus.client import Labels, Series
from desched.adapters.prometheus.cycle_queries import CycleQueries, Query
from desched.adapters.prometheus.data_quality import (
    HIGHEST_RATIO,
    Key,
    NodeEvidence,
    Sighting,
    WindowEvidence,
    judge,
)
from desched.adapters.prometheus.history import LoadTracks, Now
from desched.adapters.prometheus.nodes import NodeIndex
from desched.adapters.prometheus.pod_usages import PodKey
from desched.adapters.prometheus.queries import (
    DCGM,
    GPU_LABELS,
    GPU_METRICS,
    GPU_POD_LABELS,
    SEPARATOR,
    Scope,
    scope_of,
)
from desched.errors import ObservationError
from desched.model.cluster import ClusterState, Node
from desched.model.devices import has_nvidia_gpu, nvidia_gpus
from desched.model.load import (
    ClusterLoad,
    GpuUsage,
    LoadHistory,
    Measured,
    Unknown,
    UnknownReason,
)
from desched.model.resources import Resource
from desched.policy.policy import Policy

_ABSENT = f"no series of {DCGM} belongs to this node"
_DIFFERENT = "series of one of its GPUs differ by more than 5 points, as if of several exporters"
_MOST_APART = 0.05
"""An exporter gives all pods of a GPU the same value."""

_OF_SEVERAL_EXPORTERS = "several exporters, or exporters of several clusters, report its GPUs"

GPU_COUNT_LABEL = "nvidia.com/gpu.count"
"""What NVIDIA's GPU feature discovery has found on a node."""

_Values = Mapping[Key, float]
"""By the labels of a GPU's series."""


class GpuLoads:
    """Reads the load of GPUs in one cycle; the loads of other resources need none of it.

    What pods use is read only if the policy has a threshold for it.
    """

    def __init__(self, queries: CycleQueries, index: NodeIndex, policy: Policy) -> None:
        self._queries = queries
        self._index = index
        self._metrics = policy.metrics
        watched = policy.windows(Resource.GPU)
        self._is_watched = bool(watched)
        self._windows = watched or (policy.shortest_window_seconds,)

    def added_to(self, load: ClusterLoad, cluster: ClusterState) -> ClusterLoad:
        """The load with that of GPUs; if Prometheus has no complete answer, all are unknown."""
        nodes = [node for node in cluster.nodes if has_nvidia_gpu(node.allocatable)]
        if not (nodes and all(self._windows)):
            return load
        try:
            answers = self._queries.vectors(dict(self._parts()))
        except ObservationError as error:
            return replace(load, gpus=_unknown(nodes, str(error)))
        if self._queries.warnings:
            return replace(load, gpus=_unknown(nodes, next(iter(self._queries.warnings))))
        found_metrics = [_Metric(name, answers, self._index, self._windows) for name in GPU_METRICS]
        most = {node.name: _of_most(node, found_metrics) for node in nodes}
        gpus = {node.name: self._load(node, most[node.name]) for node in nodes}
        load = replace(load, gpus=gpus)
        return self._judged(load, most, cluster) if self._is_watched else load

    def _judged(
        self, load: ClusterLoad, most: Mapping[str, "_Metric"], cluster: ClusterState
    ) -> ClusterLoad:
        """The load with the usage of pods, and with GPUs as a resource of nodes that share them.

        These offer more GPUs than they have. A GPU that one pod has alone is not overloaded.
        """
        loads, usages = dict(load.nodes), dict[PodKey, GpuUsage]()
        for node in cluster.nodes:
            gpu = load.gpus.get(node.name)
            if not isinstance(gpu, Measured):
                continue
            usages |= most[node.name].usages(node.name, cluster)
            if nvidia_gpus(node.allocatable) > gpu.gpus:
                loads[node.name] = {**loads[node.name], Resource.GPU: gpu}
        return replace(load, nodes=loads, gpu_usages=usages)

    def history(
        self, span: Span, kept: KeptTracks, load: ClusterLoad
    ) -> dict[Resource, dict[str, LoadHistory]]:
        """The mean load of the GPUs of each node in the past; nothing if it is unknown."""
        if not self._is_watched:
            return {}
        expressions = {Resource.GPU: self._mean}
        tracks = LoadTracks(self._queries, self._index, expressions, self._windows[0])
        current = {
            name: gpus.levels[0].ratio
            for name, gpus in load.gpus.items()
            if isinstance(gpus, Measured)
        }
        kept.begin()
        try:
            found = tracks.until_now(span, kept, {Resource.GPU: Now(current, current)})
        except ObservationError:
            return {}
        if self._queries.warnings:
            kept.undo()
            return {}
        return found

    @property
    def _mean(self) -> Query:
        """The query for the mean load of each node over the shortest window."""
        means = (
            metric.node_ratio(self._windows[0], self._scope(metric.source.scope))
            for metric in GPU_METRICS.values()
        )
        return Query(SEPARATOR.join(means))

    def _scope(self, default: Scope) -> Scope:
        return scope_of(self._metrics, "node_gpu", default)

    def _parts(self) -> Iterator[tuple[str, Query]]:
        for name, metric in GPU_METRICS.items():
            source, scope = metric.source, self._scope(metric.source.scope)
            yield f"{name}_age", Query(source.age(scope))
            for seconds in self._windows:
                covered = source.covered_checkpoints(seconds, scope)
                yield f"{name}_covered_{seconds}", Query(covered)
                yield f"{name}_load_{seconds}", Query(source.ratio(seconds, scope))
            if self._is_watched:
                yield f"{name}_users", Query(metric.users(scope))
                for seconds in self._windows:
                    yield f"{name}_usage_{seconds}", Query(metric.usage(seconds, scope))
                    apart = metric.disagreement(seconds, scope)
                    yield f"{name}_apart_{seconds}", Query(apart)

    def _load(self, node: Node, metric: "_Metric") -> Measured | Unknown:
        """The load of a node by a metric, as if of one series.

        Age and coverage are those of the worst GPU.
        """
        key: Key = frozenset({("node", node.name)})
        ages, at = metric.ages.get(node.name, {}), self._queries.evaluated_at
        if not ages or at is None:
            windows = [WindowEvidence(seconds, (), {}) for seconds in self._windows]
            return judge(NodeEvidence(windows, {}, 0.0, absent_detail=_ABSENT))
        if self._is_watched and len({_exporter(gpu) for gpu in ages}) > 1:
            return Unknown(UnknownReason.CONTRADICTORY, _OF_SEVERAL_EXPORTERS)
        if doubt := _too_many(node, ages):
            return Unknown(UnknownReason.CONTRADICTORY, doubt)
        if metric.differing.intersection(ages):
            return Unknown(UnknownReason.CONTRADICTORY, _DIFFERENT)
        windows = []
        for seconds in self._windows:
            loads, covered = metric.loads[seconds], metric.covered[seconds]
            mean = fmean(loads.get(gpu, math.nan) for gpu in ages)
            least = min(covered.get(gpu, 0.0) for gpu in ages)
            windows.append(WindowEvidence(seconds, [Sighting(key, mean)], {key: least}))
        age_seconds = (at - node.created_at).total_seconds()
        load = judge(NodeEvidence(windows, {key: max(ages.values())}, age_seconds))
        if isinstance(load, Unknown):
            return load
        return replace(load, gpus=len(ages))


def _of_most(node: Node, metrics: Iterable["_Metric"]) -> "_Metric":
    """The metric that most of the node's GPUs have."""
    return max(metrics, key=lambda metric: len(metric.ages.get(node.name, ())))


def _too_many(node: Node, gpus: Iterable[Key]) -> str:
    """Why some of the GPUs cannot be the node's, empty if all may be."""
    reported = len({dict(gpu).get("UUID") for gpu in gpus})
    count = node.labels.get(GPU_COUNT_LABEL, "")
    if not count.isascii() or not count.isdigit() or reported <= int(count):
        return ""
    return f"{reported} GPUs are reported, its label {GPU_COUNT_LABEL} says {count}"


def _unknown(nodes: Iterable[Node], doubt: str) -> dict[str, Measured | Unknown]:
    return {node.name: Unknown(UnknownReason.ABSENT, doubt) for node in nodes}


class _Metric:
    """The answers about one metric: values by GPU, of those whose series have not ended.

    `ages` are by node, `covered` and `loads` by window. `differing` are GPUs whose series disagree.
    """

    def __init__(
        self,
        name: str,
        answers: Mapping[str, Sequence[Series[Labels]]],
        index: NodeIndex,
        windows_seconds: Sequence[int],
    ) -> None:
        self.ages: dict[str, dict[Key, float]] = {}
        for series in answers[f"{name}_age"]:
            node = index.resolve(series.labels)
            if node is not None:
                gpus = self.ages.setdefault(node, {})
                gpus[frozenset(series.labels.items())] = series.value
        self.covered = {w: _by_gpu(answers[f"{name}_covered_{w}"]) for w in windows_seconds}
        self.loads = {w: _by_gpu(answers[f"{name}_load_{w}"]) for w in windows_seconds}
        self.differing = {
            frozenset(series.labels.items())
            for w in windows_seconds
            for series in answers.get(f"{name}_apart_{w}", ())
            if series.value > _MOST_APART
        }
        self._users: dict[Key, list[PodKey]] = {}
        for series in answers.get(f"{name}_users", ()):
            gpu, pod = _split(series.labels)
            self._users.setdefault(gpu, []).append(pod)
        self._usages = [
            {_split(series.labels): series.value for series in answers.get(f"{name}_usage_{w}", ())}
            for w in windows_seconds
        ]

    def usages(self, node: str, cluster: ClusterState) -> dict[PodKey, GpuUsage]:
        """The usage of each pod on the node that requests a GPU.

        Nothing is known of any of them unless each has a GPU: an exporter that does not know of
        shared GPUs names only one of the pods, which then seems to use all.
        """
        pods = {
            (pod.namespace, pod.name)
            for pod in cluster.pods_by_node.get(node, ())
            if has_nvidia_gpu(pod.scheduling.requests) and not pod.finished
        }
        gpus = self.ages[node]
        users = {gpu: self._users.get(gpu, []) for gpu in gpus}
        if any(len(set(pods_of)) < len(pods_of) for pods_of in users.values()):
            return {}
        if pods - {pod for pods_of in users.values() for pod in pods_of}:
            return {}
        gpu_usages = {}
        for pod in pods:
            own = [gpu for gpu, of_gpu in users.items() if pod in of_gpu]
            shared = self._sums(pod, [gpu for gpu in own if len(users[gpu]) > 1])
            alone = self._sums(pod, [gpu for gpu in own if len(users[gpu]) == 1])
            if not all(map(math.isfinite, (*shared, *alone))):
                return {}
            gpu_usages[pod] = GpuUsage(shared, alone)
        return gpu_usages

    def _sums(self, pod: PodKey, gpus: Iterable[Key]) -> tuple[float, ...]:
        """The pod's usage of these GPUs in each window, NaN if one is not known."""
        return tuple(
            sum(_plausible(usages.get((gpu, pod), math.nan)) for gpu in gpus)
            for usages in self._usages
        )


def _plausible(share: float) -> float:
    return share if 0.0 <= share <= HIGHEST_RATIO else math.nan


def _by_gpu(answer: Iterable[Series[Labels]]) -> _Values:
    return {frozenset(series.labels.items()): series.value for series in answer}


def _exporter(gpu: Key) -> Key:
    """The labels of the exporter that reports a GPU."""
    return frozenset(label for label in gpu if label[0] not in GPU_LABELS)


def _split(labels: Labels) -> tuple[Key, PodKey]:
    """The GPU of a series, and the namespace and name of its pod."""
    gpu = frozenset(item for item in labels.items() if item[0] not in GPU_POD_LABELS)
    prefix = "exported_" if labels.get("exported_pod") else ""
    return gpu, (labels.get(f"{prefix}namespace", ""), labels.get(f"{prefix}pod", ""))
