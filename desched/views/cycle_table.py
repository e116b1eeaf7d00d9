"""A cycle in a terminal: overloaded nodes, what moves, what stays and why."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.text import Text

from desched.model.report import CycleReport
from desched.views.cycle import CycleView, EvictionView
from desched.views.formatting import count, plain
from desched.views.grouped_list import (
    MOST_EXAMPLES,
    block,
    groups,
    numbered,
    print_lines,
    print_section,
)
from desched.views.node_table import print_nodes
from desched.views.rendering import ReportFormat, rendered
from desched.views.status import print_sections


class TableView(NamedTuple):
    """Which part of a report to print: see `CycleView`; with `all_pods` each pod that stays."""

    single: bool = False
    node: str = ""
    all_pods: bool = False


WHOLE = TableView()


def render_report(
    report: CycleReport,
    format: ReportFormat,  # noqa: A002  (the word for it)
    view: TableView = WHOLE,
) -> str:
    """The report in one of the formats, ending in a newline; `view` is for the table.

    JSON and YAML have the same structure: nodes are sorted by name, refusals by node and pod,
    evictions and outcomes keep their order.
    """
    plan = report.plan
    in_order = msgspec.structs.replace(
        plan,
        nodes=tuple(sorted(plan.nodes, key=lambda verdict: verdict.node)),
        refusals=tuple(sorted(plan.refusals, key=lambda refusal: (refusal.node, refusal.pod))),
    )
    return rendered(
        msgspec.structs.replace(report, plan=in_order),
        lambda console: print_report(report, console, view),
        format,
    )


def print_report(report: CycleReport, console: Console, view: TableView = WHOLE) -> None:
    """Print the report; it needs no colour, and 80 columns are enough.

    Raises:
        ConfigurationError: the report has no such node.
    """
    cycle = CycleView(report, single=view.single, node=view.node)
    console.print(Text(f"desched · {cycle.mode} · {plain(report.target)}", style="bold"))
    console.print(Text(plain(cycle.policy)))
    console.print(Text(f"{cycle.observed}\n"))
    print_nodes(cycle, console)
    console.print()
    if cycle.left_alone:
        print_section("Nodes that are left alone:", groups(cycle.left_alone), console)
    _print_evictions(cycle, console)
    if not cycle.node:
        print_lines("Soft taints (desched.io/overloaded):", cycle.taints, console)
    if cycle.stays:
        pods = "pod on overloaded nodes stays", "pods on overloaded nodes stay"
        listed = groups(cycle.stays, None if view.all_pods else MOST_EXAMPLES)
        print_section(f"{count(len(cycle.refusals), *pods)}:", listed, console)
    if not cycle.node:
        _print_the_rest(cycle, console)


def _print_evictions(cycle: CycleView, console: Console) -> None:
    if cycle.evictions:
        verb = "Would evict" if cycle.dry_run else "Evicting"
        blocks = [
            (f"{each.number}.", block(Text(plain(str(each.eviction.pod)), style="bold"), lines))
            for each in cycle.evictions
            if (lines := list(_lines(each)))
        ]
        print_section(f"{verb} {count(len(blocks), 'pod')}:", numbered(blocks), console)


def _lines(each: EvictionView) -> Iterator[str]:
    eviction = each.eviction
    yield f"of {eviction.workload}, priority {eviction.priority}, cost {eviction.cost:.1f}"
    room = count(eviction.destinations, "node has", "nodes have")
    yield f"{eviction.node} → {eviction.expected_on}; {room} room"
    takes = f"takes {' and '.join(each.relief)} away" if each.relief else ""
    because = f"because {each.reason}" if each.reason else ""
    if why := " ".join(filter(None, (takes, because))):
        yield why
    yield from each.notes
    yield from each.result


def _print_the_rest(cycle: CycleView, console: Console) -> None:
    """Print what is not about single nodes, and the summary."""
    print_lines("Pending pods without reserved room:", cycle.unreserved, console)
    if cycle.results:
        print_section("Results of earlier evictions:", groups(cycle.results), console)
    if cycle.earlier:
        console.print(Text("Under way, or left alone for now:", style="bold"))
        print_sections(cycle.earlier, console)
        console.print()
    for line in cycle.notes:
        console.print(Text(plain(line)))
    for line in cycle.warnings:
        console.print(Text(plain(line), style="yellow"))
    for line in cycle.summary:
        console.print(Text(plain(line), style="bold"))
