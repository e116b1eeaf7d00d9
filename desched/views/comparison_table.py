"""A comparison in a terminal: the figures, then nodes, workloads and reasons."""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

from rich.console import Console, JustifyMethod
from rich.text import Text

from desched.views.comparison import Comparison
from desched.views.grouped_list import plain_table, print_lines
from desched.wording.formatting import plain
from desched.wording.reasons import sentence_of

MOST_NODES = 20
MOST_ROWS = 10


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print the comparison, in each table the most important first."""
    names = [timeline.name for timeline in comparison.timelines]
    console.print(Text(f"desched · {plain(comparison.title)}", style="bold"))
    for line in comparison.about:
        console.print(Text(plain(line)))
    console.print()
    for line in comparison.summary:
        console.print(Text(plain(line), style="bold"))
    console.print()
    _print_table(
        ("", *names), ((figure.label, *figure.texts) for figure in comparison.figures), console
    )
    console.print()
    _print_nodes(comparison, console)
    if comparison.workloads:
        workloads = [(workload.label, *workload.texts) for workload in comparison.workloads]
        console.print(Text("Evictions by workload:", style="bold"))
        _print_table(("Workload", *names), workloads, console, MOST_ROWS)
        console.print()
    for title, number, rows in _reasons(comparison):
        console.print(Text(plain(title), style="bold"))
        heads = (number, "Reason", "Meaning")
        _print_table(heads, rows, console, MOST_ROWS, begins_with_number=True)
        console.print()
    for title, lines in comparison.notes:
        print_lines(f"{title}:", (f"• {line}" for line in lines), console)


def _print_nodes(comparison: Comparison, console: Console) -> None:
    """Print the nodes that were overloaded, or from which a pod moved."""
    columns = [column for column in comparison.columns if not column.wide]
    counted = [column for column in columns if not column.in_percent]
    rows = [row for row in comparison.order if any(each.values[row] for each in counted)]
    if not rows:
        console.print(Text("No node is overloaded, and nothing moves.\n"))
        return
    nodes = comparison.timelines[0].nodes
    cells = ((nodes[row], *(column.text(row) for column in columns)) for row in rows)
    console.print(Text("Nodes with the most overload:", style="bold"))
    _print_table(("Node", *(column.label for column in columns)), [*cells], console, MOST_NODES)
    console.print()


def _reasons(comparison: Comparison) -> Iterator[tuple[str, str, Sequence[Sequence[str]]]]:
    """Why cycles evicted nothing, and why pods stayed, with the title of the number."""
    for timeline in comparison.timelines:
        of = f" · {timeline.name}" if len(comparison.timelines) > 1 else ""
        if timeline.idle:
            title = f"Cycles that evicted nothing although nodes were overloaded{of}:"
            yield title, "Cycles", [_reason(total.cycles, total.reason) for total in timeline.idle]
        if timeline.refusals:
            title = f"Why other pods on overloaded nodes stayed{of}:"
            yield title, "Pods", [_reason(total.pods, total.reason) for total in timeline.refusals]


def _reason(number: int, reason: StrEnum) -> Sequence[str]:
    return str(number), reason.value, sentence_of(reason)


def _print_table(
    titles: Sequence[str],
    rows: Iterable[Sequence[str]],
    console: Console,
    most: int | None = None,
    *,
    begins_with_number: bool = False,
) -> None:
    """Print the first rows: a name with numbers, or a number with texts."""
    listed = list(rows)
    table = plain_table()
    first = min(console.width // 3, max(len(row[0]) for row in listed))
    for position, title in enumerate(titles):
        is_number = (position == 0) is begins_with_number
        justify: JustifyMethod = "right" if is_number else "left"
        least = 0 if position else first
        table.add_column(Text(plain(title)), justify=justify, overflow="fold", min_width=least)
    for row in listed[:most]:
        table.add_row(*(Text(plain(cell)) for cell in row))
    console.print(table)
    if most is not None and len(listed) > most:
        console.print(Text(f"… and {len(listed) - most} more; --output json has all"))
