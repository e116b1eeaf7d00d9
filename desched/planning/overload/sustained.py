"""Decides whether a node has been overloaded for long enough, by Prometheus' history of its load.

desched's own state does not matter, so a dry run, a restart and a new leader agree.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from desched.model.plan import ResourcePressure
from desched.model.resources import Resource
from desched.planning.overload.node_load import LoadedNode
from desched.planning.overload.pod_usage import UsageBook

SUSTAINED_SHARE = 0.8
"""The share of points that must be above the target, so that one dip does not reset the time."""

_POD_STEPS = 10
_MINUTE_SECONDS = 60

Points = tuple[float | None, ...]
"""Load at regular times until now, oldest first; None if it is unknown."""

Track = tuple[bool | None, ...]
"""Whether it was above the target."""


def not_sustained(loaded: LoadedNode, book: UsageBook) -> tuple[str, datetime] | None:
    """Describe for how long the node has been overloaded, if that is too short; else None.

    The time is when that is long enough if the node stays overloaded. It is long enough if one
    resource has been above its target for `sustainedFor`. Points without data count as not
    overloaded; a history that begins later is too short.
    """
    sustained_seconds = book.policy.sustained_seconds
    if not sustained_seconds:
        return None
    tracks = [
        tuple(None if ratio is None else ratio > pressure.target_ratio for ratio in points)
        for pressure in loaded.overloaded
        for points in (load_points(loaded, pressure, book),)
    ]
    found = [_lasted(track) for track in tracks]
    if any(lasted.enough for lasted in found):
        return None
    steps = min(map(_steps_left, tracks))
    step_seconds = sustained_seconds / max(1, max(map(len, tracks)) - 1)
    sentence = max(found, key=lambda lasted: lasted.overloaded).sentence(sustained_seconds)
    return sentence, book.now + timedelta(seconds=steps * step_seconds)


def overloaded_seconds(loaded: LoadedNode, book: UsageBook) -> tuple[float, bool]:
    """For how long a resource has been above its target without a break, by its history.

    The second value is whether that is the whole history, so that it may be longer.
    """
    sustained_seconds = book.policy.sustained_seconds
    found = [(0.0, False)]
    for pressure in loaded.overloaded:
        points = load_points(loaded, pressure, book) if sustained_seconds else ()
        above = [ratio is not None and ratio > pressure.target_ratio for ratio in reversed(points)]
        run = next((i for i, each in enumerate(above) if not each), len(above))
        step_seconds = sustained_seconds / max(1, len(points) - 1)
        found.append((max(0, run - 1) * step_seconds, 0 < run == len(points)))
    return max(found)


class _Lasted(NamedTuple):
    """The points of a history: how many were overloaded, and how many are unknown."""

    points: int
    overloaded: int
    unknown: int
    begins: bool

    @property
    def enough(self) -> bool:
        return self.begins and self.overloaded >= SUSTAINED_SHARE * self.points

    def sentence(self, sustained_seconds: int) -> str:
        if self.unknown == self.points:
            return "no history of its load is known"
        text = f"overloaded for {_of(self.overloaded / self.points, sustained_seconds)}"
        if not self.unknown:
            return text
        return f"{text}, without data for {_of(self.unknown / self.points, sustained_seconds)}"


def _lasted(track: Track) -> _Lasted:
    unknown = track.count(None)
    begins = bool(track) and track[0] is not None
    return _Lasted(max(1, len(track)), track.count(True), unknown, begins)


def _steps_left(track: Track) -> int:
    """In how many steps it is long enough, if it stays overloaded."""
    later = (track[step:] + (True,) * step for step in range(len(track)))
    return next((step for step, each in enumerate(later) if _lasted(each).enough), len(track))


def load_points(loaded: LoadedNode, pressure: ResourcePressure, book: UsageBook) -> Points:
    """The resource's load at each point, oldest first; None before the node existed."""
    resource = pressure.resource
    if resource is Resource.PODS:
        return _pod_counts(loaded, book)
    history = book.snapshot.load.history.get(loaded.node.name, {}).get(resource)
    if history is None:
        return (None,) * (_POD_STEPS + 1)
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
    step = timedelta(seconds=book.policy.sustained_seconds / _POD_STEPS)
    times = [book.now - step * i for i in reversed(range(_POD_STEPS + 1))]
    return tuple(sum(at <= t for at in began) / loaded.node.allocatable.pods for t in times)


def _of(share: float, seconds: int) -> str:
    """Format a share of a time, such as `4 of 10 minutes`."""
    if seconds % _MINUTE_SECONDS:
        return f"{share * seconds:.0f} of {seconds} seconds"
    return f"{share * seconds / _MINUTE_SECONDS:.0f} of {seconds // _MINUTE_SECONDS} minutes"
