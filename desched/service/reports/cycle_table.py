"""The report as a table: overloaded nodes, what moves, what stays and why."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from desched.model.groups import grouped
from desched.model.plan import NodeVerdict, PlannedEviction, Refusal
from desched.model.report import CycleReport, CycleResult, Mode, Outcome, TaintChange
from desched.service.reports.earlier_moves import print_earlier_moves
from desched.service.reports.formatting import count, percent, plain
from desched.service.reports.grouped_list import Member, block, groups
from desched.service.reports.node_table import RESOURCE_NAMES, print_nodes
from desched.service.reports.reason_texts import (
    OTHER_DESCHEDULERS,
    describe,
    sentence_of,
    summary_of,
)

MODE_NAMES = {Mode.DRY_RUN: "dry run", Mode.EVICT: "evicting"}


def print_report(report: CycleReport, console: Console, *, single: bool = False) -> None:
    """Print the whole report; it needs no colour, and 80 columns are enough.

    `single` means that no other cycle follows.
    """
    _print_header(report, console)
    print_nodes(report, console)
    _print_node_reasons(report.plan.nodes, console)
    _print_evictions(report, console)
    _print_soft_taints(report, console)
    _print_refusals(report.plan.refusals, console)
    print_earlier_moves(report, console)
    _print_warnings(report, console)
    for line in summary_of(report, single=single).splitlines():
        console.print(Text(plain(line), style="bold"))


def _print_header(report: CycleReport, console: Console) -> None:
    seen = report.observed
    title = f"desched · {MODE_NAMES[report.mode]} · {plain(report.target)}"
    console.print(Text(title, style="bold"))
    started_at = f"{report.started_at:%Y-%m-%d %H:%M:%S} UTC"
    console.print(Text(f"cycle {report.cycle} at {started_at} · policy {plain(report.policy)}"))
    unresolved = (
        f", {seen.unresolved_series} series that match no known node"
        if seen.unresolved_series
        else ""
    )
    console.print(
        Text(
            f"{count(seen.nodes, 'node')}, {count(seen.pods, 'pod')}, "
            f"{seen.pods_measured} measured{unresolved}"
        )
    )
    console.print()


def _print_node_reasons(verdicts: Iterable[NodeVerdict], console: Console) -> None:
    by_reason = grouped(
        ((type(reason), reason), Member(verdict.node, verdict.detail))
        for verdict in verdicts
        if (reason := verdict.reason) is not None
    )
    if by_reason:
        console.print(Text("\nNodes that are left alone:", style="bold"))
        console.print(groups([(reason, nodes) for (_, reason), nodes in by_reason.items()]))
    console.print()


def _print_evictions(report: CycleReport, console: Console) -> None:
    evictions = report.plan.evictions
    if not evictions:
        return
    verb = "Would evict" if report.mode is Mode.DRY_RUN else "Evicting"
    console.print(Text(f"{verb} {count(len(evictions), 'pod')}:", style="bold"))
    outcomes = {outcome.pod: outcome for outcome in report.outcomes}
    table = Table.grid(padding=(0, 1))
    table.add_column(justify="right", width=4)
    table.add_column(overflow="fold")
    for number, eviction in enumerate(evictions, 1):
        lines = [*_move_lines(eviction), *_outcome_lines(outcomes.get(eviction.pod))]
        title = Text(plain(str(eviction.pod)), style="bold")
        table.add_row(Text(f"{number}."), block(title, lines))
    console.print(table)
    console.print()


def _move_lines(eviction: PlannedEviction) -> Iterable[str]:
    relief = " and ".join(
        f"{percent(part.ratio)} points of {RESOURCE_NAMES[part.resource]}"
        for part in eviction.relief
    )
    yield f"of {eviction.workload}, priority {eviction.priority}, cost {eviction.cost:.1f}"
    yield (
        f"{eviction.node} → {eviction.expected_node} (expected; "
        f"{count(eviction.destinations, 'node has', 'nodes have')} room), takes {relief} away"
    )
    yield f"because {eviction.reason}"
    if eviction.steered:
        yield f"kept off {', '.join(eviction.steered)} by soft taints"
    if eviction.scheduler:
        yield f"placed by {plain(eviction.scheduler)}, possibly on any other node where it fits"


def _outcome_lines(outcome: Outcome | None) -> Iterable[str]:
    if outcome is None:
        return
    for reason in (outcome.verdict, outcome.refusal):
        if reason is not None:
            yield f"{reason}: {sentence_of(reason)}"
    if outcome.detail:
        yield outcome.detail


def _print_soft_taints(report: CycleReport, console: Console) -> None:
    if report.mode is Mode.DRY_RUN:
        reasons: dict[str, str] = {}
        for taint in report.plan.taints:
            reasons.setdefault(taint.node, taint.why)  # several moves may need the same taint
        lines = [f"{each.node} would lose it: {each.why}" for each in report.plan.removed_taints]
        lines += [f"{node} would get it: {why}" for node, why in reasons.items()]
    else:
        lines = [_taint_line(change) for change in report.taints]
    if lines:
        console.print(Text("Soft taints (desched.io/overloaded):", style="bold"))
        for line in lines:
            console.print(Text(plain(f"  {line}")))
        console.print()


def _taint_line(change: TaintChange) -> str:
    if change.done:
        return f"{change.node} {'has' if change.tainted else 'lost'} it: {change.why}"
    verb = "get" if change.tainted else "lose"
    return f"{change.node} did not {verb} it ({change.why}): {change.detail}"


def _print_refusals(refusals: Sequence[Refusal], console: Console) -> None:
    if not refusals:
        return
    stay = count(len(refusals), "pod on overloaded nodes stays", "pods on overloaded nodes stay")
    console.print(Text(f"{stay}:", style="bold"))
    by_reason = grouped((r.reason, Member(str(r.pod), r.detail)) for r in refusals)
    console.print(groups(sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0]))))
    console.print()


def _print_warnings(report: CycleReport, console: Console) -> None:
    """Print what matters beside the plan; the summary covers a plan that must wait."""
    if report.other_deschedulers:
        others = ", ".join(report.other_deschedulers)
        console.print(Text(plain(OTHER_DESCHEDULERS.format(others=others)), style="yellow"))
    if report.not_acting is not None and report.result is not CycleResult.NOT_ACTING:
        why = describe(report.not_acting, report.not_acting_detail)
        console.print(Text(plain(f"Evictions are not allowed now: {why}"), style="yellow"))
