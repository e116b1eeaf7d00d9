"""The report as a table: overloaded nodes, what moves, what stays and why."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from desched.errors import ConfigurationError
from desched.model.groups import grouped
from desched.model.plan import PlannedEviction, Refusal, Unreserved
from desched.model.report import CycleReport, Mode, Outcome, TaintChange
from desched.views.chains import describe_chain
from desched.views.earlier_moves import print_earlier_moves
from desched.views.formatting import count, percent, plain
from desched.views.grouped_list import (
    MOST_EXAMPLES,
    Member,
    block,
    groups,
    numbered,
    print_section,
)
from desched.views.node_table import RESOURCE_NAMES, node_detail, print_nodes
from desched.views.reason_texts import (
    ACKNOWLEDGED_DESCHEDULERS,
    OTHER_DESCHEDULERS,
    UNRESERVED,
    describe_not_acting,
    describe_unsteered,
    sentence_of,
    summary_of,
)

MODE_NAMES = {Mode.DRY_RUN: "dry run", Mode.EVICT: "evicting"}


class TableView(NamedTuple):
    """Which part of a report to print.

    `single` means that no other cycle follows. With `node` only what is about this node is printed,
    with `all_pods` each pod that stays.
    """

    single: bool = False
    node: str = ""
    all_pods: bool = False


WHOLE = TableView()


def print_report(report: CycleReport, console: Console, view: TableView = WHOLE) -> None:
    """Print the report; it needs no colour, and 80 columns are enough.

    Raises:
        ConfigurationError: the report has no such node.
    """
    most = None if view.all_pods else MOST_EXAMPLES
    if view.node:
        report = _about(view.node, report)
        _print_header(report, console)
        print_nodes(report, console)
        _print_node_reasons(report, console)
        _print_evictions(report, console)
        _print_refusals(report.plan.refusals, console, most)
        return
    _print_header(report, console)
    print_nodes(report, console)
    _print_node_reasons(report, console)
    _print_evictions(report, console)
    _print_soft_taints(report, console)
    _print_refusals(report.plan.refusals, console, most)
    _print_unreserved(report.plan.unreserved, console)
    print_earlier_moves(report, console)
    _print_warnings(report, console)
    for line in summary_of(report, single=view.single).splitlines():
        console.print(Text(plain(line), style="bold"))


def _about(node: str, report: CycleReport) -> CycleReport:
    """The report with only this node, its pods, and the likeliest nodes of their replacements."""
    plan = report.plan
    evictions = tuple(each for each in plan.evictions if each.node == node)
    names = {node, *(each.expected_node for each in evictions)}
    nodes = tuple(verdict for verdict in plan.nodes if verdict.node in names)
    if node not in {verdict.node for verdict in nodes}:
        raise ConfigurationError(f'There is no node "{node}" among the {len(plan.nodes)} nodes.')
    refusals = tuple(refusal for refusal in plan.refusals if refusal.node == node)
    return replace(report, plan=replace(plan, nodes=nodes, evictions=evictions, refusals=refusals))


def _print_header(report: CycleReport, console: Console) -> None:
    seen = report.observed
    title = f"desched · {MODE_NAMES[report.mode]} · {plain(report.target)}"
    console.print(Text(title, style="bold"))
    started_at = f"{report.started_at:%Y-%m-%d %H:%M:%S} UTC"
    console.print(Text(f"cycle {report.cycle} at {started_at} · policy {plain(report.policy)}"))
    asked = f" of {seen.pods_asked} asked for" if seen.pods_asked < seen.pods else ""
    sizes = f"{count(seen.nodes, 'node')}, {count(seen.pods, 'pod')}"
    line = f"{sizes}, {seen.pods_measured} measured{asked}"
    if seen.unresolved_series:
        line += f", {seen.unresolved_series} series that match no known node"
    console.print(Text(line))
    console.print()


def _print_node_reasons(report: CycleReport, console: Console) -> None:
    by_reason = grouped(
        ((type(reason), reason), Member(verdict.node, node_detail(verdict, report.started_at)))
        for verdict in report.plan.nodes
        if (reason := verdict.reason) is not None
    )
    console.print()
    if by_reason:
        listed = groups((reason, nodes) for (_, reason), nodes in by_reason.items())
        print_section("Nodes that are left alone:", listed, console)


def _print_evictions(report: CycleReport, console: Console) -> None:
    evictions = report.plan.evictions
    if not evictions:
        return
    verb = "Would evict" if report.mode is Mode.DRY_RUN else "Evicting"
    outcomes = {outcome.pod: outcome for outcome in report.outcomes}
    blocks = []
    for number, eviction in enumerate(evictions, 1):
        lines = [*_move_lines(eviction), *_outcome_lines(outcomes.get(eviction.pod))]
        title = Text(plain(str(eviction.pod)), style="bold")
        blocks.append((f"{number}.", block(title, lines)))
    print_section(f"{verb} {count(len(evictions), 'pod')}:", numbered(blocks), console)


def _move_lines(eviction: PlannedEviction) -> Iterable[str]:
    relief = " and ".join(
        f"{percent(part.ratio)} points of {RESOURCE_NAMES[part.resource]}"
        for part in eviction.relief
    )
    yield f"of {eviction.workload}, priority {eviction.priority}, cost {eviction.cost:.1f}"
    room = count(eviction.destinations, "node has", "nodes have")
    yield f"{eviction.node} → {eviction.expected_on}; {room} room"
    takes_away = f"takes {relief} away" if relief else ""
    because = "" if eviction.makes_room else f"because {eviction.reason}"
    if why := " ".join(filter(None, (takes_away, because))):
        yield why
    if eviction.chain is not None:
        yield f"chain: {describe_chain(eviction.chain)}"
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
    if lines := list(taint_lines(report)):
        text = Text("\n".join(plain(f"  {line}") for line in lines))
        print_section("Soft taints (desched.io/overloaded):", text, console)


def taint_lines(report: CycleReport) -> Iterator[str]:
    """What happened to the soft taints; in a dry run, what would happen."""
    if report.mode is not Mode.DRY_RUN:
        yield from map(_taint_line, report.taints)
        return
    for removal in report.plan.removed_taints:
        yield f"{removal.node} would lose it: {removal.why}"
    reasons: dict[str, str] = {}
    for taint in report.plan.taints:
        reasons.setdefault(taint.node, taint.why)  # several moves may need the same taint
    for node, why in reasons.items():
        yield f"{node} would get it: {why}"


def _taint_line(change: TaintChange) -> str:
    if change.done:
        return f"{change.node} {'has' if change.tainted else 'lost'} it: {change.why}"
    verb = "get" if change.tainted else "lose"
    return f"{change.node} did not {verb} it ({change.why}): {change.detail}"


def _print_refusals(refusals: Sequence[Refusal], console: Console, most: int | None) -> None:
    if not refusals:
        return
    stay = count(len(refusals), "pod on overloaded nodes stays", "pods on overloaded nodes stay")
    by_reason = grouped((r.reason, Member(str(r.pod), r.detail, r.node)) for r in refusals)
    most_first = sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0]))
    print_section(f"{stay}:", groups(most_first, most), console)


def _print_unreserved(unreserved: Sequence[Unreserved], console: Console) -> None:
    lines = [
        f"  {count(each.pods, 'pod')} of namespace {each.namespace} ({each.reason.value}): "
        f"{UNRESERVED[each.reason.value]}"
        for each in unreserved
    ]
    if lines:
        text = Text("\n".join(map(plain, lines)))
        print_section("Pending pods without reserved room:", text, console)


def _print_warnings(report: CycleReport, console: Console) -> None:
    """Print what matters beside the plan; the summary covers a plan that must wait."""
    if report.other_deschedulers:
        others = ", ".join(report.other_deschedulers)
        console.print(Text(plain(OTHER_DESCHEDULERS.format(others=others)), style="yellow"))
    if report.acknowledged_deschedulers:
        beside = ", ".join(report.acknowledged_deschedulers)
        console.print(Text(plain(ACKNOWLEDGED_DESCHEDULERS.format(others=beside))))
    if report.plan.unsteered is not None:
        console.print(Text(describe_unsteered(report.plan.unsteered), style="yellow"))
    if why := describe_not_acting(report):
        console.print(Text(plain(why), style="yellow"))
