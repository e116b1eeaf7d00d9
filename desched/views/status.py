"""What the state says: what is under way and what rests; and what `desched status` found."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from desched.model.chain import ChainUnderWay
from desched.model.state import CoolDown, EvictionRecord, LastCycle, NodeRounds, Pause, State
from desched.model.stored_state import is_done
from desched.planning.placement.forecast_trust import ForecastQuality, forecast_quality
from desched.ports import LeaseRecord
from desched.views.formatting import (
    MODE_NAMES,
    count,
    describe_chain,
    first_names,
    moment,
    percent,
    plain,
)
from desched.views.reasons import describe_unsteered
from desched.views.rendering import ReportFormat, rendered

STATUS_VERSION = "desched.io/status/v1"

IN_FLIGHT = "in flight"
MOST_LINES = 10
"""Lines of a section in a terminal."""


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
    """A heading with the lines below it, none if there is nothing of it."""

    title: str
    lines: Sequence[str]

    def first(self, most: int, rest: str) -> Sequence[str]:
        """The first lines; `rest` says what has the others."""
        more = len(self.lines) - most
        return [*self.lines[:most], *([f"… and {more} more; {rest}"] if more > 0 else [])]


class OnHold(NamedTuple):
    """What desched does not move now, sorted by name so that equal states read the same.

    `awaiting_probe` are pauses whose time is over but that still need their probe.
    """

    cool_downs: tuple[CoolDown, ...]
    cooling_nodes: tuple[NodeRounds, ...]
    pauses: tuple[Pause, ...]
    awaiting_probe: tuple[Pause, ...]


def on_hold(state: State, now: datetime) -> OnHold:
    """What desched leaves alone at this time according to the state."""
    cool_downs = sorted(state.cool_downs, key=lambda each: (each.workload, each.workload_uid))
    nodes = sorted(state.nodes, key=lambda rounds: rounds.node)
    pauses = sorted(state.pauses, key=lambda pause: (pause.scope, pause.subject))
    return OnHold(
        tuple(each for each in cool_downs if now < each.until),
        tuple(node for node in nodes if node.is_cooling_down(now)),
        tuple(pause for pause in pauses if pause.lasts(now)),
        tuple(pause for pause in pauses if not (pause.lasts(now) or is_done(pause, now))),
    )


def state_sections(state: State, now: datetime) -> Sequence[Section]:
    """What is under way and what rests, the most urgent first; the text is not neutralised."""
    held = on_hold(state, now)
    cooling = sorted(held.cool_downs, key=lambda each: each.until)
    quality = forecast_quality(state, now)
    return (
        Section("pauses", [pause_line(each, now) for each in (*held.pauses, *held.awaiting_probe)]),
        Section(IN_FLIGHT, [_flight(record, now) for record in state.in_flight]),
        Section("chains", [_chain(each, now) for each in state.chains]),
        Section("cool-downs", [_cool_down(each, now) for each in cooling]),
        Section("cooling nodes", [_cooling_node(each, now) for each in held.cooling_nodes]),
        Section("forecasts", [_forecasts(quality)] if quality else []),
    )


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
    print_sections(sections(status), console)


def print_sections(found: Iterable[Section], console: Console) -> None:
    """Print each title beside its lines."""
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for section in found:
        lines = section.first(MOST_LINES, "--output json has all") or ["none"]
        mark = "•" if len(lines) > 1 else ""
        for number, line in enumerate(lines):
            heading = Text("" if number else section.title, style="bold")
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
        yield Section("policy", [f"edited {moment(edit.at, now)}", *edit.changes])
    yield from state_sections(state, now)


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
    workload = cool_down.workload or cool_down.workload_uid
    return f"{workload} ends {moment(cool_down.until, now)}{after}{again}"


def _cooling_node(node: NodeRounds, now: datetime) -> str:
    ends = moment(node.cooling_down_until, now) if node.cooling_down_until else "later"
    return f"{node.node} ends {ends}: {count(node.rounds, 'round')} did not relieve it"


def _forecasts(quality: ForecastQuality) -> str:
    return (
        f"{count(quality.checks, 'landing')} in the last 24 h: {percent(quality.hit_rate)} % where "
        f"expected (forecast {percent(quality.expected_hit_rate)} %), "
        f"{percent(quality.bad_rate)} % bad (forecast {percent(quality.expected_bad_rate)} %)"
    )
