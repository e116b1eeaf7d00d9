"""A comparison in a terminal: the figures, then nodes, workloads and reasons."""

from collections.abc import Iterator, Sequence
from enum import StrEnum

from desched.views.blocks import MOST_LINES, REST, Block, listed, section, styled, table
from desched.views.comparison import Comparison
from desched.wording.formatting import and_more
from desched.wording.reasons import sentence_of

MOST_NODES = 20


def comparison_blocks(comparison: Comparison) -> Iterator[Block]:
    """The comparison, in each table the most important first."""
    names = [timeline.name for timeline in comparison.timelines]
    yield styled(f"desched · {comparison.title}")
    yield from (*comparison.about, "")
    yield from map(styled, comparison.summary)
    yield ""
    yield table(("", *names), [(figure.label, *figure.texts) for figure in comparison.figures])
    yield ""
    yield from _nodes(comparison)
    if comparison.workloads:
        workloads = [(workload.label, *workload.texts) for workload in comparison.workloads]
        yield from _section("Evictions by workload", ("Workload", *names), workloads)
    for title, number, rows in _reasons(comparison):
        yield from _section(title, (number, "Reason", "Meaning"), rows)
    for each in comparison.notes:
        yield from listed(each.title, each.lines, "• ")


def _nodes(comparison: Comparison) -> Iterator[Block]:
    """The nodes that were overloaded, or from which a pod moved."""
    columns = [column for column in comparison.columns if not column.wide]
    counted = [column for column in columns if not column.in_percent]
    rows = [row for row in comparison.order if any(each.values[row] for each in counted)]
    if not rows:
        yield from ("No node is overloaded, and nothing moves.", "")
        return
    nodes = comparison.timelines[0].nodes
    cells = [(nodes[row], *(column.text(row) for column in columns)) for row in rows]
    titles = ("Node", *(column.label for column in columns))
    yield from _section("Nodes with the most overload", titles, cells, MOST_NODES)


def _section(
    title: str, titles: Sequence[str], rows: Sequence[Sequence[str]], most: int = MOST_LINES
) -> Iterator[Block]:
    yield from section(title, table(titles, rows[:most]), *and_more(len(rows) - most, REST))


def _reasons(comparison: Comparison) -> Iterator[tuple[str, str, Sequence[Sequence[str]]]]:
    """Why cycles evicted nothing, and why pods stayed, with the title of the number."""
    for timeline in comparison.timelines:
        of = f" · {timeline.name}" if len(comparison.timelines) > 1 else ""
        if timeline.idle:
            title = f"Cycles that evicted nothing although nodes were overloaded{of}"
            yield title, "Cycles", [_reason(total.cycles, total.reason) for total in timeline.idle]
        if timeline.refusals:
            title = f"Why other pods on overloaded nodes stayed{of}"
            yield title, "Pods", [_reason(total.pods, total.reason) for total in timeline.refusals]


def _reason(number: int, reason: StrEnum) -> Sequence[str]:
    return str(number), reason.value, sentence_of(reason)
