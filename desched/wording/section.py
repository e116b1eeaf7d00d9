"""Headings with lines, and what stands beside them, which each output renders in its own way."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from desched.wording.reasons import sentence_of


class Cell(NamedTuple):
    """A square of a map; `shade` is its colour from 0 to 5, or `unknown`."""

    text: str
    shade: str
    title: str


class CellMap(NamedTuple):
    """Rows of cells under the names of what they lie in; `key` has what some shades mean.

    `name` is unique on a page.
    """

    name: str
    legend: str
    key: Sequence[tuple[str, str]]
    rows: Sequence[tuple[str, Sequence[Cell]]]

    def first(self, most: int) -> "CellMap":
        """The first cells, at most this many."""
        rows = []
        for name, cells in self.rows:
            if most > 0:
                rows.append((name, cells[:most]))
            most -= len(cells)
        return self._replace(rows=rows)

    @property
    def size(self) -> int:
        """The number of its cells."""
        return sum(len(cells) for _, cells in self.rows)


class Section(NamedTuple):
    """A heading with the lines below it, none if there is nothing of it; pages also have a map."""

    title: str
    lines: Sequence[str]
    map: CellMap | None = None


class Member(NamedTuple):
    """A member of a group; `detail` is specific to it, `place` is where it is."""

    name: str
    detail: str = ""
    place: str = ""


class ReasonGroup(NamedTuple):
    """What shares a reason."""

    reason: StrEnum
    members: Sequence[Member]

    @property
    def sentence(self) -> str:
        """What the reason means."""
        return sentence_of(self.reason)


class Tile(NamedTuple):
    """A number with its label; the tone is `good`, `warn` or `bad`, empty without one."""

    number: str
    label: str
    tone: str = ""


class PodAnswer(NamedTuple):
    """What is said of a pod beside rules and places.

    A `verdict` takes the place of what rules and places say. `details` are lines by their heading.
    """

    verdict: str = ""
    notes: Sequence[str] = ()
    details: Mapping[str, tuple[str, ...]] = {}
