"""The status for people: the last cycle, pauses, evictions in flight and what cools down."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from desched.model.chain import ChainUnderWay
from desched.model.state import CoolDown, EvictionRecord, LastCycle, NodeRounds, Pause, State
from desched.planning.placement.forecast_trust import forecast_quality
from desched.ports import LeaseRecord
from desched.views.chains import describe_chain
from desched.views.formatting import count, first_names, moment, percent, plain
from desched.views.reason_texts import describe_unsteered
from desched.views.rendering import ReportFormat, rendered

STATUS_VERSION = "desched.io/status/v1"

MOST_LINES = 10
"""Lines in a section; the others are counted, and JSON has them all."""

MODE_NAMES = {"dry_run": "a dry run", "evict": "evicting"}


class Status(msgspec.Struct, frozen=True):
    """What `desched status` found.

    `state` is None if there is none or, with a `problem`, if it cannot be used. `lease` is None if
    there is none or, with a `lease_problem`, if it could not be read.
    """

    asked_at: datetime
    target: str
    place: str
    state: State | None
    problem: str = ""
    lease: LeaseRecord | None = None
    lease_problem: str = ""


class Section(NamedTuple):
    """A heading with the lines below it."""

    title: str
    lines: Sequence[str]


def render_status(
    status: Status,
    format: ReportFormat,  # noqa: A002  (the word for it)
) -> str:
    """The status in one of the formats, ending in a newline.

    JSON and YAML have the same structure, with all fields of the state.
    """
    quality = forecast_quality(status.state, status.asked_at) if status.state else None
    document = {
        "version": STATUS_VERSION,
        **{name: getattr(status, name) for name in status.__struct_fields__},
        "forecast_quality": quality._asdict() if quality else None,
    }
    return rendered(document, lambda console: print_status(status, console), format)


def print_status(status: Status, console: Console) -> None:
    """Print the status; it needs no colour, and 80 columns are enough."""
    console.print(Text(f"desched · status · {plain(status.target)}", style="bold"))
    console.print(Text(f"{plain(status.place)} at {status.asked_at:%Y-%m-%d %H:%M:%S} UTC"))
    console.print()
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for title, lines in sections(status):
        mark = "•" if len(lines) > 1 else ""
        for number, line in enumerate(lines):
            heading = Text("" if number else title, style="bold")
            table.add_row(heading, mark, Text(plain(line)))
    console.print(table)


def sections(status: Status) -> Iterator[Section]:
    """The sections, the most urgent first; their text is not neutralised yet."""
    state, now = status.state, status.asked_at
    if status.problem:
        yield Section("PROBLEM", [status.problem])
    yield Section("leader", [_leader(status)])
    if state is None:
        if not status.problem:
            yield Section("state", [f"There is none yet in {status.place}."])
        return
    yield Section("last cycle", list(_last_cycle(state.last_cycle, now)))
    if state.last_cycle is not None and (edit := state.last_cycle.edit) is not None:
        yield Section("policy", [f"edited {moment(edit.at, now)}", *_listed(edit.changes, "")])
    yield Section("pauses", _listed((pause_line(p, now) for p in state.pauses), "none"))
    yield Section("in flight", _listed((_flight(r, now) for r in state.in_flight), "no eviction"))
    yield Section("chains", _listed((_chain(each, now) for each in state.chains), "none"))
    cooling = sorted((c for c in state.cool_downs if now < c.until), key=lambda c: c.until)
    yield Section("cool-downs", _listed((_cool_down(c, now) for c in cooling), "none"))
    yield Section("cooling nodes", _listed(_cooling_nodes(state.nodes, now), "none"))
    yield Section("forecasts", [_forecasts(state, now)])


def pause_line(pause: Pause, now: datetime) -> str:
    """A pause with its end, who started it and why."""
    why = f": {pause.why}" if pause.why else ""
    return f"{pause} {_end(pause, now)} ({pause_origin(pause, now)}){why}"


def pause_origin(pause: Pause, now: datetime) -> str:
    """Who started a pause, and when."""
    by = f"by {pause.by}" if pause.by else "automatically"
    return f"started {by} {moment(pause.since, now)}"


def _end(pause: Pause, now: datetime) -> str:
    if pause.until is None:
        return "until it is resumed"
    end = f"{'ends' if pause.lasts(now) else 'ended'} {moment(pause.until, now)}"
    if pause.by or pause.lasts(now):
        return end
    return f"{end}; one careful move must succeed before others follow"


def _leader(status: Status) -> str:
    lease, now = status.lease, status.asked_at
    if status.lease_problem:
        return f"not known: {status.lease_problem}"
    if lease is None:
        return "no leader election"
    if not lease.holder:
        return "none; the last leader released the Lease"
    if lease.renewed_at is None:
        return lease.holder
    renewed = f"{lease.holder}, renewed {moment(lease.renewed_at, now)}"
    if now - lease.renewed_at > timedelta(seconds=2 * lease.duration_seconds):
        return f"{renewed}, which is too long ago: no replica acts, or the clocks differ"
    return renewed


def _last_cycle(cycle: LastCycle | None, now: datetime) -> Iterator[str]:
    if cycle is None:
        yield "none yet"
        return
    mode = MODE_NAMES.get(cycle.mode, cycle.mode)
    yield f"{moment(cycle.at, now)} by {cycle.instance}, {mode}: {cycle.result}"
    if cycle.evicted:
        yield f"evicted {count(cycle.evicted, 'pod')}"
    if cycle.not_acting:
        yield f"not acting: {cycle.not_acting}"
    if cycle.unsteered is not None:
        yield describe_unsteered(cycle.unsteered)
    if cycle.overloaded:
        overloaded = count(len(cycle.overloaded), "node is", "nodes are")
        yield f"{overloaded} overloaded: {first_names(cycle.overloaded)}"
    else:
        yield "no node is overloaded"
    if cycle.acknowledged_deschedulers:
        yield f"beside desched on purpose: {', '.join(cycle.acknowledged_deschedulers)}"


def _flight(record: EvictionRecord, now: datetime) -> str:
    if record.left_at is None:
        where = f"is leaving {record.node}, eviction requested {moment(record.evicted_at, now)}"
    else:
        where = f"left {record.node} {moment(record.left_at, now)}"
    if record.replacement is not None:
        on = f" on {record.landed_on}" if record.landed_on else ""
        then = f"replaced by {record.replacement}{on}"
    else:
        then = f"expected on {record.expected_on}"
    until = f"; judged {_by(record.judged_by, now)}" if record.judged_by else ""
    probe = " (the probe after a pause)" if record.probe else ""
    workload = f" of {record.workload}" if record.workload else ""
    return f"{record.pod}{workload} {where}, {then}{until}{probe}"


def _chain(each: ChainUnderWay, now: datetime) -> str:
    what, until = describe_chain(each.chain), moment(each.until, now)
    if each.broken_at is None:
        return f"{what}; ends {until} at the latest"
    return f"{what}; broken {moment(each.broken_at, now)}: {each.why}; another one {until}"


def _by(at: datetime, now: datetime) -> str:
    return f"{moment(at, now)} at the latest" if at > now else f"since {moment(at, now)}"


def _cool_down(cool_down: CoolDown, now: datetime) -> str:
    after = f" after {cool_down.result.value}" if cool_down.result else ""
    again = f", level {cool_down.level}" if cool_down.level else ""
    return f"{cool_down.workload} ends {moment(cool_down.until, now)}{after}{again}"


def _cooling_nodes(nodes: Iterable[NodeRounds], now: datetime) -> Iterator[str]:
    for node in nodes:
        if node.cooling_down_until is not None and now < node.cooling_down_until:
            rounds = count(node.rounds, "round")
            ends = moment(node.cooling_down_until, now)
            yield f"{node.node} ends {ends}: {rounds} did not relieve it"


def _forecasts(state: State, now: datetime) -> str:
    quality = forecast_quality(state, now)
    if quality is None:
        return "no landing in the last 24 h"
    return (
        f"{count(quality.checks, 'landing')} in the last 24 h: {percent(quality.hit_rate)} % where "
        f"expected (forecast {percent(quality.expected_hit_rate)} %), "
        f"{percent(quality.bad_rate)} % bad (forecast {percent(quality.expected_bad_rate)} %)"
    )


def _listed(lines: Iterable[str], nothing: str) -> list[str]:
    found = list(lines) or [nothing]
    if len(found) > MOST_LINES:
        found[MOST_LINES:] = [f"… and {len(found) - MOST_LINES} more; --output json has all"]
    return found
