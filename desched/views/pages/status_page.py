"""The page of a running service: what it sees, plans and does now; it refreshes itself."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from desched import __version__
from desched.model.report import CycleReport, Mode
from desched.model.state import EvictionRecord
from desched.views.cycle import CycleView
from desched.views.pages.cycle_page import cycle_values
from desched.views.pages.document import TABLES, Html, asset, document
from desched.views.status import StateView
from desched.wording.formatting import moment
from desched.wording.reasons import describe

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

    `leading` is None without leader election. `leader` names the replica that leads, if known.
    `failure` is the last cycle's, if it failed.
    """

    now: datetime
    instance: str
    mode: Mode
    leading: bool | None
    leader: str
    report: CycleReport | None
    failure: FailedCycle | None
    policy: PolicyNews | None


def status_page(status: ServiceStatus) -> Html:
    """The page and the security policy to send with it."""
    report = status.report
    values: dict[str, object] = {
        "title": status.instance,
        "status": status,
        "leading": _TO_LEAD[status.leading],
        "version": __version__,
        "refresh_seconds": REFRESH_SECONDS,
        "cycle": None,
    }
    if report is not None:
        moves = sorted(report.state.evictions, key=lambda record: record.evicted_at, reverse=True)
        values |= cycle_values(CycleView(report), MOST_NODES)
        values |= {
            "moves": [
                (record, moment(record.evicted_at, status.now), _result(record))
                for record in moves[:MOST_MOVES]
            ],
            "moves_left": max(0, len(moves) - MOST_MOVES),
            "resting": StateView(report.state, status.now).resting,
        }
    return document(
        "status.html",
        values,
        scripts=(TABLES, asset("live.js")),
        allow=("connect-src 'self'",),
    )


def _result(record: EvictionRecord) -> str:
    if record.result is not None:
        return describe(record.result, record.waiting_for)
    return "in flight: " + ("the pod is leaving" if record.left_at is None else "the pod has left")
