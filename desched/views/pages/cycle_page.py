"""The report of a cycle as a page: what it saw, what moves, what stays and why."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from desched.model.groups import grouped
from desched.model.plan import NodeClass, PlannedEviction, RefusalReason
from desched.model.report import CycleReport, CycleResult, EvictionVerdict, Mode, Outcome
from desched.views.chains import describe_chain
from desched.views.cycle_table import MODE_NAMES, taint_lines
from desched.views.formatting import count, first_names, percent
from desched.views.node_table import RESOURCE_NAMES
from desched.views.pages.document import document
from desched.views.pages.node_rows import node_rows
from desched.views.reason_texts import (
    ACKNOWLEDGED_DESCHEDULERS,
    OTHER_DESCHEDULERS,
    UNRESERVED,
    describe,
    describe_not_acting,
    describe_unsteered,
    sentence_of,
    summary_of,
)
from desched.views.status import Section, Status, sections

MOST_NODES = 1_000
MOST_REFUSALS = 2_000
"""Rows of a table, so that a page of a large cluster stays small; the JSON has them all."""

MOST_STEERED = 3
"""Names of nodes with a soft taint, in one row."""


class EvictionRow(NamedTuple):
    """A planned eviction; `relief_points` is the relief of the resource that it relieves most."""

    number: int
    pod: str
    workload: str
    node: str
    expected_on: str
    relief: str
    relief_points: float
    landing_risk: float
    cost: float
    why: Sequence[str]
    outcome: str


class RefusalGroup(NamedTuple):
    """A reason, and how many pods stay because of it."""

    reason: str
    sentence: str
    pods: int


class RefusalRow(NamedTuple):
    """A pod that stays."""

    pod: str
    node: str
    reason: str
    detail: str


def cycle_page(report: CycleReport, *, single: bool = False) -> str:
    """The page; `single` means that no other cycle follows."""
    return document(
        "cycle.html", {"title": _title(report), **cycle_values(report, single=single)}
    ).text


def cycle_values(
    report: CycleReport,
    *,
    single: bool = False,
    most_nodes: int = MOST_NODES,
    most_refusals: int = MOST_REFUSALS,
) -> Mapping[str, object]:
    """What the templates show of a report."""
    refusals = sorted(report.plan.refusals, key=lambda refusal: (refusal.node, refusal.pod))
    return {
        "report": report,
        "mode": MODE_NAMES[report.mode],
        "summary": summary_of(report, single=single).splitlines(),
        "tone": _tone(report),
        "warnings": list(_warnings(report)),
        "notes": list(_notes(report)),
        "tiles": list(_tiles(report)),
        "nodes": node_rows(report, most_nodes),
        "evictions": list(_evictions(report)),
        "refusal_groups": refusal_groups([refusal.reason for refusal in refusals]),
        "refusals": [
            RefusalRow(str(each.pod), each.node, each.reason.value, each.detail)
            for each in refusals[:most_refusals]
        ],
        "refusals_left": max(0, len(refusals) - most_refusals),
        "taints": list(taint_lines(report)),
        "unreserved": [
            f"{count(each.pods, 'pod')} of namespace {each.namespace} ({each.reason.value}): "
            f"{UNRESERVED[each.reason.value]}"
            for each in report.plan.unreserved
        ],
        "earlier": list(_earlier(report)),
    }


def refusal_groups(reasons: Sequence[RefusalReason]) -> list[RefusalGroup]:
    """The reasons with their numbers, the most frequent first."""
    by_reason = grouped((reason, reason) for reason in reasons)
    ranked = sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0]))
    return [RefusalGroup(each.value, sentence_of(each), len(pods)) for each, pods in ranked]


def _title(report: CycleReport) -> str:
    what = "Plan" if report.mode is Mode.DRY_RUN else "Cycle"
    return f"{what} for {report.target}"


def _tone(report: CycleReport) -> str:
    match report.result:
        case CycleResult.HELD | CycleResult.STOPPED | CycleResult.NOT_EVICTED:
            return "bad"
        case CycleResult.NOTHING_TO_DO:
            return "good"
        case _:
            return "plain"


def _warnings(report: CycleReport) -> Iterator[str]:
    if report.other_deschedulers:
        yield OTHER_DESCHEDULERS.format(others=", ".join(report.other_deschedulers))
    if report.plan.unsteered is not None:
        yield describe_unsteered(report.plan.unsteered)
    if why := describe_not_acting(report):
        yield why


def _notes(report: CycleReport) -> Iterator[str]:
    """What is worth knowing and needs no attention."""
    if report.acknowledged_deschedulers:
        beside = ", ".join(report.acknowledged_deschedulers)
        yield ACKNOWLEDGED_DESCHEDULERS.format(others=beside)


def _tiles(report: CycleReport) -> Iterator[tuple[str, str, str]]:
    """Numbers with their labels, and a tone for those that need attention."""
    classes = [verdict.node_class for verdict in report.plan.nodes]
    overloaded = classes.count(NodeClass.OVERLOADED)
    unknown = classes.count(NodeClass.UNKNOWN)
    yield str(report.observed.nodes), "nodes", ""
    yield str(overloaded), "overloaded", "bad" if overloaded else "good"
    if unknown:
        yield str(unknown), "with unknown load", "warn"
    yield str(len(report.plan.evictions)), "evictions planned", ""
    yield str(len(report.plan.refusals)), "pods on overloaded nodes stay", ""
    if report.state.in_flight:
        yield str(len(report.state.in_flight)), "evictions in flight", ""


def _evictions(report: CycleReport) -> Iterator[EvictionRow]:
    outcomes = {outcome.pod: outcome for outcome in report.outcomes}
    for number, eviction in enumerate(report.plan.evictions, 1):
        outcome = outcomes.get(eviction.pod)
        yield EvictionRow(
            number,
            str(eviction.pod),
            eviction.workload,
            eviction.node,
            eviction.expected_on,
            ", ".join(f"{percent(r.ratio)} {RESOURCE_NAMES[r.resource]}" for r in eviction.relief),
            max((r.ratio * 100 for r in eviction.relief), default=0.0),
            eviction.landing_risk,
            eviction.cost,
            list(_why(eviction)),
            _outcome(outcome) if outcome else "",
        )


def _outcome(outcome: Outcome) -> str:
    """What came of it; what went as planned needs no sentence."""
    if outcome.verdict is EvictionVerdict.EVICTED:
        return "evicted"
    return describe(outcome.verdict, outcome.detail)


def _why(eviction: PlannedEviction) -> Iterator[str]:
    if not eviction.makes_room:
        yield eviction.reason
    if eviction.chain is not None:
        yield f"chain: {describe_chain(eviction.chain)}"
    if eviction.steered:
        yield f"kept off {first_names(eviction.steered, MOST_STEERED)} by soft taints"
    if eviction.scheduler:
        yield f"placed by {eviction.scheduler}, possibly on any other node where it fits"


def _earlier(report: CycleReport) -> Iterator[Section]:
    """What the state says of earlier moves; a part about which there is nothing is left out."""
    status = Status(report.started_at, report.target, "", report.state)
    nothing = {"none", "no eviction", "no landing in the last 24 h"}
    for section in sections(status):
        if section.title in {"leader", "last cycle", "state"}:
            continue
        if set(section.lines) - nothing:
            yield section
