"""What the state says: what is under way and what rests; and what `desched status` found."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property

import msgspec

from desched.cycle_report import MOST_NAMES
from desched.model.plan import RELIEF, HoldReason
from desched.model.state import CoolDown, EvictionRecord, LastCycle, NodeRounds, Pause, State
from desched.model.stored_state import is_done
from desched.planning.placement.forecast_trust import ForecastQuality, forecast_quality
from desched.plugins import HOUSE
from desched.ports import LeaseRecord
from desched.views.blocks import Block, facts, styled
from desched.views.rendering import View
from desched.wording.formatting import (
    MODE_NAMES,
    count,
    first_names,
    moment,
    percent,
)
from desched.wording.reasons import describe, describe_unsteered
from desched.wording.section import Section

STATUS_VERSION = "desched.io/status/v1"

IN_FLIGHT = "in flight"


class StateView:
    """A state at a time: what is under way, what rests, and how good forecasts are.

    Sections are not neutralised.
    """

    def __init__(self, state: State, now: datetime) -> None:
        self._state, self._now = state, now

    @cached_property
    def cool_downs(self) -> Sequence[CoolDown]:
        """The workloads that rest, by name."""
        found = sorted(
            self._state.cool_downs,
            key=lambda cool_down: (cool_down.workload, cool_down.workload_uid),
        )
        return [cool_down for cool_down in found if self._now < cool_down.until]

    @cached_property
    def cooling_nodes(self) -> Sequence[NodeRounds]:
        """The nodes that rest, by name."""
        rounds_by_node = sorted(self._state.nodes, key=lambda rounds: rounds.node)
        return [node for node in rounds_by_node if node.is_cooling_down(self._now)]

    @cached_property
    def pauses(self) -> Sequence[Pause]:
        """The pauses that last."""
        return [pause for pause in self._pauses if pause.lasts(self._now)]

    @cached_property
    def awaiting_probe(self) -> Sequence[Pause]:
        """The pauses whose time is over but that still need their probe."""
        over = (pause for pause in self._pauses if not pause.lasts(self._now))
        return [pause for pause in over if not is_done(pause, self._now)]

    @property
    def _pauses(self) -> Sequence[Pause]:
        return sorted(self._state.pauses, key=lambda pause: (pause.scope, pause.subject))

    @cached_property
    def forecast_quality(self) -> ForecastQuality | None:
        """How good the forecasts of the last day were; None without any landing."""
        return forecast_quality(self._state, self._now)

    @property
    def sections(self) -> Sequence[Section]:
        """Everything, the most urgent first."""
        flights = [_flight(record, self._now) for record in self._state.in_flight]
        pauses, *others = self.resting
        return (pauses, Section(IN_FLIGHT, flights), *others)

    @property
    def resting(self) -> Sequence[Section]:
        """Everything but the evictions in flight."""
        now, quality = self._now, self.forecast_quality
        cooling = sorted(self.cool_downs, key=lambda cool_down: cool_down.until)
        return (
            Section("pauses", [pause_line(p, now) for p in (*self.pauses, *self.awaiting_probe)]),
            *(each for plugin in HOUSE for each in plugin.views.state_sections(self._state, now)),
            Section("cool-downs", [_cool_down(cool_down, now) for cool_down in cooling]),
            Section(
                "cooling nodes",
                [_cooling_node(cooling_node, now) for cooling_node in self.cooling_nodes],
            ),
            Section("forecasts", [_forecasts(quality)] if quality else []),
        )


class Status(View, msgspec.Struct, frozen=True):
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

    @property
    def document(self) -> Mapping[str, object]:
        """All fields, also those of the state."""
        quality = StateView(self.state, self.asked_at).forecast_quality if self.state else None
        return {
            "version": STATUS_VERSION,
            **msgspec.structs.asdict(self),
            "forecast_quality": quality and quality._asdict(),
        }

    @property
    def sections(self) -> Iterator[Section]:
        """The sections, the most urgent first; their text is not neutralised."""
        state, now = self.state, self.asked_at
        if self.problem:
            yield Section("PROBLEM", [self.problem])
        yield Section("leader", [_leader(self)])
        if state is None:
            if not self.problem:
                yield Section("state", [f"There is none yet in {self.place}."])
            return
        if state.skipped is not None:
            since = moment(state.skipped.since, now)
            yield Section("SKIPPED", [f"cycles since {since}: {state.skipped.why}"])
        last = state.last_cycle
        yield Section("last cycle", list(_last_cycle(last, now)))
        if last is not None and last.refused_edit:
            yield Section("POLICY", [f"the newest edit is not in force: {last.refused_edit}"])
        if last is not None and last.edit is not None:
            yield Section("policy", [f"edited {moment(last.edit.at, now)}", *last.edit.changes])
        known_at = [f"as the cycle of {moment(last.at, now)} saw it"] if last else []
        for section in StateView(state, now).sections:
            lines = section.lines
            more = known_at if lines and section.title == IN_FLIGHT else []
            yield section._replace(lines=[*lines, *more])


def status_blocks(status: Status) -> Iterator[Block]:
    """The status."""
    yield styled(f"desched · status · {status.target}")
    yield f"{status.place} at {status.asked_at:%Y-%m-%d %H:%M:%S} UTC"
    yield from ("", facts(status.sections))


def pause_line(pause: Pause, now: datetime) -> str:
    """A pause with its end, who started it and why."""
    reason = f": {pause.why}" if pause.why else ""
    return f"{pause} {_end(pause, now)} ({pause_origin(pause, now)}){reason}"


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
    renewed_at = min(lease.renewed_at, now)  # the Lease is read after the time was
    renewed = f"{lease.holder}, renewed {moment(renewed_at, now)}"
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
    if cycle.hold:
        yield _hold(cycle)
    if cycle.not_acting:
        yield f"not acting: {cycle.not_acting}"
    if cycle.unsteered is not None:
        yield describe_unsteered(cycle.unsteered)
    if cycle.overloaded:
        # No further ones are stored.
        least = "at least " * (len(cycle.overloaded) == MOST_NAMES)
        overloaded = least + count(len(cycle.overloaded), "node is", "nodes are")
        yield f"{overloaded} overloaded: {first_names(cycle.overloaded)}"
    else:
        yield "no node is overloaded"
    if cycle.acknowledged_deschedulers:
        yield f"beside desched on purpose: {', '.join(cycle.acknowledged_deschedulers)}"


def _hold(cycle: LastCycle) -> str:
    """Why the cycle evicted nothing; by its name alone if a newer desched wrote it."""
    for reason in HoldReason:
        if reason == cycle.hold:
            return f"held: {describe(reason, cycle.hold_detail)}"
    return f"held: {cycle.hold} ({cycle.hold_detail})"


def _flight(record: EvictionRecord, now: datetime) -> str:
    if record.left_at is None:
        # A report is as of the start of its cycle, which is before its evictions.
        requested = moment(min(record.evicted_at, now), now)
        where = f"is leaving {record.node}, eviction requested {requested}"
    else:
        where = f"left {record.node} {moment(record.left_at, now)}"
    if record.replacement is not None:
        on = f" on {record.landed_on}" if record.landed_on else ""
        then = f"replaced by {record.replacement}{on}"
    else:
        then = f"expected on {record.expected_on}"
    until = f"; judged {_by(record.judged_by, now)}" if record.judged_by else ""
    probe = " (the probe after a pause)" if record.probe else ""
    purpose = "" if record.purpose == RELIEF else f" for {record.purpose}"
    workload = f" of {record.workload}" if record.workload else ""
    return f"{record.pod}{workload} {where}{purpose}, {then}{until}{probe}"


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
