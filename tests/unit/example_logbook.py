"""Logbooks to make reviews from: reports of cycles, five minutes apart."""

from datetime import timedelta

from msgspec.structs import replace

from desched.history.logbook import Logbook
from desched.history.logged_cycle import entry_of
from desched.history.steps import updated
from desched.model.plan import NodeClass, NodeVerdict
from desched.model.report import CycleReport, CycleResult, Mode
from tests.builders import pressure
from tests.unit.service.example_reports import EVICTION, REPORT, STARTED_AT

CYCLE = timedelta(minutes=5)
GAP_SECONDS = 600.0


def dry_run(number: int, *, ratio: float = 0.9, planned: bool = True, every=CYCLE) -> CycleReport:
    """The cycle with this number; te3 has this load, te5 is idle, and web-1 would leave te3."""
    hot = NodeClass.OVERLOADED if ratio > 0.8 else NodeClass.BALANCED
    nodes = (
        NodeVerdict("te3", hot, (pressure(ratio),)),
        NodeVerdict("te5", NodeClass.UNDERLOADED, (pressure(0.1),)),
    )
    evictions = (EVICTION,) if planned and hot is NodeClass.OVERLOADED else ()
    return replace(
        REPORT,
        started_at=STARTED_AT + number * every,
        mode=Mode.DRY_RUN,
        result=CycleResult.PLANNED if evictions else CycleResult.NOTHING_MOVABLE,
        plan=replace(REPORT.plan, nodes=nodes, evictions=evictions),
        outcomes=(),
    )


def logbook(*reports: CycleReport, book: Logbook | None = None) -> Logbook:
    """The logbook of these cycles, each written by itself."""
    for report in reports:
        book = updated(book, [entry_of(report)], GAP_SECONDS)
    assert book is not None
    return book
