"""The notes of `desched policy convert` as a table."""

from collections.abc import Iterable, Iterator, Sequence

from rich.table import Table
from rich.text import Text

from desched.convert.notes import OF_THE_NEW_POLICY, ConversionNote, Effect
from desched.model.text import on_one_line
from desched.policy_keys.findings import key_path
from desched.views.blocks import Block, styled
from desched.wording.formatting import count

_TITLES = {
    Effect.HELD: "Nothing is evicted until you have settled",
    Effect.CHANGED: "Other meaning or form here",
    Effect.DROPPED: "Left out",
    Effect.ADDED: "Added",
    Effect.WARNED: "Worth knowing of the new policy",
}
_ARGS = "args"


def note_blocks(notes: Sequence[ConversionNote]) -> Iterator[Block]:
    """Each note with the line and the key of the original, by what happened to the key."""
    for effect, title in _TITLES.items():
        rows = [note for note in notes if note.effect is effect]
        if rows:
            yield from (styled(f"{title}:"), _table(rows))
    yield f"{count(len(notes), 'note')}; the policy has them as comments."


def _table(notes: Iterable[ConversionNote]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
    table.add_column(justify="right", style="dim")
    table.add_column(overflow="fold", ratio=1)
    for note in notes:
        key = _short(note)
        text = Text(on_one_line(f"{key}: " if key else ""), style="bold")
        line = "" if note.effect is Effect.WARNED else f"line {note.place.line}"
        table.add_row(line, text.append(on_one_line(note.text), style="not bold"))
    return table


def _short(note: ConversionNote) -> str:
    """The key without the way to the args of its plugin; one that is added is of the new policy."""
    path = note.here if note.effect in OF_THE_NEW_POLICY else note.path
    if _ARGS in path[:-1]:
        path = path[path.index(_ARGS) + 1 :]
    return key_path(path)
