"""The usage of pods by desched's own samples; what samples do not cover is not measured."""

from collections.abc import Iterable, Mapping, Sequence

from desched.adapters.metrics_apis.node_loads import (
    COVERED_SHARE,
    MOST_AHEAD_SECONDS,
    STALE_AFTER_SECONDS,
    longest_gap_seconds,
)
from desched.adapters.metrics_apis.samples import Curve, Mean, Track
from desched.model.cluster import Pod
from desched.model.load import PodUsage
from desched.model.resources import Resource


def pod_usage(
    pod: Pod, track: Track, windows: Mapping[Resource, Sequence[int]], now: float
) -> PodUsage:
    """The usage in each window, empty where it is unknown.

    As with Prometheus, the CPU of a young pod is a mean over the whole window, and its memory one
    over its own time. Samples of an earlier pod of the same name do not count.
    """
    newest_at = track.newest_at
    if newest_at is None or not -MOST_AHEAD_SECONDS <= now - newest_at <= STALE_AFTER_SECONDS:
        return PodUsage()
    started = (pod.started_at or pod.created_at).timestamp()
    means: dict[int, tuple[Mean, float] | None] = {
        seconds: _mean(track, seconds, newest_at, started)
        for seconds in {second for its in windows.values() for second in its}
    }

    def values(resource: Resource) -> tuple[float, ...]:
        wanted = [means[seconds] for seconds in windows.get(resource, ())]
        measured = [each for each in wanted if each is not None]
        if len(measured) < len(wanted):
            return ()
        if resource is Resource.CPU:
            return tuple(mean.cpu * share for mean, share in measured)
        return tuple(mean.memory for mean, _ in measured)

    return PodUsage(values(Resource.CPU), values(Resource.MEMORY))


def pod_points(
    pod: Pod, track: Track, window_seconds: int, times: Iterable[float]
) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
    """The usage in the window that ends at each of these times, None where it is unknown.

    In millicores and in bytes.
    """
    started = (pod.started_at or pod.created_at).timestamp()
    curve = track.curve(longest_gap_seconds(window_seconds), started)
    cpu, memory = [], []
    for end in times:
        mean = _mean_of(curve, window_seconds, end, started)
        cpu.append(mean and mean[0].cpu * mean[1])
        memory.append(mean and mean[0].memory)
    return tuple(cpu), tuple(memory)


def _mean(
    track: Track, window_seconds: int, end: float, started: float
) -> tuple[Mean, float] | None:
    """The mean over the part of the window in which the pod ran, and how large that part is."""
    curve = track.curve(longest_gap_seconds(window_seconds), started)
    return _mean_of(curve, window_seconds, end, started)


def _mean_of(
    curve: Curve, window_seconds: int, end: float, started: float
) -> tuple[Mean, float] | None:
    begin = max(end - window_seconds, started)
    mean = curve.mean(begin, end)
    if mean is None or mean.covered_seconds < COVERED_SHARE * (end - begin):
        return None
    return mean, (end - begin) / window_seconds
