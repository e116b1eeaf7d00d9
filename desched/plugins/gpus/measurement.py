"""The load of GPUs by DCGM's exporter: how much of the time they are busy, with which pods."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from statistics import fmean

from msgspec.structs import replace

from desched.model.cluster import ClusterState, Node
from desched.model.load import DeviceUsage, Measured, Unknown, UnknownReason
from desched.model.names import Namespace, PodName
from desched.model.resources import Resource
from desched.plugins.devices import has_nvidia_gpu
from desched.plugins.gpus.check import check_gpus
from desched.plugins.gpus.dcgm import DCGM, DCGM_SCOPE, GPU_LABELS, GPU_METRICS, GPU_POD_LABELS
from desched.plugins.gpus.load import GpuLoad
from desched.policy.policy import Policy
from desched.promql.data_quality import (
    HIGHEST_RATIO,
    Key,
    NodeEvidence,
    Sighting,
    WindowEvidence,
    judge,
)
from desched.promql.plugin import Answers, DeviceMeasures, Labels, windows_of
from desched.promql.sources import SEPARATOR, Scope, scope_of

PodKey = tuple[Namespace, PodName]

_ABSENT = f"no series of {DCGM} belongs to this node"
_DIFFERENT = "series of one of its GPUs differ by more than 5 points, as if of several exporters"
_MOST_APART = 0.05
"""An exporter gives all pods of a GPU the same value."""

_OF_SEVERAL_EXPORTERS = "several exporters, or exporters of several clusters, report its GPUs"

GPU_COUNT_LABEL = "nvidia.com/gpu.count"
"""What NVIDIA's GPU feature discovery has found on a node."""

_Values = Mapping[Key, float]
"""By the labels of a GPU's series."""


def _queries(policy: Policy) -> Iterator[tuple[str, str]]:
    """The queries by name; what pods use is read only if the policy has a threshold for it."""
    windows = windows_of(policy, GpuLoad)
    for name, metric in GPU_METRICS.items():
        source, scope = metric.source, _scope(policy)
        yield f"{name}_age", source.age(scope)
        for seconds in windows:
            yield f"{name}_covered_{seconds}", source.covered_checkpoints(seconds, scope)
            yield f"{name}_load_{seconds}", source.ratio(seconds, scope)
        if policy.windows(Resource.GPU):
            yield f"{name}_users", metric.users(scope)
            for seconds in windows:
                yield f"{name}_usage_{seconds}", metric.usage(seconds, scope)
                yield f"{name}_apart_{seconds}", metric.disagreement(seconds, scope)


def _mean(policy: Policy) -> str:
    """The query for the mean load of each node over the shortest window."""
    seconds, scope = windows_of(policy, GpuLoad)[0], _scope(policy)
    return SEPARATOR.join(metric.node_ratio(seconds, scope) for metric in GPU_METRICS.values())


def _scope(policy: Policy) -> Scope:
    return scope_of(policy.metrics, "node_gpu", DCGM_SCOPE)


def _measured(policy: Policy, cluster: ClusterState, answers: Answers) -> GpuLoad:
    """The load of each node with GPUs of NVIDIA, and the usage of pods where it is known."""
    windows, is_watched = windows_of(policy, GpuLoad), bool(policy.windows(Resource.GPU))
    metrics = [_Metric(name, answers, windows) for name in GPU_METRICS]
    loads: dict[str, Measured | Unknown] = {}
    usages: dict[str, dict[str, DeviceUsage]] = {}
    for node in cluster.nodes:
        if not GpuLoad.uses(node.allocatable):
            continue
        # The metric that most of the node's GPUs have.
        metric = max(metrics, key=lambda metric: len(metric.ages.get(node.name, ())))
        load = _load(node, metric, answers.at, is_watched=is_watched)
        if is_watched and isinstance(load, Measured):
            for (namespace, pod), usage in metric.usages(node.name, cluster).items():
                usages.setdefault(namespace, {})[pod] = usage
        loads[node.name] = load
    return GpuLoad(loads, usages)


def _load(
    node: Node, metric: "_Metric", at: datetime | None, *, is_watched: bool
) -> Measured | Unknown:
    """The load of a node by a metric, as if of one series.

    Age and coverage are those of the worst GPU.
    """
    key: Key = frozenset({("node", node.name)})
    ages = metric.ages.get(node.name, {})
    if not ages or at is None:
        windows = [WindowEvidence(seconds, (), {}) for seconds in metric.loads]
        return judge(NodeEvidence(windows, {}, 0.0, absent_detail=_ABSENT))
    if is_watched and len({_exporter(gpu) for gpu in ages}) > 1:
        return Unknown(UnknownReason.CONTRADICTORY, _OF_SEVERAL_EXPORTERS)
    if doubt := _too_many(node, ages):
        return Unknown(UnknownReason.CONTRADICTORY, doubt)
    if metric.differing.intersection(ages):
        return Unknown(UnknownReason.CONTRADICTORY, _DIFFERENT)
    windows = []
    for seconds, loads in metric.loads.items():
        mean = fmean(loads.get(gpu, math.nan) for gpu in ages)
        least = min(metric.covered[seconds].get(gpu, 0.0) for gpu in ages)
        windows.append(WindowEvidence(seconds, [Sighting(key, mean)], {key: least}))
    age_seconds = (at - node.created_at).total_seconds()
    load = judge(NodeEvidence(windows, {key: max(ages.values())}, age_seconds))
    return replace(load, devices=len(ages)) if isinstance(load, Measured) else load


def _too_many(node: Node, gpus: Iterable[Key]) -> str:
    """Why some of the GPUs cannot be the node's, empty if all may be."""
    reported = len({dict(gpu).get("UUID") for gpu in gpus})
    count = node.labels.get(GPU_COUNT_LABEL, "")
    if not count.isascii() or not count.isdigit() or reported <= int(count):
        return ""
    return f"{reported} GPUs are reported, its label {GPU_COUNT_LABEL} says {count}"


class _Metric:
    """The answers about one metric: values by GPU, of those whose series have not ended.

    `ages` are by node, `covered` and `loads` by window. `differing` are GPUs whose series disagree.
    """

    def __init__(
        self,
        name: str,
        answers: Answers,
        windows_seconds: Sequence[int],
    ) -> None:
        self.ages: dict[str, dict[Key, float]] = {}
        series = answers.series
        for labels, age in series[f"{name}_age"]:
            node = answers.node_of(labels)
            if node is not None:
                self.ages.setdefault(node, {})[frozenset(labels.items())] = age
        self.covered = {w: _by_gpu(series[f"{name}_covered_{w}"]) for w in windows_seconds}
        self.loads = {w: _by_gpu(series[f"{name}_load_{w}"]) for w in windows_seconds}
        self.differing = {
            frozenset(labels.items())
            for w in windows_seconds
            for labels, apart in series.get(f"{name}_apart_{w}", ())
            if apart > _MOST_APART
        }
        self._users: dict[Key, list[PodKey]] = {}
        for labels, _ in series.get(f"{name}_users", ()):
            gpu, pod = _split(labels)
            self._users.setdefault(gpu, []).append(pod)
        self._usages = [
            {_split(labels): usage for labels, usage in series.get(f"{name}_usage_{w}", ())}
            for w in windows_seconds
        ]

    def usages(self, node: str, cluster: ClusterState) -> dict[PodKey, DeviceUsage]:
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
            gpu_usages[pod] = DeviceUsage(shared, alone)
        return gpu_usages

    def _sums(self, pod: PodKey, gpus: Iterable[Key]) -> tuple[float, ...]:
        """The pod's usage of these GPUs in each window, NaN if one is not known."""
        return tuple(
            sum(_plausible(usages.get((gpu, pod), math.nan)) for gpu in gpus)
            for usages in self._usages
        )


def _plausible(share: float) -> float:
    return share if 0.0 <= share <= HIGHEST_RATIO else math.nan


def _by_gpu(answer: Iterable[tuple[Labels, float]]) -> _Values:
    return {frozenset(labels.items()): value for labels, value in answer}


def _exporter(gpu: Key) -> Key:
    """The labels of the exporter that reports a GPU."""
    return frozenset(label for label in gpu if label[0] not in GPU_LABELS)


def _split(labels: Labels) -> tuple[Key, PodKey]:
    """The GPU of a series, and the namespace and name of its pod."""
    gpu = frozenset(item for item in labels.items() if item[0] not in GPU_POD_LABELS)
    prefix = "exported_" if labels.get("exported_pod") else ""
    return gpu, (labels.get(f"{prefix}namespace", ""), labels.get(f"{prefix}pod", ""))


GPU_MEASURES = DeviceMeasures(lambda policy: dict(_queries(policy)), _mean, _measured, check_gpus)
