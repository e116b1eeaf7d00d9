"""A cycle in a terminal: overloaded nodes, what moves, what stays and why."""

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from desched.views.cycle import CycleView, EvictionView
from desched.views.grouped_list import (
    MOST_EXAMPLES,
    block,
    groups,
    numbered,
    print_lines,
    print_section,
)
from desched.views.node_table import print_nodes
from desched.views.status import print_sections
from desched.wording.formatting import count, plain
from desched.wording.section import Section


def print_cycle(cycle: CycleView, console: Console) -> None:
    """Print the cycle."""
    console.print(Text(f"desched · {cycle.mode} · {plain(cycle.report.target)}", style="bold"))
    console.print(Text(plain(cycle.policy)))
    console.print(Text(f"{cycle.observed}\n"))
    print_nodes(cycle, console)
    console.print()
    outlooks = Section("", cycle.outlooks).first(MOST_EXAMPLES, "the JSON of the report has all")
    print_lines("The next hour:", outlooks, console)
    if cycle.left_alone:
        print_section("Nodes that are left alone:", groups(cycle.left_alone), console)
    _print_evictions(cycle, console)
    if not cycle.node:
        print_lines("Soft taints (desched.io/overloaded):", cycle.taints, console)
    if cycle.stays:
        pods = "pod on overloaded nodes stays", "pods on overloaded nodes stay"
        listed = groups(cycle.stays, None if cycle.all_pods else MOST_EXAMPLES)
        print_section(f"{count(len(cycle.refusals), *pods)}:", listed, console)
    if not cycle.node:
        _print_the_rest(cycle, console)


def _print_evictions(cycle: CycleView, console: Console) -> None:
    if cycle.evictions:
        verb = "Would evict" if cycle.dry_run else "Evicting"
        blocks = [
            (
                f"{eviction.number}.",
                block(Text(plain(str(eviction.eviction.pod)), style="bold"), lines),
            )
            for eviction in cycle.evictions
            if (lines := list(_lines(eviction)))
        ]
        print_section(f"{verb} {count(len(blocks), 'pod')}:", numbered(blocks), console)


def _lines(view: EvictionView) -> Iterator[str]:
    eviction = view.eviction
    yield f"of {eviction.workload}, priority {eviction.priority}, cost {eviction.cost:.1f}"
    room = count(eviction.destinations, "node has", "nodes have")
    yield f"{eviction.node} → {eviction.expected_on}; {room} room"
    takes = f"takes {' and '.join(view.relief)} away" if view.relief else ""
    yield " ".join(filter(None, (takes, f"because {eviction.reason}")))
    yield from view.notes
    yield from view.result


def _print_the_rest(cycle: CycleView, console: Console) -> None:
    """Print what is not about single nodes, and the summary."""
    print_lines("Pending pods without reserved room:", cycle.unreserved, console)
    for section in cycle.sections:
        lines = section.first(MOST_EXAMPLES, "the JSON of the report has all")
        print_lines(f"{section.title}:", lines, console)
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
