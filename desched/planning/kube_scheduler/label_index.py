"""Indexes of labels and of selectors: a search compares only the entries that share a label."""

from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from typing import Generic, TypeVar

from desched.model.selectors import LabelSelector

Label = tuple[str, str]
T = TypeVar("T")

MOST_NAMESPACES = 8
"""An entry of a `SelectorIndex` about more namespaces is compared with pods of all."""

MOST_UNINDEXED = 16
"""Entries of a `LabelIndex` that are not yet in its table."""


class SelectorIndex(Generic[T]):
    """Entries with a selector in namespaces each, found by a namespace and labels."""

    def __init__(self) -> None:
        self._found: dict[str | None, dict[Label | None, list[T]]] = {}

    def add(self, namespaces: Collection[str] | None, selector: LabelSelector, entry: T) -> None:
        """Add an entry about pods of these namespaces; None means all."""
        one_of = selector.one_of_labels()
        few = namespaces is not None and len(namespaces) <= MOST_NAMESPACES
        for namespace in namespaces if namespaces is not None and few else (None,):
            by_label = self._found.setdefault(namespace, {})
            for label in (None,) if one_of is None else one_of:
                by_label.setdefault(label, []).append(entry)

    def about(self, namespace: str, labels: Mapping[str, str]) -> Iterable[T]:
        """All entries that match such a pod, and perhaps some others."""
        tables = [self._found[each] for each in (namespace, None) if each in self._found]
        if not tables:
            return ()
        keys = (*labels.items(), None)
        return chain.from_iterable(table.get(key, ()) for table in tables for key in keys)


class LabelIndex(Generic[T]):
    """Entries with labels each, found by a selector; immutable.

    Most entries are in a table by label. The last few are compared one by one, so that a new entry
    rarely needs a new table.
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
        """All entries in their order."""
        return (*self._tabled, *(entry for _, entry in self._last))

    def having(self, labels: Mapping[str, str], entry: T) -> "LabelIndex[T]":
        """Return a copy with one more entry at the end."""
        last = (*self._last, (labels, entry))
        if len(last) <= MOST_UNINDEXED:
            return LabelIndex(self._tabled, self._by_label, last)
        by_label = dict(self._by_label)
        for those, each in last:
            for label in those.items():
                by_label[label] = (*by_label.get(label, ()), each)
        return LabelIndex((*self.entries, entry), by_label)

    def selected(self, selector: LabelSelector) -> Iterable[T]:
        """All entries whose labels the selector matches, and perhaps some others."""
        one_of = selector.one_of_labels()
        if one_of is None:
            return self.entries
        last = (e for those, e in self._last if any(those.get(k) == v for k, v in one_of))
        return chain(chain.from_iterable(self._by_label.get(a, ()) for a in one_of), last)
