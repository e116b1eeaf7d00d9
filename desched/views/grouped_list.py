"""Lists of things that share a reason: how many there are, why, and the first few."""

from collections.abc import Iterable

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from desched.model.groups import grouped
from desched.views.cycle import Member, ReasonGroup
from desched.wording.formatting import plain

MOST_EXAMPLES = 10


def groups(reason_groups: Iterable[ReasonGroup], most: int | None = MOST_EXAMPLES) -> Table:
    """Each reason with its sentence, the number of members and the first of them.

    With None for `most`, all of them.
    """
    blocks = []
    for group in reason_groups:
        lines = _by_detail(group.members[:most])
        if most is not None and len(group.members) > most:
            lines.append(f"… and {len(group.members) - most} more")
        title = Text(f"{group.reason}: {group.sentence}")
        blocks.append((str(len(group.members)), block(title, lines)))
    return numbered(blocks)


def numbered(blocks: Iterable[tuple[str, Text]]) -> Table:
    """Each block beside its number."""
    table = Table.grid(padding=(0, 1))
    table.add_column(justify="right", width=4)
    table.add_column(overflow="fold")
    for number, each in blocks:
        table.add_row(number, each)
    return table


def print_section(title: str, body: RenderableType, console: Console) -> None:
    """Print a title, what belongs to it, and a blank line."""
    console.print(Text(title, style="bold"))
    console.print(body)
    console.print()


def print_lines(title: str, lines: Iterable[str], console: Console) -> None:
    """Print a title with indented lines below it, if there are any."""
    if text := "\n".join(f"  {plain(line)}" for line in lines):
        print_section(title, Text(text), console)


def plain_table() -> Table:
    """A table without lines, whose columns are two blanks apart."""
    return Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))


def block(title: Text, lines: Iterable[str]) -> Text:
    """A title with indented lines below it."""
    return Text("\n").join([title, *(Text(f"  {plain(line)}", style="dim") for line in lines)])


def _by_detail(members: Iterable[Member]) -> list[str]:
    """One line for each place and detail, with the names that share them."""
    names = grouped(((member.place, member.detail), member.name) for member in members)
    return [
        (f"{place}: " if place else "") + ", ".join(alike) + (f" ({detail})" if detail else "")
        for (place, detail), alike in names.items()
    ]
