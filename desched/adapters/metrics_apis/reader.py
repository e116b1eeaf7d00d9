"""Reads the load of the whole cluster from the metrics APIs, and keeps the samples."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import cycle
from threading import Event, Lock, Thread
from typing import TypeVar

import msgspec
import structlog

from desched.adapters.kept_history import (
    KeptPasts,
    KeptTracks,
    PodKey,
    PodResource,
    Points,
    Span,
)
from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.adapters.metrics_apis.custom_metrics import CustomMetrics
from desched.adapters.metrics_apis.kept_samples import decode_samples, encode_samples
from desched.adapters.metrics_apis.lists import ListedSamples, MetricsLists
from desched.adapters.metrics_apis.node_loads import COVERED_SHARE, STALE_AFTER_SECONDS, NodeSamples
from desched.adapters.metrics_apis.pod_usages import pod_points, pod_usage
from desched.adapters.metrics_apis.samples import Track
from desched.errors import ObservationError, ObservationSource
from desched.model.cluster import ClusterState, Pod
from desched.model.load import (
    ClusterLoad,
    LoadHistory,
    Measured,
    PodPast,
    PodUsage,
    SeenLoad,
    Unknown,
)
from desched.model.resources import Resource
from desched.policy.policy import MetricsSource, MetricsType, Policy
from desched.ports import ChoosePods, all_pods

K = TypeVar("K")

SAMPLE_SECONDS = 15.0
"""Between two samples of nodes, as often as metrics-server measures by its own manifests.

Pods, of which there are many more, are sampled half as often.
"""

SETTLED_SECONDS = 60.0
"""So long after a time, samples that count for it may still arrive."""

MOST_ROUNDS = 4
"""Of choosing the nodes whose pods' past is read."""

MOST_KEPT_PODS = 10_000
"""More than fit into the text."""

BY_METRICS_SERVER = MetricsSource("", type=MetricsType.METRICS_SERVER)

MEASURED = (Resource.CPU, Resource.MEMORY)

_log = structlog.get_logger(__name__)


class SampledLoadReader:
    """The LoadReader for metrics-server, and for the custom metrics API with metrics-server's pods.

    Each read takes a sample. In a service (`keeps_sampling`) a thread takes further ones from the
    first read on, until `wait` returns true. What cannot be known: `throttled` pods, and any time
    before the first sample.
    """

    def __init__(
        self,
        connection: KubernetesConnection,
        wait: Callable[[float], bool],
        *,
        deadline_seconds: float,
        metrics: MetricsSource = BY_METRICS_SERVER,
        keeps_sampling: bool = False,
    ) -> None:
        self._metrics = metrics
        lists = MetricsLists(connection, deadline_seconds)
        self._list_nodes, self._list_pods = lists.nodes, lists.pods
        if metrics.type is MetricsType.PROMETHEUS_ADAPTOR:
            averaged_seconds = metrics.averaged_seconds
            self._list_nodes = CustomMetrics(connection, deadline_seconds, averaged_seconds).nodes
        self._wait = wait
        self._keeps_sampling = keeps_sampling
        self._nodes: dict[str, Track] = {}
        self._pods: dict[tuple[str, str], Track] = {}
        self._names: frozenset[str] | None = None  # of nodes, once the cluster is known
        self._kept = KeptTracks()
        self._kept_pasts = KeptPasts()
        self._kept_seconds = 0.0
        self._changing = Lock()
        self._closed = Event()
        self._thread: Thread | None = None
        self._trouble = ""

    def close(self) -> None:
        """Take no further samples."""
        self._closed.set()

    def recall(self, text: str) -> None:
        """Continue with the samples of an earlier process; its own samples follow them."""
        kept = decode_samples(self._metrics.type, text) if text else None
        if kept is None:
            return
        with self._changing:
            self._nodes |= kept.nodes
            self._pods |= kept.pods

    def kept(self) -> str:
        """The samples for the next process, those of pods with the highest CPU usage first."""
        with self._changing:
            pods = nlargest(MOST_KEPT_PODS, self._pods.items(), lambda pod: pod[1].newest_cpu)
            return encode_samples(self._metrics.type, self._nodes, pods)

    def collect(self, policy: Policy, seconds: float, tell: Callable[[float], None]) -> None:
        """Take samples for so long; `tell` gets the share of the time that has passed.

        Raises:
            ObservationError: an API does not answer at all, or desched is stopping.
        """
        self._kept_seconds = kept_seconds(policy)
        self._sample_nodes()
        self._sample_pods()
        steps = math.ceil(seconds / SAMPLE_SECONDS)
        for step in range(steps):
            tell(step / steps)
            if self._wait(seconds / steps):
                text = "Samples were not taken for long enough: desched is stopping."
                raise ObservationError(ObservationSource.CLUSTER, text)
            self._sample_again(pods_too=step % 2 == 1)

    def read_load(
        self, cluster: ClusterState, policy: Policy, choose: ChoosePods = all_pods
    ) -> ClusterLoad:
        """The load of nodes and pods over the policy's windows, ending with the newest sample.

        All pods are known at once, so only `pasts` of what is chosen matter.

        Raises:
            ObservationError: an API did not answer.
        """
        self._kept_seconds = kept_seconds(policy)
        self._names = frozenset(node.name for node in cluster.nodes)
        nodes, pods = self._sample_nodes(), self._sample_pods()
        if self._keeps_sampling and self._thread is None:
            self._thread = Thread(target=self._keep_sampling, name="load-samples", daemon=True)
            self._thread.start()
        now = nodes.at.timestamp()
        span = Span.before(now, policy.history)
        with self._changing:
            samples = [
                NodeSamples(node, self._nodes.get(node.name), now, self._metrics)
                for node in cluster.nodes
            ]
            load = _nodes_load(samples, policy)
            usages = self._pod_usages(cluster, policy, pods.at.timestamp())
        times = sorted((nodes.at, pods.at))
        load = ClusterLoad(
            load.nodes,
            usages,
            history=self._history(samples, load, policy, span, now),
            destination_ratios=load.destination_ratios,
            server_times=(times[0], times[1]),
            seen=load.seen,
        )
        shortest = {resource: windows[0] for resource, windows in _windows(policy).items()}
        self._kept_pasts.begin(tuple(shortest.items()), span)
        past_of = frozenset[str]()
        for _ in range(MOST_ROUNDS):
            chosen = choose(load)
            if chosen is None or chosen.pasts <= past_of:
                break
            past_of |= chosen.pasts
            pasts = self._pasts(past_of, cluster, load.pods, shortest, now)
            load = msgspec.structs.replace(load, pod_pasts=pasts)
        return load

    def _history(
        self,
        samples: Sequence[NodeSamples],
        load: ClusterLoad,
        policy: Policy,
        span: Span,
        now: float,
    ) -> dict[str, dict[Resource, LoadHistory]]:
        """The load of nodes at the times of the span, and now."""
        history: dict[str, dict[Resource, LoadHistory]] = {}
        self._kept.begin()
        for resource, windows in _windows(policy).items():
            points = self._kept.of((resource, windows[0]), span)
            if (missing := points.missing()) is not None:
                missed = {
                    sample.node.name: sample.points(resource, windows[0], missing.times)
                    for sample in samples
                }
                points.add(missing.first, missing.size, missed)
                points.read_again_after(now - SETTLED_SECONDS)
            for name, of in points.all_points().items():
                if name in load.nodes:
                    ratio = _shortest(load.nodes[name][resource])
                    history.setdefault(name, {})[resource] = span.history(of, now, ratio)
        return history

    def _pasts(
        self,
        nodes: frozenset[str],
        cluster: ClusterState,
        usages: Mapping[PodKey, PodUsage],
        shortest: Mapping[Resource, int],
        now: float,
    ) -> dict[PodKey, PodPast]:
        """The past of the pods on these nodes since they were first chosen, or a little longer."""
        of_now: dict[str, dict[PodResource, float]] = {node: {} for node in nodes}
        node_of = {(pod.namespace, pod.name): pod.node for pod in cluster.pods}
        for node in nodes:
            points = self._kept_pasts.of(node)
            pods = cluster.pods_by_node.get(node, ())
            if (missing := points.missing()) is not None:
                with self._changing:
                    missed = dict(self._pod_points(pods, shortest, missing.times))
                points.add(missing.first, missing.size, missed)
                points.read_again_after(now - SETTLED_SECONDS)
            for pod in pods:
                key = pod.namespace, pod.name
                usage = usages.get(key, PodUsage())
                for resource, values in zip(
                    MEASURED, (usage.cpu_millicores, usage.memory_bytes), strict=True
                ):
                    if values:
                        of_now[node][resource, key] = values[0]
        return self._kept_pasts.pasts(of_now, node_of.get)

    def _pod_points(
        self, pods: Iterable[Pod], shortest: Mapping[Resource, int], times: Sequence[float]
    ) -> Iterator[tuple[PodResource, Points]]:
        for pod in pods:
            key = pod.namespace, pod.name
            if (track := self._pods.get(key)) is None:
                continue
            of_window = {
                window: pod_points(pod, track, window, times) for window in {*shortest.values()}
            }
            for resource, window in shortest.items():
                yield (resource, key), of_window[window][MEASURED.index(resource)]

    def _pod_usages(
        self, cluster: ClusterState, policy: Policy, now: float
    ) -> dict[tuple[str, str], PodUsage]:
        windows = _windows(policy)
        return {
            key: pod_usage(pod, track, windows, now)
            for pod in cluster.pods
            if (track := self._pods.get(key := (pod.namespace, pod.name))) is not None
        }

    def _keep_sampling(self) -> None:
        for pods_too in cycle((False, True)):
            if self._wait(SAMPLE_SECONDS) or self._closed.is_set():
                return
            self._sample_again(pods_too=pods_too)

    def _sample_again(self, *, pods_too: bool) -> None:
        """Take a sample; an error is a gap in the windows, and logged once."""
        try:
            self._sample_nodes()
            if pods_too:
                self._sample_pods()
            trouble = ""
        except ObservationError as error:
            trouble = str(error)
        if trouble and trouble != self._trouble:
            _log.warning("load.not_sampled", why=trouble)
        self._trouble = trouble

    def _sample_nodes(self) -> ListedSamples[str]:
        look = self._list_nodes()
        if self._names is not None:  # an adapter may report thousands of others, new ones each time
            samples = {name: at for name, at in look.samples.items() if name in self._names}
            look = look._replace(samples=samples)
        self._keep(self._nodes, look)
        return look

    def _sample_pods(self) -> ListedSamples[tuple[str, str]]:
        look = self._list_pods()
        self._keep(self._pods, look)
        return look

    def _keep(self, tracks: dict[K, Track], look: ListedSamples[K]) -> None:
        """Add the samples, and forget those that no window needs any more."""
        now = look.at.timestamp()
        with self._changing:
            for key, sample in look.samples.items():
                tracks.setdefault(key, Track()).add(sample)
            for key in list(tracks):
                tracks[key].forget_before(now - self._kept_seconds)
                if tracks[key].newest_at is None:
                    del tracks[key]


def kept_seconds(policy: Policy) -> float:
    """For how long a sample matters."""
    further = (w.window_seconds for r in policy.rules for w in r.destination_windows)
    # A cycle may be a step later than the regular time whose window it reads.
    latest = policy.history.step_seconds + policy.shortest_window_seconds
    longest = max((policy.longest_window_seconds, latest, *further))
    return longest + 2 * STALE_AFTER_SECONDS


def _windows(policy: Policy) -> Mapping[Resource, Sequence[int]]:
    return {r: windows for r in MEASURED if (windows := policy.windows(r))}


def _nodes_load(samples: Sequence[NodeSamples], policy: Policy) -> ClusterLoad:
    """The load of nodes alone."""
    loads: dict[str, dict[Resource, Measured | Unknown]] = {}
    seen: dict[str, dict[Resource, SeenLoad]] = {}
    destinations: dict[str, dict[Resource, tuple[float | None, ...]]] = {}
    windows = _windows(policy)
    for sample in samples:
        name = sample.node.name
        loads[name], seen[name] = {}, {}
        for resource, its in windows.items():
            loads[name][resource], seen[name][resource] = sample.load(resource, its)
            if further := policy.destination_windows(resource):
                destinations.setdefault(name, {})[resource] = tuple(
                    _known(sample.steps(resource, window.window_seconds, its[0]), window.of)
                    for window in further
                )
    return ClusterLoad(loads, {}, destination_ratios=destinations, seen=seen)


def _shortest(load: Measured | Unknown) -> float | None:
    """The load over the shortest window, None if it is not known."""
    return load.levels[0].ratio if isinstance(load, Measured) else None


def _known(points: Sequence[float | None], of: Callable[[Sequence[float]], float]) -> float | None:
    measured = [point for point in points if point is not None]
    return of(measured) if len(measured) >= COVERED_SHARE * len(points) else None
