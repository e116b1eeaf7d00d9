"""The tables of faults.md, which the tests write and compare with what they see."""

import os
from collections.abc import Sequence
from difflib import unified_diff
from pathlib import Path

from tests.stored_text import WRITE_VARIABLE

DOCUMENT = Path(__file__).parent / "faults.md"
_END = "<!-- end -->"


class FaultTable:
    """What one test module found, a row for each case, in the section between two comments.

    Rows hold nothing that differs from run to run. The tests of a module `add` theirs; its last
    test calls `check`, so that a run of some tests alone compares nothing.
    """

    def __init__(self, section: str, columns: Sequence[str], module: str) -> None:
        self._begin = f"<!-- {section} -->"
        self._columns = columns
        self._module = module
        self._rows: list[Sequence[str]] = []

    def add(self, *cells: str) -> None:
        """One more row, a cell for each column."""
        assert len(cells) == len(self._columns), cells
        self._rows.append(cells)

    def check(self) -> None:
        """The document has exactly these rows; it is written if the environment asks for that."""
        text = DOCUMENT.read_text(encoding="utf-8")
        before, begin, rest = text.partition(f"{self._begin}\n")
        found, end, after = rest.partition(_END)
        assert begin, f"{DOCUMENT} has no section from {self._begin}"
        wanted = self._markdown()
        if os.environ.get(WRITE_VARIABLE):
            DOCUMENT.write_text(f"{before}{begin}{wanted}{end}{after}", encoding="utf-8")
            return
        changes = unified_diff(found.splitlines(), wanted.splitlines(), "document", "run", n=0)
        assert found == wanted, (
            f"{DOCUMENT} says otherwise; if what the run found is right, write it with "
            f"`{WRITE_VARIABLE}=1 .venv/bin/python -m pytest {self._module}`\n" + "\n".join(changes)
        )

    def _markdown(self) -> str:
        lines = [self._columns, ["---"] * len(self._columns), *self._rows]
        return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", r"\|")
