"""Whether the data of a node can be used; missing data never counts as zero.

Each check is a function; the first that fails gives the reason.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from desched.adapters.prometheus.queries import CHECKPOINTS, STALE_AFTER_SECONDS
from desched.model.load import Level, Measured, Unknown, UnknownReason

COVERED_CHECKPOINTS = CHECKPOINTS * 0.8
AGREEMENT_RATIO = 0.03
"""Two exporters of one node may differ by this much."""

MOST_AHEAD_SECONDS = 60.0
"""The clocks of exporters that timestamp their own samples may be ahead by this much."""

LOWEST_RATIO, HIGHEST_RATIO = -0.01, 1.05
"""Extrapolation may leave [0, 1] by this much; a value beyond is an error."""

Key = frozenset[tuple[str, str]]


class Sighting(NamedTuple):
    """A value of a series for a node; `key` is the labels of the series."""

    key: Key
    value: float
    exporter_gone: bool = False


class WindowEvidence(NamedTuple):
    """The evidence for one node and window; `covered` is in checkpoints.

    `remark` is why no window of this length can be covered, empty otherwise.
    """

    seconds: int
    values: Sequence[Sighting]
    covered: Mapping[Key, float]
    remark: str = ""


class NodeEvidence(NamedTuple):
    """The evidence for one node and resource.

    `ages` are in seconds, by series. `node_age_seconds` is the age of the Node object. With
    `own_query` the values come from a user's query, whose series may differ from those of `ages`
    and `covered`; then the best series of the node counts. `checkable` is false if no node has the
    raw series behind ages and coverage; then the query is trusted.
    """

    windows: Sequence[WindowEvidence]
    ages: Mapping[Key, float]
    node_age_seconds: float
    own_query: bool = False
    checkable: bool = True
    absent_detail: str = ""


def judge(evidence: NodeEvidence) -> Measured | Unknown:
    """The load of a node over all windows, or why it is unknown."""
    for window in evidence.windows:
        for check in _CHECKS:
            if unknown := check(window, evidence):
                return unknown
    levels = tuple(_level(window, evidence) for window in evidence.windows)
    return Measured(levels, max(0.0, min(evidence.ages.values(), default=0.0)))


def _level(window: WindowEvidence, evidence: NodeEvidence) -> Level:
    highest = max(_usable(window, evidence))
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
    if _usable(window, evidence):
        return None
    detail = f"the query has no value for the last {duration(window.seconds)}"
    return Unknown(UnknownReason.ABSENT, detail)


def _not_finite(window: WindowEvidence, evidence: NodeEvidence) -> Unknown | None:
    if all(map(math.isfinite, _usable(window, evidence))):
        return None
    return Unknown(UnknownReason.NOT_FINITE, "the query returned NaN or infinity")


def _contradictory(window: WindowEvidence, evidence: NodeEvidence) -> Unknown | None:
    values = _usable(window, evidence)
    low, high = min(values), max(values)
    if high - low <= AGREEMENT_RATIO:
        return None
    detail = f"{len(values)} series of the same node range from {low:.1%} to {high:.1%}"
    return Unknown(UnknownReason.CONTRADICTORY, detail)


def _implausible(window: WindowEvidence, evidence: NodeEvidence) -> Unknown | None:
    impossible = [v for v in _usable(window, evidence) if not LOWEST_RATIO <= v <= HIGHEST_RATIO]
    if not impossible:
        return None
    return Unknown(UnknownReason.IMPLAUSIBLE, f"a load of {impossible[0]:.1%} of the capacity")


_CHECKS: Sequence[Callable[[WindowEvidence, NodeEvidence], Unknown | None]] = (
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
    """The series whose coverage counts: those with a value, if there are any."""
    if evidence.own_query:
        return window.covered.keys()
    return {sighting.key for sighting in _live(window, evidence)} or evidence.ages.keys()


def _live(window: WindowEvidence, evidence: NodeEvidence) -> Sequence[Sighting]:
    """The values of series that have not ended, from existing exporters if there are any.

    After a restart of its exporter a node has both the old and the new series for one window.
    """
    live = list(window.values)
    if not evidence.own_query:
        live = [sighting for sighting in live if sighting.key in evidence.ages]
    return [sighting for sighting in live if not sighting.exporter_gone] or live


def _usable(window: WindowEvidence, evidence: NodeEvidence) -> Sequence[float]:
    live = _live(window, evidence)
    if evidence.own_query:
        return [s.value for s in live]
    return [s.value for s in live if window.covered.get(s.key, 0.0) >= COVERED_CHECKPOINTS]


def duration(seconds: float) -> str:
    """A duration as in PromQL and policies, such as 90s or 5m."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m" if minutes and not rest else f"{minutes * 60 + rest}s"
