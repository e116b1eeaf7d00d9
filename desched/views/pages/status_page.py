"""The page of a running service: what it sees, plans and does now; it refreshes itself."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from desched import __version__
from desched.model.report import CycleReport, Mode
from desched.model.state import EvictionRecord
from desched.views.cycle_table import MODE_NAMES
from desched.views.formatting import moment
from desched.views.pages.cycle_page import cycle_values
from desched.views.pages.document import TABLES, Html, asset, document
from desched.views.reason_texts import sentence_of
from desched.views.status import Section, Status, sections

MOST_NODES = 200
MOST_MOVES = 200
REFRESH_SECONDS = 15

_TO_LEAD: Mapping[bool | None, str] = {
    None: "no leader election",
    True: "leads",
    False: "on standby",
}


class FailedCycle(NamedTuple):
    """A cycle that ended without a report."""

    at: datetime
    why: str


class PolicyNews(NamedTuple):
    """The policy file in force, what is wrong with it, and what the last edit changed.

    `changed_at` is None if this process has seen no edit.
    """

    source: str
    warnings: Sequence[str]
    problem: str
    changed_at: datetime | None = None
    changes: Sequence[str] = ()


class ServiceStatus(NamedTuple):
    """What a replica knows of itself.

    `leading` is None without leader election. `failure` is the last cycle's, if it failed.
    """

    now: datetime
    instance: str
    mode: Mode
    leading: bool | None
    report: CycleReport | None
    failure: FailedCycle | None
    policy: PolicyNews | None


class MoveRow(NamedTuple):
    """An eviction that was requested, and what has come of it so far."""

    pod: str
    workload: str
    node: str
    expected_on: str
    landed_on: str
    evicted: str
    evicted_at: datetime
    result: str


def status_page(status: ServiceStatus) -> Html:
    """The page and the security policy to send with it."""
    report = status.report
    values: dict[str, object] = {
        "title": f"{status.instance}",
        "status": status,
        "mode": MODE_NAMES[status.mode],
        "leading": _TO_LEAD[status.leading],
        "version": __version__,
        "refresh_seconds": REFRESH_SECONDS,
        "report": report,
    }
    if report is not None:
        values |= cycle_values(report, most_nodes=MOST_NODES, most_refusals=0)
        values |= {
            "moves": list(_moves(report, status.now)),
            "moves_left": max(0, len(report.state.evictions) - MOST_MOVES),
            "now": list(_now(report, status.now)),
        }
    return document(
        "status.html",
        values,
        scripts=(TABLES, asset("live.js")),
        allow=("connect-src 'self'",),
    )


def _moves(report: CycleReport, now: datetime) -> Iterator[MoveRow]:
    """The evictions in the state, the newest first."""
    for record in sorted(report.state.evictions, key=lambda r: r.evicted_at, reverse=True)[
        :MOST_MOVES
    ]:
        yield MoveRow(
            str(record.pod),
            record.workload,
            record.node,
            record.expected_on,
            record.landed_on,
            moment(record.evicted_at, now),
            record.evicted_at,
            _result(record),
        )


def _result(record: EvictionRecord) -> str:
    if record.result is not None:
        return sentence_of(record.result)
    return "in flight: " + ("the pod is leaving" if record.left_at is None else "the pod has left")


def _now(report: CycleReport, now: datetime) -> Iterator[Section]:
    """What rests and why, and how good forecasts are; the rest has parts of its own."""
    status = Status(now, report.target, "", report.state)
    shown = {"leader", "last cycle", "in flight"}
    return (each for each in sections(status) if each.title not in shown)
