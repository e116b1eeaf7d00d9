"""The drains that a cycle began and ended."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from desched.model.report import CycleReport
from desched.model.text import shortened
from desched.plugins.gpus.drains.drain import FAILED_ENDS, Drain, DrainPlan, drains_of
from desched.wording.plugin_views import LogEvent


def begun_in(report: CycleReport) -> Sequence[Drain]:
    """The drains that began in this cycle."""
    began = report.started_at
    return [drain for drain in drains_of(report.state) if drain.began_at >= began]


def ended_in(report: CycleReport) -> Sequence[Drain]:
    """The drains that ended in this cycle."""
    began, drains = report.started_at, DrainPlan.of(report.plan.extras).drains
    return [drain for drain in drains if drain.ended_at and drain.ended_at >= began]


def drain_events(report: CycleReport) -> Iterator[LogEvent]:
    """`drain.begun` and `drain.ended`, the latter as a warning if its moves were in vain."""
    for drain in begun_in(report):
        until = f"{drain.until:%Y-%m-%dT%H:%M:%SZ}"
        yield LogEvent("drain.begun", {**_fields(drain), "until": until})
    for drain in ended_in(report):
        if drain.end is not None:
            fields = {**_fields(drain), "end": drain.end.value, "why": shortened(drain.why)}
            yield LogEvent("drain.ended", fields, warning=drain.end in FAILED_ENDS)


def _fields(drain: Drain) -> Mapping[str, Any]:
    nodes, moves = drain.nodes, drain.moves
    return {"demand": str(drain), "gpus": drain.gpus, "nodes": nodes, "moves": moves}
