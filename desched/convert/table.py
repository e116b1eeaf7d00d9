"""The notes of `desched policy convert` as a table."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from desched.convert.notes import OF_THE_NEW_POLICY, ConversionNote, Effect
from desched.model.text import on_one_line
from desched.policy_keys.findings import key_path
from desched.views.blocks import Block, grid, styled
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
            yield from (styled(f"{title}:"), grid(map(_row, rows)))
    yield f"{count(len(notes), 'note')}; the policy has them as comments."


def _row(note: ConversionNote) -> Sequence[Text]:
    line = "" if note.effect is Effect.WARNED else f"line {note.place.line}"
    key = _short(note)
    text = styled(f"{key}: " if key else "").append(on_one_line(note.text), style="not bold")
    return Text(f"{line:>7}", "dim"), text


def _short(note: ConversionNote) -> str:
    """The key without the way to the args of its plugin; one that is added is of the new policy."""
    path = note.here if note.effect in OF_THE_NEW_POLICY else note.path
    if _ARGS in path[:-1]:
        path = path[path.index(_ARGS) + 1 :]
    return key_path(path)
