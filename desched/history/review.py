"""A review: what a service saw and did over a time, by its logbook."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import reduce

import msgspec
import numpy as np
from numpy.typing import NDArray

from desched.history.forecasts import both
from desched.history.logbook import (
    KEPT,
    MOST_COUNTED,
    UNKNOWN,
    ForecastTotals,
    Logbook,
    LoggedMove,
    LoggedStep,
)
from desched.history.overload import Overload
from desched.history.steps import as_rows
from desched.history.timeline import (
    IdleReason,
    IdleTotal,
    LoadOverTime,
    RefusalTotal,
    Timeline,
    TimelineEviction,
)
from desched.model.plan import HoldReason, NodeReason, RefusalReason
from desched.model.report import NotActing
from desched.model.resources import Resource
from desched.model.state import MoveResult

REVIEW_VERSION = "desched.io/review/v1"
LONGEST_REVIEW = KEPT - timedelta(days=1)
_MINUTE_SECONDS = 60.0
_DAY_SECONDS = 86_400.0


class ReviewedMode(StrEnum):
    """Whether the cycles of a review were dry runs."""

    DRY_RUN = "dry_run"
    EVICT = "evict"
    PARTLY = "partial_dry_run"


class ReviewedNode(msgspec.Struct, frozen=True, gc=False):
    """A node over the whole time; `evictions` are those from it, planned ones too."""

    node: str
    overloaded_minutes: float
    highest: Mapping[Resource, float | None]
    evictions: int


class ReviewedWorkload(msgspec.Struct, frozen=True, gc=False):
    """A workload with the number of evictions of its pods, planned ones too."""

    workload: str
    evictions: int


class Review(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What cycles found and did from `started_at` until `ended_at`, in steps.

    `covered_seconds` is the time for which cycles stand; all figures are about that. The minutes
    of `overload` count cycles in which a node was overloaded, as `overloaded_shares` of the
    timeline do; what it has beside them is that of the mean of each step. `most_overloaded` is the
    highest number of overloaded nodes in a step, as the mean of its cycles, `most_at` when that
    begins, and `last_overloaded` that of the newest step. A dry run
    plans the same eviction again while its node stays overloaded; it counts once. `relieved_share`
    is the share of overloaded nodes, cycle by cycle, for which an eviction was planned, None
    without any. Of the `left_nodes`, from which pods really were evicted, `still_overloaded` were
    so in the newest step. `verdicts`, `results` and `purposes` are those of evictions. `moves` are
    oldest first, and complete from `moves_since` on, None if they are all there.
    """

    version: str = REVIEW_VERSION
    target: str
    mode: ReviewedMode
    started_at: datetime
    ended_at: datetime
    step_seconds: int
    covered_seconds: float
    cycles: int
    overload: Overload
    most_overloaded: float
    most_at: datetime
    last_overloaded: float
    relieved_share: float | None
    left_nodes: int
    still_overloaded: int
    forecast: ForecastTotals
    evictions: int
    evictions_per_day: float
    verdicts: Mapping[str, int]
    results: Mapping[str, int]
    purposes: Mapping[str, int]
    workloads: tuple[ReviewedWorkload, ...]
    nodes: tuple[ReviewedNode, ...]
    moves: tuple[LoggedMove, ...]
    moves_since: datetime | None
    timeline: Timeline


def review(book: Logbook, since: datetime) -> Review:
    """The review from this time on, as far back as the logbook goes."""
    step = book.step_seconds
    first = max(0, int(since.timestamp()) // step - book.first_step)
    first = min(first, max(0, len(book.steps) - 1))
    steps = book.steps[first:]
    started_at = datetime.fromtimestamp((book.first_step + first) * step, UTC)
    shares = _overloaded_shares(book, first)
    minutes = shares * _minutes(steps)
    nodes = shares.sum(axis=0)
    highest_step = int(np.argmax(nodes))
    moves = tuple(move for move in book.moves if move.last_at >= started_at)
    covered = sum(each.covered_seconds for each in steps)
    overloaded = sum(each.overloaded for each in steps)
    from_node = Counter(move.node for move in moves)
    left = {move.node for move in moves if not move.dry_run}
    of_workload = Counter(move.workload for move in moves)
    timeline = _timeline(book, first, moves, shares)
    highest = {load.resource: load.highest_ratios() for load in timeline.loads}
    gone = book.moves_since if book.moves_since and book.moves_since > started_at else None
    return Review(
        target=book.target,
        mode=_mode(steps),
        started_at=started_at,
        ended_at=book.newest_at,
        step_seconds=step,
        covered_seconds=covered,
        cycles=sum(each.cycles for each in steps),
        overload=timeline.overload_in(_minutes(steps)),
        most_overloaded=float(nodes[highest_step]),
        most_at=started_at + timedelta(seconds=highest_step * step),
        last_overloaded=float(nodes[-1]),
        relieved_share=sum(each.relieved for each in steps) / overloaded if overloaded else None,
        left_nodes=len(left),
        still_overloaded=sum(minutes[row, -1] > 0 for row, n in enumerate(book.nodes) if n in left),
        forecast=reduce(both, (each.forecast for each in steps), ForecastTotals()),
        evictions=len(moves),
        evictions_per_day=len(moves) / covered * _DAY_SECONDS if covered else 0.0,
        verdicts=_ranked(each.verdicts for each in steps),
        results=_ranked([Counter(move.result for move in moves if move.result)]),
        purposes=_ranked([Counter(move.purpose for move in moves)]),
        workloads=tuple(ReviewedWorkload(*workload) for workload in of_workload.most_common()),
        nodes=tuple(
            ReviewedNode(
                name,
                float(minutes[row].sum()),
                {resource: ratios[row] for resource, ratios in highest.items()},
                from_node[name],
            )
            for row, name in enumerate(book.nodes)
        ),
        moves=moves,
        moves_since=gone,
        timeline=timeline,
    )


def _overloaded_shares(book: Logbook, first: int) -> NDArray[np.float64]:
    """The share of the cycles of each step that found each node overloaded."""
    steps = book.steps[first:]
    counts = as_rows(book.overloaded, book)[:, first:].astype(np.float64)
    cycles = np.array([step.cycles for step in steps], dtype=np.float64)
    share: NDArray[np.float64] = np.minimum(counts / np.clip(cycles, 1, MOST_COUNTED), 1.0)
    return share


def _minutes(steps: Sequence[LoggedStep]) -> NDArray[np.float64]:
    """The time for which the cycles of each step stand."""
    return np.array([step.covered_seconds for step in steps]) / _MINUTE_SECONDS


def _timeline(
    book: Logbook, first: int, moves: Sequence[LoggedMove], shares: NDArray[np.float64]
) -> Timeline:
    steps = book.steps[first:]
    loads = []
    for load in book.loads:
        values = as_rows(load.percents, book)[:, first:].tolist()
        rows = tuple(
            tuple(None if value == UNKNOWN else value / 100 for value in row) for row in values
        )
        loads.append(LoadOverTime(load.resource, load.lines, rows))
    return Timeline(
        name="as planned" if _mode(steps) is ReviewedMode.DRY_RUN else "as it was",
        started_at=datetime.fromtimestamp((book.first_step + first) * book.step_seconds, UTC),
        step_seconds=float(book.step_seconds),
        nodes=book.nodes,
        loads=tuple(loads),
        overloaded_shares=tuple(map(tuple, shares.tolist())),
        evictions=tuple(map(_eviction, moves)),
        refusals=_refusals(steps),
        idle=tuple(
            IdleTotal(reason, cycles)
            for code, cycles in _ranked(step.idle for step in steps).items()
            if (reason := _idle_reason(code)) is not None
        ),
    )


def _eviction(move: LoggedMove) -> TimelineEviction:
    results = set(MoveResult)
    reason = move.reason
    if move.dry_run:
        until = f" until {move.last_at:%m-%d %H:%M}" if move.cycles > 1 else ""
        reason += f"; planned{until}, expected on {move.expected_on}"
    return TimelineEviction(
        at=move.at,
        pod=move.pod,
        node=move.node,
        workload=move.workload,
        landed_at=move.settled_at if move.landed_on else None,
        landed_on=move.landed_on,
        result=MoveResult(move.result) if move.result in results else None,
        reason=reason,
    )


def _refusals(steps: Iterable[LoggedStep]) -> tuple[RefusalTotal, ...]:
    """The most pods of a cycle, and those of all cycles; codes of a newer desched are left out."""
    most: dict[str, int] = {}
    pods = Counter[str]()
    for step in steps:
        for code, (highest, total) in step.refused.items():
            most[code] = max(most.get(code, 0), highest)
            pods[code] += total
    reasons = set(RefusalReason)
    totals = [RefusalTotal(RefusalReason(c), most[c], pods[c]) for c in pods if c in reasons]
    return tuple(sorted(totals, key=lambda each: (-each.decisions, each.reason)))


def _idle_reason(code: str) -> IdleReason | None:
    kinds: tuple[type[IdleReason], ...] = (HoldReason, NotActing, NodeReason, RefusalReason)
    return next((kind(code) for kind in kinds if code in set(kind)), None)


def _mode(steps: Sequence[LoggedStep]) -> ReviewedMode:
    dry, cycles = sum(step.dry_runs for step in steps), sum(step.cycles for step in steps)
    if dry == cycles:
        return ReviewedMode.DRY_RUN
    return ReviewedMode.PARTLY if dry else ReviewedMode.EVICT


def _ranked(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total = Counter[str]()
    for count in counts:
        total.update(count)
    return dict(sorted(total.items(), key=lambda pair: (-pair[1], pair[0])))
