"""Earlier evictions in the table: their results, those in flight, and what is left alone since."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.console import Console

from desched.model.chain import ChainUnderWay
from desched.model.groups import grouped
from desched.model.report import CycleReport
from desched.model.state import FAILURES, EvictionRecord, MoveResult
from desched.views.chains import describe_chain
from desched.views.formatting import clock_time
from desched.views.grouped_list import Member, counted, groups, print_section
from desched.views.on_hold import OnHold, on_hold

_ORDER = tuple(MoveResult)


def print_earlier_moves(report: CycleReport, console: Console) -> None:
    """Print what is known of earlier moves, if there were any."""
    now = report.started_at
    if report.settled:
        print_section("Results of earlier evictions:", groups(_by_result(report.settled)), console)
    if report.state.in_flight:
        in_flight = [_in_flight(record, now) for record in report.state.in_flight]
        rows = counted([("waiting for the replacement:", in_flight)])
        print_section("Evictions in flight:", rows, console)
    chains = list(_chains(report.plan.chains, now))
    if chains:
        print_section("Chains of two moves:", counted(chains), console)
    left_alone = list(_left_alone(on_hold(report.state, now), now))
    if left_alone:
        print_section("Left alone for now:", counted(left_alone), console)


def _by_result(
    settled: Sequence[EvictionRecord],
) -> Sequence[tuple[MoveResult, Sequence[Member]]]:
    """The moves by result, failures first."""
    found = grouped(
        (record.result, Member(f"{record.pod} {record.node} → {record.landed_on or '?'}"))
        for record in settled
        if record.result is not None
    )
    return sorted(found.items(), key=lambda item: (item[0] not in FAILURES, _ORDER.index(item[0])))


def _in_flight(record: EvictionRecord, now: datetime) -> Member:
    state = "has left" if record.left_at else "is leaving"
    latest = f", judged by {clock_time(record.judged_by, now)}" if record.judged_by else ""
    return Member(
        f"{record.pod}", f"{state} {record.node}, expected on {record.expected_on}{latest}"
    )


def _chains(
    chains: Sequence[ChainUnderWay], now: datetime
) -> Iterator[tuple[str, Sequence[Member]]]:
    under_way = [each for each in chains if each.broken_at is None]
    if under_way:
        yield "waiting for the second move:", [_chain(each, "", now) for each in under_way]
    broken = [each for each in chains if each.broken_at is not None]
    if broken:
        yield (
            "broken; no other one begins for the same node:",
            [_chain(each, f"{each.why}; ", now) for each in broken],
        )


def _chain(each: ChainUnderWay, why: str, now: datetime) -> Member:
    return Member(describe_chain(each.chain), f"{why}until {clock_time(each.until, now)}")


def _left_alone(held: OnHold, now: datetime) -> Iterator[tuple[str, Sequence[Member]]]:
    if held.pauses:
        pauses = [Member(pause.describe()) for pause in held.pauses]
        yield "paused; `desched resume` ends a pause:", pauses
    if held.awaiting_probe:
        waiting = [Member(str(pause), pause.why) for pause in held.awaiting_probe]
        yield "no longer paused, but one careful move must succeed first:", waiting
    if held.cooling_nodes:
        nodes = [
            Member(each.node, _until(each.cooling_down_until, now)) for each in held.cooling_nodes
        ]
        yield "cooling down, because moves did not relieve them:", nodes
    if held.cool_downs:
        workloads = [
            Member(
                each.workload or each.workload_uid,
                _until(each.until, now) + (f" after {each.result.value}" if each.result else ""),
            )
            for each in held.cool_downs
        ]
        yield "cooling down after a move:", workloads


def _until(until: datetime | None, now: datetime) -> str:
    return f"until {clock_time(until, now)}" if until else ""
