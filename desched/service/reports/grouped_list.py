"""Lists of things that share a reason: how many there are, why, and the first few."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from desched.model.groups import grouped
from desched.service.reports.formatting import plain
from desched.service.reports.reason_texts import sentence_of

MOST_EXAMPLES = 10


class Member(NamedTuple):
    """A member of a group; `detail` is specific to it."""

    name: str
    detail: str = ""


def groups(by_reason: Iterable[tuple[StrEnum, Sequence[Member]]]) -> Table:
    """Each reason with its sentence, the number of members and the first of them."""
    return counted((f"{reason}: {sentence_of(reason)}", members) for reason, members in by_reason)


def counted(by_title: Iterable[tuple[str, Sequence[Member]]]) -> Table:
    """Each title with the number of members and the first of them."""
    blocks = []
    for title, members in by_title:
        lines = _by_detail(members[:MOST_EXAMPLES])
        if len(members) > MOST_EXAMPLES:
            lines.append(f"… and {len(members) - MOST_EXAMPLES} more")
        blocks.append((str(len(members)), block(Text(plain(title)), lines)))
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


def block(title: Text, lines: Iterable[str]) -> Text:
    """A title with indented lines below it."""
    return Text("\n").join([title, *(Text(f"  {plain(line)}", style="dim") for line in lines)])


def _by_detail(members: Iterable[Member]) -> list[str]:
    """One line for each detail, with the names that share it."""
    names = grouped((member.detail, member.name) for member in members)
    return [
        ", ".join(alike) + (f" ({detail})" if detail else "") for detail, alike in names.items()
    ]
