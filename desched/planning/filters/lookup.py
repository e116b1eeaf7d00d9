"""Labels and selectors that find each other without comparing every one with every other."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Generic, TypeVar

from desched.model.selectors import LabelSelector, Operator

Label = tuple[str, str]
T = TypeVar("T")


def asked_for(selector: LabelSelector) -> Sequence[Label] | None:
    """Labels of which everything that the selector selects has one; None if it asks for none."""
    for requirement in selector.requirements:
        if requirement.operator is Operator.IN:
            return [(requirement.key, value) for value in dict.fromkeys(requirement.values)]
    return None


class BySelector(Generic[T]):
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


class ByLabels(Generic[T]):
    """Entries with labels each, found by a selector; a value that `having` makes a longer one of.

    `entries` are all of them in their order.
    """

    def __init__(
        self, entries: tuple[T, ...] = (), by_label: Mapping[Label, tuple[T, ...]] | None = None
    ) -> None:
        self.entries = entries
        self._by_label = by_label or {}

    def having(self, labels: Mapping[str, str], entry: T) -> "ByLabels[T]":
        """The same with one more entry at the end."""
        more = {label: (*self._by_label.get(label, ()), entry) for label in labels.items()}
        return ByLabels((*self.entries, entry), {**self._by_label, **more})

    def selected(self, selector: LabelSelector) -> Iterable[T]:
        """All entries whose labels the selector selects, and perhaps others."""
        asked = asked_for(selector)
        if asked is None or not self.entries:
            return self.entries
        return chain.from_iterable(self._by_label.get(label, ()) for label in asked)
