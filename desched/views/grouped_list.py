"""Lists of things that share a reason: how many there are, why, and the first few."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from desched.model.groups import grouped
from desched.views.formatting import plain
from desched.views.reason_texts import sentence_of

MOST_EXAMPLES = 10


class Member(NamedTuple):
    """A member of a group; `detail` is specific to it, `place` is where it is."""

    name: str
    detail: str = ""
    place: str = ""


def groups(
    by_reason: Iterable[tuple[StrEnum, Sequence[Member]]], most: int | None = MOST_EXAMPLES
) -> Table:
    """Each reason with its sentence, the number of members and the first of them."""
    titled = ((f"{reason}: {sentence_of(reason)}", members) for reason, members in by_reason)
    return counted(titled, most)


def counted(
    by_title: Iterable[tuple[str, Sequence[Member]]], most: int | None = MOST_EXAMPLES
) -> Table:
    """Each title with the number of members and the first of them, all if `most` is None."""
    blocks = []
    for title, members in by_title:
        lines = _by_detail(members[:most])
        if most is not None and len(members) > most:
            lines.append(f"… and {len(members) - most} more")
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
    """One line for each place and detail, with the names that share them."""
    names = grouped(((member.place, member.detail), member.name) for member in members)
    return [
        (f"{place}: " if place else "") + ", ".join(alike) + (f" ({detail})" if detail else "")
        for (place, detail), alike in names.items()
    ]
