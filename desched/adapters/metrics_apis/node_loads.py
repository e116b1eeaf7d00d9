"""Whether a node's own samples can be trusted, and its load in each window.

The rules are those for Prometheus; the first problem that is found gives the reason.
"""

import math
from collections.abc import Iterable, Iterator, Sequence

from desched.adapters.metrics_apis.samples import MILLIONTHS, Curve, Mean, Track
from desched.model.cluster import Node
from desched.model.load import Level, Measured, SeenLoad, Unknown, UnknownReason
from desched.model.resources import Resource
from desched.policy.durations import duration_text
from desched.policy.policy import MetricsSource, MetricsType

COVERED_SHARE = 0.8
LONGEST_GAP_SHARE = 0.3
"""Of the window, between samples."""

STALE_AFTER_SECONDS = 180.0
"""A sample counts for at most three times the default resolution of metrics-server, a minute."""

MOST_AHEAD_SECONDS = 60.0
"""The kubelet's clock, which a sample has, may be ahead by this much."""

LOWEST_RATIO, HIGHEST_RATIO = -0.01, 1.05

Problem = tuple[UnknownReason, str]


def longest_gap_seconds(window_seconds: float) -> float:
    """The longest time between samples that is no gap in this window."""
    return min(window_seconds * LONGEST_GAP_SHARE, STALE_AFTER_SECONDS)


class NodeSamples:
    """The samples of one node at a time of the API server's clock; without a track, none.

    Where each sample is a mean over some time before it, a window of samples begins that much
    later than the window of load that they tell about.
    """

    def __init__(self, node: Node, track: Track | None, now: float, metrics: MetricsSource) -> None:
        self.node = node
        self._metrics = metrics
        self._track = track
        self._now = now
        self._newest_at = track.newest_at if track is not None else None
        self._curves: dict[float, Curve] = {}

    def load(
        self, resource: Resource, windows: Sequence[int]
    ) -> tuple[Measured | Unknown, SeenLoad]:
        """The load over the windows, or why it is unknown; and what to show of it."""
        means = [self._mean(seconds) for seconds in windows]
        means_of = list(zip(windows, means, strict=True))
        levels = tuple(
            Level(seconds, ratio)
            for seconds, mean in means_of
            if mean and math.isfinite(ratio := self._ratio(resource, mean))
        )
        problem = next(self._problems(resource, means_of), None)
        age = None if self._newest_at is None else max(0.0, self._now - self._newest_at)
        if problem is None:
            capped = tuple(Level(level.window_seconds, _share(level.ratio)) for level in levels)
            return Measured(capped), SeenLoad(age)
        waits = max(self._wait_seconds(seconds, mean) for seconds, mean in means_of)
        uncovered = problem[0] is UnknownReason.WINDOW_NOT_COVERED
        return Unknown(*problem), SeenLoad(age, levels, waits if uncovered else None)

    def points(
        self, resource: Resource, window_seconds: int, times: Iterable[float]
    ) -> tuple[float | None, ...]:
        """The load over the window that ends at each of these times."""
        curve = self._curve(window_seconds)
        if curve is None:
            return tuple(None for _ in times)
        sampled = self._sampled_seconds(window_seconds)
        means = (curve.mean(end - sampled, end) for end in times)
        return tuple(self._plausible(resource, mean, sampled) for mean in means)

    def steps(
        self, resource: Resource, window_seconds: int, step_seconds: int
    ) -> tuple[float | None, ...]:
        """The load of each step of a window that ends with the newest sample."""
        end, count = self._newest_at or 0.0, max(1, window_seconds // step_seconds)
        ends = [end - step_seconds * back for back in range(count - 1, -1, -1)]
        return self.points(resource, step_seconds, ends)

    def _sampled_seconds(self, window_seconds: int) -> int:
        """How long the samples are apart, the first from the last, that tell about a window."""
        return window_seconds - self._metrics.averaged_seconds

    def _curve(self, window_seconds: int) -> Curve | None:
        if self._track is None:
            return None
        gap = longest_gap_seconds(self._sampled_seconds(window_seconds))
        if gap not in self._curves:
            self._curves[gap] = self._track.curve(gap, self.node.created_at.timestamp())
        return self._curves[gap]

    def _mean(self, window_seconds: int) -> Mean | None:
        curve, newest_at = self._curve(window_seconds), self._newest_at
        if curve is None or newest_at is None:
            return None
        return curve.mean(newest_at - self._sampled_seconds(window_seconds), newest_at)

    def _problems(
        self, resource: Resource, means_of: Sequence[tuple[int, Mean | None]]
    ) -> Iterator[Problem]:
        if self._newest_at is None:
            yield UnknownReason.ABSENT, f"{self._metrics.type.in_words} has no metrics of this node"
            return
        age = self._now - self._newest_at
        if age < -MOST_AHEAD_SECONDS:
            text = f"the newest sample is from {-age:.0f}s in the future; check the node's clock"
            yield UnknownReason.IMPLAUSIBLE, text
        if age > STALE_AFTER_SECONDS:
            yield UnknownReason.STALE, f"the newest sample is {age:.0f}s old"
        for seconds, mean in means_of:
            yield from self._gaps(seconds, mean)
        for _, mean in means_of:
            if mean is None:
                continue
            ratio = self._ratio(resource, mean)
            if not LOWEST_RATIO <= ratio <= HIGHEST_RATIO:
                yield UnknownReason.IMPLAUSIBLE, f"a load of {ratio:.1%} of the capacity"

    def _gaps(self, window_seconds: int, mean: Mean | None) -> Iterator[Problem]:
        sampled = self._sampled_seconds(window_seconds)
        node_age = self._now - self.node.created_at.timestamp()
        if node_age < window_seconds:
            length = duration_text(window_seconds)
            text = f"the node joined {max(node_age, 0.0):.0f}s ago, within the last {length}"
            yield UnknownReason.WINDOW_NOT_COVERED, text
        share = mean.covered_seconds / sampled if mean else 0.0
        if share < COVERED_SHARE:
            text = (
                f"desched's own samples cover {share:.0%} of the last {duration_text(sampled)}, "
                f"and {self._metrics.type.in_words} has no history"
            )
            yield UnknownReason.WINDOW_NOT_COVERED, text

    def _wait_seconds(self, window_seconds: int, mean: Mean | None) -> float:
        """How long until samples cover the window, if they keep coming."""
        covered = mean.covered_seconds if mean else 0.0
        young = window_seconds - (self._now - self.node.created_at.timestamp())
        return max(0.0, young, self._sampled_seconds(window_seconds) * COVERED_SHARE - covered)

    def _plausible(
        self, resource: Resource, mean: Mean | None, sampled_seconds: int
    ) -> float | None:
        if mean is None or mean.covered_seconds < COVERED_SHARE * sampled_seconds:
            return None
        ratio = self._ratio(resource, mean)
        return _share(ratio) if LOWEST_RATIO <= ratio <= HIGHEST_RATIO else None

    def _ratio(self, resource: Resource, mean: Mean) -> float:
        """The load as a share of capacity; without a capacity it is impossible."""
        capacity, used = self.node.capacity.memory_bytes, mean.memory
        if resource is Resource.CPU:
            capacity, used = self.node.capacity.cpu_millicores, mean.cpu
        if self._metrics.type is MetricsType.PROMETHEUS_ADAPTOR:
            return used / MILLIONTHS
        return used / capacity if capacity else float("inf")


def _share(ratio: float) -> float:
    """The ratio without what calculations add at both ends."""
    return min(max(ratio, 0.0), 1.0)
