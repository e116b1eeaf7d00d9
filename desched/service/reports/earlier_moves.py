"""What became of earlier evictions, which are under way, and what is left alone because of them."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.console import Console
from rich.text import Text

from desched.model.report import CycleReport
from desched.model.state import FAILURES, EvictionRecord, MoveResult
from desched.service.reports.grouped_list import Member, counted, groups
from desched.service.reports.on_hold import OnHold, on_hold
from desched.service.reports.times import clock_time

_ORDER = tuple(MoveResult)


def print_earlier_moves(report: CycleReport, console: Console) -> None:
    """Print what there is to say of earlier moves; nothing if there is nothing."""
    now = report.started_at
    if report.settled:
        console.print(Text("What became of earlier evictions:", style="bold"))
        console.print(groups(_by_result(report.settled)))
        console.print()
    if report.state.in_flight:
        console.print(Text("Evictions in flight:", style="bold"))
        under_way = [_under_way(record, now) for record in report.state.in_flight]
        console.print(counted([("whose replacement is awaited:", under_way)]))
        console.print()
    rows = list(_left_alone(on_hold(report.state, now), now))
    if rows:
        console.print(Text("Left alone for now:", style="bold"))
        console.print(counted(rows))
        console.print()


def _by_result(
    settled: Sequence[EvictionRecord],
) -> Sequence[tuple[MoveResult, Sequence[Member]]]:
    """The moves by what became of them, failures first."""
    found: dict[MoveResult, list[Member]] = defaultdict(list)
    for record in settled:
        if record.result is not None:
            found[record.result].append(Member(f"{record.pod} {_way(record)}"))
    return sorted(found.items(), key=lambda item: (item[0] not in FAILURES, _ORDER.index(item[0])))


def _way(record: EvictionRecord) -> str:
    return f"{record.node} → {record.landed_on or '?'}"


def _under_way(record: EvictionRecord, now: datetime) -> Member:
    state = "has left" if record.left_at else "is leaving"
    latest = f", judged by {clock_time(record.judged_by, now)}" if record.judged_by else ""
    return Member(
        f"{record.pod}", f"{state} {record.node}, expected on {record.expected_node}{latest}"
    )


def _left_alone(alone: OnHold, now: datetime) -> Iterator[tuple[str, Sequence[Member]]]:
    if alone.pauses:
        told = [Member(pause.describe()) for pause in alone.pauses]
        yield "paused; `desched resume` ends a pause:", told
    if alone.awaiting_probe:
        waiting = [Member(str(pause), pause.why) for pause in alone.awaiting_probe]
        yield "no longer paused, but one careful move has to go well first:", waiting
    if alone.cooling_nodes:
        cooling_nodes = [
            Member(each.node, _until(each.cooling_down_until, now)) for each in alone.cooling_nodes
        ]
        yield "cooling down, because moves have not relieved them:", cooling_nodes
    if alone.cool_downs:
        cooling = [
            Member(
                each.workload or each.workload_uid,
                _until(each.until, now) + (f" after {each.result.value}" if each.result else ""),
            )
            for each in alone.cool_downs
        ]
        yield "cooling down after a move:", cooling


def _until(until: datetime | None, now: datetime) -> str:
    return f"until {clock_time(until, now)}" if until else ""
