"""Whether the data of a node can be used; missing data never counts as zero.

The first problem that is found gives the reason.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from desched.model.load import Level, Measured, SeenLoad, Unknown, UnknownReason
from desched.policy.durations import duration_text
from desched.promql.sources import CHECKPOINTS, STALE_AFTER_SECONDS

COVERED_CHECKPOINTS = CHECKPOINTS * 0.8
AGREEMENT_RATIO = 0.03
"""Two exporters of one node may differ by this much."""

MOST_AHEAD_SECONDS = 60.0
"""The clocks of exporters that timestamp their own samples may be ahead by this much."""

LOWEST_RATIO, HIGHEST_RATIO = -0.01, 1.05
"""Extrapolation may leave [0, 1] by this much; a value beyond is an error."""

Key = frozenset[tuple[str, str]]
Problem = tuple[UnknownReason, str]
"""Why a value is unknown, with the detail."""


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
    levels = []
    for window in evidence.windows:
        values = _usable(window, evidence)
        problems = chain(_gaps(window, evidence, values), _errors(values))
        if (problem := next(problems, None)) is not None:
            return Unknown(*problem)
        levels.append(Level(window.seconds, min(max(*values, 0.0), 1.0)))
    return Measured(tuple(levels))


def seen(evidence: NodeEvidence, load: Measured | Unknown) -> SeenLoad:
    """What to show of a load that was judged so."""
    ages = [age for age in evidence.ages.values() if math.isfinite(age)]
    age_seconds = max(0.0, min(ages)) if ages else None
    if isinstance(load, Measured):
        return SeenLoad(age_seconds)
    levels = tuple(
        Level(window.seconds, max(finite))
        for window in evidence.windows
        if (finite := [s.value for s in _live(window, evidence) if 0 <= s.value < math.inf])
    )
    waits = [_wait_seconds(window, evidence) for window in evidence.windows]
    too_short = load.reason is not UnknownReason.WINDOW_NOT_COVERED or None in waits
    return SeenLoad(age_seconds, levels, None if too_short else max(filter(None, waits), default=0))


def _wait_seconds(window: WindowEvidence, evidence: NodeEvidence) -> float | None:
    """How long until samples cover the window; None if they never will."""
    if window.remark:
        return None
    young = max(0.0, window.seconds - max(0.0, evidence.node_age_seconds))
    if not evidence.checkable:
        return young
    most = max((window.covered.get(k, 0.0) for k in _keys(window, evidence)), default=0.0)
    return max(young, (COVERED_CHECKPOINTS - most) / CHECKPOINTS * window.seconds)


def _gaps(
    window: WindowEvidence, evidence: NodeEvidence, values: Sequence[float]
) -> Iterator[Problem]:
    """What is missing; `values` are the usable ones."""
    length = duration_text(window.seconds)
    if not (window.values or evidence.ages):
        yield UnknownReason.ABSENT, evidence.absent_detail
    if evidence.checkable:
        yield from _misplaced_in_time(evidence.ages.values())
    if evidence.node_age_seconds < window.seconds:
        joined = f"the node joined {max(evidence.node_age_seconds, 0.0):.0f}s ago"
        yield UnknownReason.WINDOW_NOT_COVERED, f"{joined}, within the last {length}"
    if evidence.checkable:
        keys = _keys(window, evidence)
        most = max((window.covered.get(key, 0.0) for key in keys), default=0.0)
        if most < COVERED_CHECKPOINTS:
            seen = f"samples cover {most / CHECKPOINTS:.0%} of the last {length}"
            yield UnknownReason.WINDOW_NOT_COVERED, window.remark or seen
    if not values:
        yield UnknownReason.ABSENT, f"the query has no value for the last {length}"


def _misplaced_in_time(ages: Collection[float]) -> Iterator[Problem]:
    if not ages:
        yield UnknownReason.STALE, "its series have ended"
    elif (age := min(ages)) < -MOST_AHEAD_SECONDS:
        yield UnknownReason.IMPLAUSIBLE, f"the newest sample is from {-age:.0f}s in the future"
    elif age > STALE_AFTER_SECONDS:
        yield UnknownReason.STALE, f"the newest sample is {age:.0f}s old"


def _errors(values: Sequence[float]) -> Iterator[Problem]:
    """What is wrong with the values, of which there is at least one."""
    if not all(map(math.isfinite, values)):
        yield UnknownReason.NOT_FINITE, "the query returned NaN or infinity"
    low, high = min(values), max(values)
    if high - low > AGREEMENT_RATIO:
        ratios = f"{len(values)} series of the same node range from {low:.1%} to {high:.1%}"
        yield UnknownReason.CONTRADICTORY, ratios
    for value in values:
        if not LOWEST_RATIO <= value <= HIGHEST_RATIO:
            yield UnknownReason.IMPLAUSIBLE, f"a load of {value:.1%} of the capacity"


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
