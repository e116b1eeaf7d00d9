"""Whether what Prometheus says of a node may be believed; missing is never zero.

Each doubt is a rule of its own; the first that objects gives the reason.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from desched.adapters.prometheus.queries import CHECKPOINTS, STALE_AFTER_SECONDS
from desched.model.load import Level, Measured, Unknown, UnknownReason

COVERED_CHECKPOINTS = CHECKPOINTS * 0.8
AGREEMENT_RATIO = 0.03
"""Two exporters of one node that differ by no more than this are both right."""

MOST_AHEAD_SECONDS = 60.0
"""Exporters that stamp their samples themselves may have clocks that differ by this much."""

LOWEST_RATIO, HIGHEST_RATIO = -0.01, 1.05
"""Extrapolation leaves [0, 1] by this little; anything beyond is a mistake."""

Key = frozenset[tuple[str, str]]


class Sighting(NamedTuple):
    """A value that a series holds for a node; `key` is the series' labels."""

    key: Key
    value: float
    exporter_gone: bool = False


class WindowEvidence(NamedTuple):
    """What there is for one node and window; `covered` is in checkpoints.

    `remark` says why no window of this length can be covered, and is empty otherwise.
    """

    seconds: int
    values: Sequence[Sighting]
    covered: Mapping[Key, float]
    remark: str = ""


class NodeEvidence(NamedTuple):
    """All there is for one node and resource.

    `ages` are in seconds, by series. `node_age_seconds` is how long the Node object exists.
    With `own_query` the values come from a query of the user, whose series need not be those of
    `ages` and `covered`: the best of the node counts. `checkable` is false where the raw series
    behind ages and coverage exist for no node at all; then the query is taken at its word.
    """

    windows: Sequence[WindowEvidence]
    ages: Mapping[Key, float]
    node_age_seconds: float
    own_query: bool = False
    checkable: bool = True
    absent_detail: str = ""


def judge(evidence: NodeEvidence) -> Measured | Unknown:
    """The load of a node over all windows, or why it is not known."""
    for window in evidence.windows:
        for doubt in _DOUBTS:
            if unknown := doubt(window, evidence):
                return unknown
    levels = tuple(_level(window, evidence) for window in evidence.windows)
    return Measured(levels, max(0.0, min(evidence.ages.values(), default=0.0)))


def _level(window: WindowEvidence, evidence: NodeEvidence) -> Level:
    highest = max(_believable(window, evidence))
    return Level(window.seconds, min(max(highest, 0.0), 1.0))


def _absent(window: WindowEvidence, evidence: NodeEvidence) -> Unknown | None:
    if window.values or evidence.ages:
        return None
    return Unknown(UnknownReason.ABSENT, evidence.absent_detail)


def _stale(_window: WindowEvidence, evidence: NodeEvidence) -> Unknown | None:
    if not evidence.checkable:
        return None
    if not evidence.ages:
        return Unknown(UnknownReason.STALE, "its series have ended")
    age = min(evidence.ages.values())
    if age < -MOST_AHEAD_SECONDS:
        detail = f"the newest sample is from {-age:.0f}s in the future"
        return Unknown(UnknownReason.IMPLAUSIBLE, detail)
    if age <= STALE_AFTER_SECONDS:
        return None
    return Unknown(UnknownReason.STALE, f"the newest sample is {age:.0f}s old")


def _too_young(window: WindowEvidence, evidence: NodeEvidence) -> Unknown | None:
    if evidence.node_age_seconds >= window.seconds:
        return None
    return Unknown(
        UnknownReason.WINDOW_NOT_COVERED,
        f"the node joined {max(evidence.node_age_seconds, 0.0):.0f}s ago, within the last "
        f"{duration(window.seconds)}",
    )


def _not_covered(window: WindowEvidence, evidence: NodeEvidence) -> Unknown | None:
    if not evidence.checkable:
        return None
    checkpoints = [window.covered.get(key, 0.0) for key in _keys(window, evidence)]
    if (most := max(checkpoints, default=0.0)) >= COVERED_CHECKPOINTS:
        return None
    seen = f"samples cover {most / CHECKPOINTS:.0%} of the last {duration(window.seconds)}"
    return Unknown(UnknownReason.WINDOW_NOT_COVERED, window.remark or seen)


def _without_value(window: WindowEvidence, evidence: NodeEvidence) -> Unknown | None:
    if _believable(window, evidence):
        return None
    detail = f"the query has no value for the last {duration(window.seconds)}"
    return Unknown(UnknownReason.ABSENT, detail)


def _not_finite(window: WindowEvidence, evidence: NodeEvidence) -> Unknown | None:
    if all(map(math.isfinite, _believable(window, evidence))):
        return None
    return Unknown(UnknownReason.NOT_FINITE, "the query gave NaN or infinity")


def _contradictory(window: WindowEvidence, evidence: NodeEvidence) -> Unknown | None:
    values = _believable(window, evidence)
    low, high = min(values), max(values)
    if high - low <= AGREEMENT_RATIO:
        return None
    detail = f"{len(values)} series say from {low:.1%} to {high:.1%} for the same node"
    return Unknown(UnknownReason.CONTRADICTORY, detail)


def _implausible(window: WindowEvidence, evidence: NodeEvidence) -> Unknown | None:
    absurd = [v for v in _believable(window, evidence) if not LOWEST_RATIO <= v <= HIGHEST_RATIO]
    if not absurd:
        return None
    return Unknown(UnknownReason.IMPLAUSIBLE, f"a load of {absurd[0]:.1%} of the capacity")


_DOUBTS: Sequence[Callable[[WindowEvidence, NodeEvidence], Unknown | None]] = (
    _absent,
    _stale,
    _too_young,
    _not_covered,
    _without_value,
    _not_finite,
    _contradictory,
    _implausible,
)


def _keys(window: WindowEvidence, evidence: NodeEvidence) -> Collection[Key]:
    """The series whose coverage counts: those with a value, where there is one."""
    if evidence.own_query:
        return window.covered.keys()
    return {sighting.key for sighting in _live(window, evidence)} or evidence.ages.keys()


def _live(window: WindowEvidence, evidence: NodeEvidence) -> Sequence[Sighting]:
    """The values of series that are still written, by an exporter that still exists if any does.

    After a restart of its exporter a node has the old and the new series for a whole window.
    """
    live = list(window.values)
    if not evidence.own_query:
        live = [sighting for sighting in live if sighting.key in evidence.ages]
    return [sighting for sighting in live if not sighting.exporter_gone] or live


def _believable(window: WindowEvidence, evidence: NodeEvidence) -> Sequence[float]:
    live = _live(window, evidence)
    if evidence.own_query:
        return [s.value for s in live]
    return [s.value for s in live if window.covered.get(s.key, 0.0) >= COVERED_CHECKPOINTS]


def duration(seconds: float) -> str:
    """A duration as Prometheus and policies write it, such as 90s or 5m."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m" if minutes and not rest else f"{minutes * 60 + rest}s"
