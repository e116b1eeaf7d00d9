"""What a terminal shows of a view: lines, tables, and titles with what is below them."""

import re
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from desched.model.groups import grouped
from desched.wording.formatting import and_more, first_lines, plain
from desched.wording.section import Member, ReasonGroup, Section

Block = RenderableType
"""A part of a view; a string is one line without markup."""

MOST_LINES = 10
"""Lines of a list and rows of a table, unless all of them matter."""

REST = "--output json has all"
_NUMBERS = re.compile(r"[-\d.,/ %()?]*")


def print_blocks(blocks: Iterable[Block], console: Console) -> None:
    """Print each on lines of its own; an empty line is there only before another one."""
    gap = False
    for block in blocks:
        if block == "":
            gap = True
            continue
        if gap:
            console.print()
            gap = False
        console.print(styled(block, "") if isinstance(block, str) else block, crop=False)


def styled(text: str, style: str = "bold") -> Text:
    """A line in a style."""
    return Text(plain(text), style)


def in_one_piece(text: str) -> Text:
    """A line that is not broken where it is long, for editors."""
    return Text(plain(text), no_wrap=True, overflow="ignore")


def section(title: str, *body: Block) -> Iterator[Block]:
    """A title, what belongs to it, and a blank line."""
    yield from (styled(f"{title}:"), *body, "")


def listed(title: str, lines: Iterable[str], mark: str = "") -> Iterator[Block]:
    """A title with the first lines below it, if there are any."""
    if text := first_lines([*lines], MOST_LINES, REST):
        yield from section(title, Text("\n".join(f"  {mark}{plain(line)}" for line in text)))


def table(titles: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> Table:
    """Rows below their titles, numbers on the right; a column without any text is left out."""
    cells = [[c if isinstance(c, Text) else Text(plain(c)) for c in row] for row in rows]
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    shown = [number for number in range(len(titles)) if any(row[number] for row in cells)]
    for number in shown:
        column = [row[number] for row in cells]
        are_numbers = all(_NUMBERS.fullmatch(cell.plain) for cell in column)
        made.add_column(
            Text(plain(titles[number])),
            justify="right" if are_numbers else "left",
            overflow="fold",
        )
    for row in cells:
        made.add_row(*(row[number] for number in shown))
    return made


def grid(rows: Iterable[Sequence[Text]]) -> Table:
    """Rows without titles; only the last column is broken where it is long."""
    made = Table.grid(padding=(0, 1))
    for row in rows:
        for number in range(len(made.columns), len(row)):
            made.add_column(no_wrap=number < len(row) - 1, overflow="fold")
        made.add_row(*row)
    return made


def facts(sections: Iterable[Section]) -> Table:
    """Each title beside its first lines."""
    rows = []
    for each in sections:
        lines = first_lines(each.lines, MOST_LINES, REST) or ["none"]
        mark = Text("•" if len(lines) > 1 else "")
        titles = [styled(each.title), *[Text()] * len(lines)]
        rows += [(titles[i], mark, styled(line, "")) for i, line in enumerate(lines)]
    return grid(rows)


def groups(reason_groups: Iterable[ReasonGroup], most: int | None = MOST_LINES) -> Table:
    """Each reason with its sentence, the number of members and the first of them.

    With None for `most`, all of them.
    """
    rows = []
    for group in reason_groups:
        shown = group.members[:most]
        lines = [*_by_detail(shown), *and_more(len(group.members) - len(shown), REST)]
        title = Text(f"{group.reason}: {group.sentence}")
        rows.append((Text(f"{len(group.members):>4}"), item(title, lines)))
    return grid(rows)


def item(title: str | Text, lines: Iterable[str]) -> Text:
    """A title with indented lines below it."""
    return Text("\n").join(
        [
            styled(title) if isinstance(title, str) else title,
            *(styled(f"  {line}", "dim") for line in lines),
        ]
    )


def _by_detail(members: Iterable[Member]) -> list[str]:
    """One line for each place and detail, with the names that share them."""
    names = grouped(((member.place, member.detail), member.name) for member in members)
    return [
        (f"{place}: " if place else "") + ", ".join(alike) + (f" ({detail})" if detail else "")
        for (place, detail), alike in names.items()
    ]
