"""Decides whether a node has been overloaded for long enough, by Prometheus' history of its load.

How long is enough depends on the node: where load hardly swings, an overload that has begun lasts,
and waiting only costs; where it swings, most of what crosses the target is over soon. See
docs/decisions/0022-act-when-it-is-due.md. desched's own state does not matter, so a dry run, a
restart and a new leader agree.
"""

import math
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from desched.model.plan import ResourcePressure
from desched.model.resources import Resource
from desched.planning.overload.node_load import LoadedNode
from desched.planning.overload.pod_usage import UsageBook
from desched.policy.policy import HistoryGrid, Policy

BREAKS_SHARE = 0.1
"""The share of the time that need not be above the target, so that one dip does not reset it."""

CALM_SWING_RATIO = 0.011
"""Of capacity: with this swing, the shortest time is long enough."""

LEAST_CHANGES = 4
"""Fewer show no swing."""

UNKNOWN_FACTOR = 2.0
"""Of the shortest time, for a node whose swing is not known."""

_SHORT_SECONDS = 300
"""Shorter times are written in seconds."""

_MINUTE_SECONDS = 60

Points = Sequence[float | None]
"""Load at regular times until now, oldest first; None if it is unknown."""


class Track(NamedTuple):
    """Points with the age of each."""

    points: Points
    ages_seconds: Sequence[float]


class Lasting(NamedTuple):
    """For how long a resource has been above its target, and how long is enough.

    `above_seconds` and `unknown_seconds` are of the last `needed_seconds`. `left_seconds` is 0 if
    that is enough, else the time until it is, if the load stays above the target. `swing_ratio` is
    None if it is not known.
    """

    needed_seconds: float
    above_seconds: float
    unknown_seconds: float
    left_seconds: int
    swing_ratio: float | None = None

    def sentence(self, policy: Policy, now: datetime) -> str:
        """For how long it has lasted, and for people why that is too short."""
        if self.unknown_seconds >= self.needed_seconds:
            return "no history of its load is known"
        text = f"overloaded for {_of(self.above_seconds, self.needed_seconds)}"
        if self.unknown_seconds:
            text += f", without data for {_of(self.unknown_seconds, self.needed_seconds)}"
        if not policy.waits_by_swing:
            return text
        why = "how far this node's load swings is not known"
        if self.swing_ratio is not None:
            why = f"this node's load swings by {100 * self.swing_ratio:.1f} points"
        until = now + timedelta(seconds=self.left_seconds)
        at = f"{until:{'%H:%M' if until.date() == now.date() else '%Y-%m-%d %H:%M'}} UTC"
        return f"{text}; {why}, so the overload must last until {at}"


def not_sustained(loaded: LoadedNode, book: UsageBook) -> tuple[str, datetime] | None:
    """Describe for how long the node has been overloaded, if that is too short; else None.

    The time is when that is long enough if the node stays overloaded. It is long enough if one
    resource has been above its target for as long as its swing requires. Times without data count
    as not overloaded; a history that begins later is too short.
    """
    if not book.policy.sustained_seconds:
        return None
    found = [lasting(loaded, pressure, book) for pressure in loaded.overloaded]
    nearest = min(found, key=lambda each: each.left_seconds)
    if not nearest.left_seconds:
        return None
    until = book.now + timedelta(seconds=nearest.left_seconds)
    return nearest.sentence(book.policy, book.now), until


def lasting(loaded: LoadedNode, pressure: ResourcePressure, book: UsageBook) -> Lasting:
    """For how long the resource has been above its target, by its history."""
    policy, track = book.policy, _track(loaded, pressure, book)
    needed, swing = float(policy.sustained_seconds), None
    if policy.waits_by_swing:
        window = pressure.measured[0][0]
        swing = swing_of(track.points, policy.history, window, pressure.target_ratio)
        needed = _needed_seconds(swing, policy.least_sustained_seconds, needed)
    at = above = unknown = 0.0
    since = 0.0  # so far back it would be enough
    for seconds, is_above in _pieces(track, pressure.target_ratio):
        part = min(seconds, needed - at)
        breaks = BREAKS_SHARE * needed - (at - above)
        at += part
        above += part if is_above else 0.0
        unknown += part if is_above is None else 0.0
        if is_above is not None and breaks >= 0.0:
            since = at if is_above else at - max(0.0, part - breaks)
    # Parts of a second are of the arithmetic; they must not make a cycle wait for another.
    left = math.ceil(round(needed - since, 3))
    return Lasting(needed, above, unknown + needed - at, left, swing)


def overloaded_seconds(loaded: LoadedNode, book: UsageBook) -> tuple[float, bool] | None:
    """For how long a resource has been above its target without a break, by its history.

    The second value is whether that is the whole history, so that it may be longer. None if the
    history is not known, as with a policy that does not wait.
    """
    found = []
    for pressure in loaded.overloaded if book.policy.history.seconds else ():
        track = _track(loaded, pressure, book)
        if track.points[-1] is not None:
            run = _episode(track.points, pressure.target_ratio)
            found.append((float(track.ages_seconds[-max(1, run)]), 0 < run == len(track.points)))
    return max(found, default=None)


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


def _pieces(track: Track, target_ratio: float) -> Iterator[tuple[float, bool | None]]:
    """The time between the points, cut where load crosses the target, latest first.

    Each piece has its seconds, and whether it is above; None if that is not known. Between two
    points load is a straight line.
    """
    latest_first = zip(reversed(track.points), reversed(track.ages_seconds), strict=True)
    for (later, age), (earlier, earlier_age) in pairwise(latest_first):
        step_seconds = float(earlier_age - age)
        if later is None or earlier is None:
            yield step_seconds, None
            continue
        was_above = earlier > target_ratio
        crossed = step_seconds
        if was_above != (later > target_ratio):
            crossed *= (later - target_ratio) / (later - earlier)
            yield crossed, not was_above
            crossed = step_seconds - crossed
        yield crossed, was_above


def _track(loaded: LoadedNode, pressure: ResourcePressure, book: UsageBook) -> Track:
    """The resource's load at each point; None before the node existed."""
    resource, grid = pressure.resource, book.policy.history
    regular = [i * grid.step_seconds for i in reversed(range(grid.steps + 1))]
    if resource is Resource.PODS:
        return Track(_pod_counts(loaded, regular, book), regular)
    history = book.snapshot.load.history.get(loaded.node.name, {}).get(resource)
    if history is None:
        return Track((None,) * len(regular), regular)
    # History is relative to capacity. If the pods' sum relative to allocatable is higher now, the
    # same difference is assumed for the past.
    first_window, reported = pressure.measured[0]
    bases = loaded.source(resource).bases
    above = max(0.0, max(basis.ratios[0] for basis in bases) - reported)
    node_age_seconds = (book.now - loaded.node.created_at).total_seconds()
    ages = history.ages_seconds
    points = tuple(
        None if ratio is None or age + first_window > node_age_seconds else ratio + above
        for ratio, age in zip(history.ratios, ages, strict=True)
    )
    return Track(points, ages)


def _pod_counts(loaded: LoadedNode, ages_seconds: Sequence[int], book: UsageBook) -> Points:
    """A lower bound of the number of pods: pods that have left since are not known."""
    pods = book.snapshot.cluster.pods_by_node.get(loaded.node.name, ())
    began = [pod.started_at or pod.created_at for pod in pods if not pod.deleting]
    times = [book.now - timedelta(seconds=age) for age in ages_seconds]
    return tuple(sum(at <= t for at in began) / loaded.node.allocatable.pods for t in times)


def _of(part_seconds: float, seconds: float) -> str:
    """Format a part of a time, such as `4 of 10 minutes`."""
    if seconds < _SHORT_SECONDS:
        return f"{part_seconds:.0f} of {seconds:.0f} seconds"
    return f"{part_seconds / _MINUTE_SECONDS:.0f} of {seconds / _MINUTE_SECONDS:.0f} minutes"
