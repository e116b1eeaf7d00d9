"""Decides whether a node has been overloaded for long enough, by Prometheus' history of its load.

How long is enough depends on the node: where load hardly swings, an overload that has begun lasts,
and waiting only costs; where it swings, most of what crosses the target is over soon. See
docs/decisions/0020-clear-landings.md. desched's own state does not matter, so a dry run, a restart
and a new leader agree.
"""

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from desched.model.plan import ResourcePressure
from desched.model.resources import Resource
from desched.planning.overload.node_load import LoadedNode
from desched.planning.overload.pod_usage import UsageBook
from desched.policy.policy import HistoryGrid

SUSTAINED_SHARE = 0.8
"""The share of the time that must be above the target, so that one dip does not reset it."""

CALM_SWING_RATIO = 0.011
"""Of capacity: with this swing, the shortest time is long enough."""

LEAST_CHANGES = 4
"""Fewer show no swing."""

UNKNOWN_FACTOR = 2.0
"""Of the shortest time, for a node whose swing is not known."""

LEFT_PARTS = 10
"""Into so many parts of a step the time is divided that is still left."""

_MINUTE_SECONDS = 60

Points = Sequence[float | None]
"""Load at regular times until now, oldest first; None if it is unknown."""


class Lasting(NamedTuple):
    """For how long a resource has been above its target, and how long is enough.

    `above_seconds` and `unknown_seconds` are of the last `needed_seconds`; `begins` is whether the
    load at their beginning is known. `swing_ratio` is None if it does not count or is not known.
    """

    needed_seconds: float
    above_seconds: float
    unknown_seconds: float
    begins: bool
    left_seconds: float
    swing_ratio: float | None = None

    @property
    def enough(self) -> bool:
        """Whether it has lasted for long enough."""
        return self.begins and self.above_seconds >= SUSTAINED_SHARE * self.needed_seconds

    @property
    def sentence(self) -> str:
        """For how long it has lasted, for people."""
        if self.unknown_seconds >= self.needed_seconds:
            return "no history of its load is known"
        text = f"overloaded for {_of(self.above_seconds, self.needed_seconds)}"
        if self.unknown_seconds:
            text += f", without data for {_of(self.unknown_seconds, self.needed_seconds)}"
        if self.swing_ratio is None:
            return text
        return f"{text}; its load swings by {100 * self.swing_ratio:.1f} points"


def not_sustained(loaded: LoadedNode, book: UsageBook) -> tuple[str, datetime] | None:
    """Describe for how long the node has been overloaded, if that is too short; else None.

    The time is when that is long enough if the node stays overloaded. It is long enough if one
    resource has been above its target for as long as its swing requires. Points without data count
    as not overloaded; a history that begins later is too short.
    """
    if not book.policy.sustained_seconds:
        return None
    found = [lasting(loaded, pressure, book) for pressure in loaded.overloaded]
    if any(each.enough for each in found):
        return None
    nearest = min(found, key=lambda each: each.left_seconds)
    return nearest.sentence, book.now + timedelta(seconds=nearest.left_seconds)


def lasting(loaded: LoadedNode, pressure: ResourcePressure, book: UsageBook) -> Lasting:
    """For how long the resource has been above its target, by its history."""
    policy, points = book.policy, load_points(loaded, pressure, book)
    needed, swing = float(policy.sustained_seconds), None
    if policy.least_sustained_seconds < policy.sustained_seconds:
        window = pressure.measured[0][0]
        swing = swing_of(points, policy.history, window, pressure.target_ratio)
        needed = _needed_seconds(swing, policy.least_sustained_seconds, needed)
    step = policy.history.step_seconds
    above = _Above(points, step, pressure.target_ratio)
    return Lasting(
        needed,
        above.seconds(needed),
        above.unknown_seconds(needed),
        above.is_known_at(needed),
        above.left_seconds(needed),
        swing,
    )


def overloaded_seconds(loaded: LoadedNode, book: UsageBook) -> tuple[float, bool]:
    """For how long a resource has been above its target without a break, by its history.

    The second value is whether that is the whole history, so that it may be longer.
    """
    found = [(0.0, False)]
    grid = book.policy.history
    for pressure in loaded.overloaded if grid.seconds else ():
        points = load_points(loaded, pressure, book)
        run = _episode(points, pressure.target_ratio)
        found.append((max(0, run - 1) * float(grid.step_seconds), 0 < run == len(points)))
    return max(found)


def swing_of(
    points: Points, grid: HistoryGrid, window_seconds: int, target_ratio: float
) -> float | None:
    """How far the load moves in a window, as the median of its changes, None if that is not known.

    The present episode above the target does not count: what begins it is no swing.
    """
    before = points[: len(points) - _episode(points, target_ratio)]
    lag = max(1, round(window_seconds / grid.step_seconds))
    pairs = zip(before, before[lag:], strict=False)
    changes = [abs(b - a) for a, b in pairs if a is not None and b is not None]
    return median(changes) if len(changes) >= LEAST_CHANGES else None


def _needed_seconds(swing: float | None, least: float, most: float) -> float:
    """The variance of the load decides: twice the swing must last four times as long."""
    factor = UNKNOWN_FACTOR if swing is None else (swing / CALM_SWING_RATIO) ** 2
    return min(most, least * max(1.0, factor))


def _episode(points: Points, target_ratio: float) -> int:
    """The number of the last points that are above the target without a break."""
    latest = enumerate(reversed(points))
    below = (i for i, ratio in latest if ratio is None or ratio <= target_ratio)
    return next(below, len(points))


class _Above:
    """The time above the target between points; between two of them load is a straight line."""

    def __init__(self, points: Points, step_seconds: int, target_ratio: float) -> None:
        self._points = points
        self._step = float(step_seconds)
        self._target = target_ratio
        self._parts = [self._part(a, b) for a, b in pairwise(points)]

    def _part(self, begin: float | None, end: float | None) -> tuple[float, float]:
        """From when to when between two points it is above, in seconds after the first."""
        if begin is None or end is None:
            return 0.0, 0.0
        above = begin > self._target, end > self._target
        if above[0] == above[1]:
            return (0.0, self._step) if above[0] else (0.0, 0.0)
        crossed = self._step * (self._target - begin) / (end - begin)
        return (0.0, crossed) if above[0] else (crossed, self._step)

    def seconds(self, last_seconds: float) -> float:
        """The time above the target of the last so many seconds."""
        since = self._step * len(self._parts) - last_seconds
        return sum(
            max(0.0, i * self._step + end - max(since, i * self._step + begin))
            for i, (begin, end) in enumerate(self._parts)
        )

    def unknown_seconds(self, last_seconds: float) -> float:
        """The part of the last so many seconds of which the load is not known."""
        since = self._step * len(self._parts) - last_seconds
        known = sum(
            min(self._step, max(0.0, (i + 1) * self._step - since))
            for i, (a, b) in enumerate(pairwise(self._points))
            if a is not None and b is not None
        )
        return max(0.0, last_seconds - known)

    def is_known_at(self, seconds_ago: float) -> bool:
        """Whether the load was known then."""
        back = math.ceil(seconds_ago / self._step - 1e-9)
        return back < len(self._points) and self._points[-1 - back] is not None

    def left_seconds(self, needed_seconds: float) -> float:
        """After how many seconds it is long enough, if it stays above the target."""
        wanted = SUSTAINED_SHARE * needed_seconds
        left = max(0.0, wanted - self.seconds(needed_seconds))
        while left < needed_seconds and not (
            self.is_known_at(needed_seconds - left)
            and self.seconds(needed_seconds - left) + left >= wanted
        ):
            left += self._step / LEFT_PARTS
        return min(left, needed_seconds)


def load_points(loaded: LoadedNode, pressure: ResourcePressure, book: UsageBook) -> Points:
    """The resource's load at each point, oldest first; None before the node existed."""
    resource = pressure.resource
    if resource is Resource.PODS:
        return _pod_counts(loaded, book)
    history = book.snapshot.load.history.get(loaded.node.name, {}).get(resource)
    if history is None:
        return (None,) * (book.policy.history.steps + 1)
    # History is relative to capacity. If the pods' sum relative to allocatable is higher now, the
    # same difference is assumed for the past.
    first_window, reported = pressure.measured[0]
    bases = loaded.source(resource).bases
    above = max(0.0, max(basis.ratios[0] for basis in bases) - reported)
    age_seconds = (book.now - loaded.node.created_at).total_seconds()
    last = len(history.ratios) - 1
    return tuple(
        None
        if ratio is None or (last - i) * history.step_seconds + first_window > age_seconds
        else ratio + above
        for i, ratio in enumerate(history.ratios)
    )


def _pod_counts(loaded: LoadedNode, book: UsageBook) -> Points:
    """A lower bound of the number of pods: pods that have left since are not known."""
    pods = book.snapshot.cluster.pods_by_node.get(loaded.node.name, ())
    began = [pod.started_at or pod.created_at for pod in pods if not pod.deleting]
    grid = book.policy.history
    step = timedelta(seconds=grid.step_seconds)
    times = [book.now - step * i for i in reversed(range(grid.steps + 1))]
    return tuple(sum(at <= t for at in began) / loaded.node.allocatable.pods for t in times)


def _of(part_seconds: float, seconds: float) -> str:
    """Format a part of a time, such as `4 of 10 minutes`."""
    if seconds < 2 * _MINUTE_SECONDS:
        return f"{part_seconds:.0f} of {seconds:.0f} seconds"
    return f"{part_seconds / _MINUTE_SECONDS:.0f} of {seconds / _MINUTE_SECONDS:.0f} minutes"
