"""Labels and selectors that find each other without comparing every one with every other."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Generic, TypeVar

from desched.model.selectors import LabelSelector, Operator

Label = tuple[str, str]
T = TypeVar("T")

MOST_LOOKED_AT = 16
"""Of the entries of `LabelIndex`, without their table."""


def asked_for(selector: LabelSelector) -> Sequence[Label] | None:
    """Labels of which everything that the selector selects has one; None if it asks for none."""
    for requirement in selector.requirements:
        if requirement.operator is Operator.IN:
            return [(requirement.key, value) for value in dict.fromkeys(requirement.values)]
    return None


class SelectorIndex(Generic[T]):
    """Entries with a selector each, found by the labels that may be selected."""

    def __init__(self) -> None:
        self._by_label: dict[Label | None, list[T]] = {}

    def add(self, selector: LabelSelector, entry: T) -> None:
        """One more entry."""
        asked = asked_for(selector)
        for label in (None,) if asked is None else asked:
            self._by_label.setdefault(label, []).append(entry)

    def about(self, labels: Mapping[str, str]) -> Iterable[T]:
        """All entries whose selector selects these labels, and perhaps others."""
        if not self._by_label:
            return ()
        keys = (*labels.items(), None)
        return chain.from_iterable(self._by_label.get(key, ()) for key in keys)


class LabelIndex(Generic[T]):
    """Entries with labels each, found by a selector; a value that `having` makes a longer one of.

    The last few are looked at one by one, so that not each new entry makes a new table.
    """

    def __init__(
        self,
        tabled: tuple[T, ...] = (),
        by_label: Mapping[Label, tuple[T, ...]] | None = None,
        last: tuple[tuple[Mapping[str, str], T], ...] = (),
    ) -> None:
        self._tabled = tabled
        self._by_label = by_label or {}
        self._last = last

    @property
    def entries(self) -> tuple[T, ...]:
        """All of them in their order."""
        return (*self._tabled, *(entry for _, entry in self._last))

    def having(self, labels: Mapping[str, str], entry: T) -> "LabelIndex[T]":
        """The same with one more entry at the end."""
        last = (*self._last, (labels, entry))
        if len(last) <= MOST_LOOKED_AT:
            return LabelIndex(self._tabled, self._by_label, last)
        by_label = dict(self._by_label)
        for those, each in last:
            for label in those.items():
                by_label[label] = (*by_label.get(label, ()), each)
        return LabelIndex((*self.entries, entry), by_label)

    def selected(self, selector: LabelSelector) -> Iterable[T]:
        """All entries whose labels the selector selects, and perhaps others."""
        asked = asked_for(selector)
        if asked is None:
            return self.entries
        last = (e for those, e in self._last if any(those.get(k) == v for k, v in asked))
        return chain(chain.from_iterable(self._by_label.get(a, ()) for a in asked), last)
