"""A cycle in a terminal: overloaded nodes, what moves, what stays and why."""

from collections.abc import Iterator

from rich.text import Text

from desched.views.blocks import (
    MOST_LINES,
    Block,
    facts,
    grid,
    groups,
    item,
    listed,
    section,
    styled,
)
from desched.views.cycle import CycleView, EvictionView
from desched.views.node_table import NodeTable
from desched.wording.formatting import count


def cycle_blocks(cycle: CycleView) -> Iterator[Block]:
    """The cycle; of one node, only what is about that node."""
    yield styled(f"desched · {cycle.mode} · {cycle.report.target}")
    yield from (cycle.policy, cycle.observed, "", NodeTable(cycle), "")
    if cycle.left_alone:
        yield from section("Nodes that are left alone", groups(cycle.left_alone))
    if cycle.evictions:
        verb = "Would evict" if cycle.dry_run else "Evicting"
        rows = (
            (Text(f"{view.number:>3}."), item(str(view.eviction.pod), _lines(view)))
            for view in cycle.evictions
        )
        yield from section(f"{verb} {count(len(cycle.evictions), 'pod')}", grid(rows))
    if cycle.stays:
        pods = "pod on overloaded nodes stays", "pods on overloaded nodes stay"
        members = groups(cycle.stays, None if cycle.all_pods else MOST_LINES)
        yield from section(count(len(cycle.refusals), *pods), members)
    for each in cycle.sections:
        yield from listed(each.title, each.lines)
    if not cycle.node:
        yield from _the_rest(cycle)


def _lines(view: EvictionView) -> Iterator[str]:
    eviction = view.eviction
    yield f"of {eviction.workload}, priority {eviction.priority}, cost {eviction.cost:.1f}"
    room = count(eviction.destinations, "node has", "nodes have")
    yield f"{eviction.node} → {eviction.expected_on}; {room} room"
    takes = f"takes {' and '.join(view.relief)} away" if view.relief else ""
    yield " ".join(filter(None, (takes, f"because {eviction.reason}")))
    yield from view.notes
    yield from view.result


def _the_rest(cycle: CycleView) -> Iterator[Block]:
    """What became of earlier moves, and the summary."""
    if cycle.results:
        yield from section("Results of earlier evictions", groups(cycle.results))
    if cycle.earlier:
        yield from section("Under way, or left alone for now", facts(cycle.earlier))
    yield from cycle.notes
    yield from (styled(line, "yellow") for line in cycle.warnings)
    yield from map(styled, cycle.summary)
