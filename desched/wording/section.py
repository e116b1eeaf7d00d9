"""A heading with lines, which each output renders in its own way."""

from collections.abc import Sequence
from typing import NamedTuple


class Section(NamedTuple):
    """A heading with the lines below it, none if there is nothing of it."""

    title: str
    lines: Sequence[str]

    def first(self, most: int, rest: str) -> Sequence[str]:
        """The first lines; `rest` is a hint at where the others are."""
        more = len(self.lines) - most
        return [*self.lines[:most], *([f"… and {more} more; {rest}"] if more > 0 else [])]
