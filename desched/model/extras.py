"""What plugins keep: of the objects of a cluster, from cycle to cycle, and in a plan."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import ClassVar, NamedTuple, Self, TypeVar

import msgspec

T = TypeVar("T")


class Extra(msgspec.Struct, frozen=True, dict=True, omit_defaults=True):
    """What one plugin keeps, under the name of the `plugin`; all fields have a default."""

    plugin: ClassVar[str]

    @classmethod
    def of(cls, extras: "Mapping[str, Extra]") -> Self:
        """That of the plugin, empty if there is none."""
        extra = extras.get(cls.plugin)
        return extra if isinstance(extra, cls) else cls()

    @property
    def extras(self) -> Mapping[str, Self]:
        """An entry with it, none if it is empty."""
        return {} if self == type(self)() else {self.plugin: self}


class Objects(Extra, frozen=True):
    """What one plugin keeps of the objects of a cluster.

    A snapshot file stores and renames the fields by their types.
    """


Extras = Mapping[str, Objects]
"""What plugins keep of objects, by the name of the plugin."""


class Essential(NamedTuple):
    """What a stored state must not omit; `advice` is what people can do against too many items."""

    name: str
    items: Sequence[object]
    advice: str


class PluginState(Extra, frozen=True):
    """What one plugin keeps from cycle to cycle; the state stores it, within its bound."""

    @property
    def essentials(self) -> Iterable[Essential]:
        """What is never omitted."""
        return ()

    def shortened(self, excess_bytes: int) -> Self:  # noqa: ARG002  (nothing may be omitted)
        """Return a copy with so many bytes less of JSON, or without all that may be omitted."""
        return self


class PluginPlan(Extra, frozen=True):
    """What one plugin says in a plan beside its moves."""


def without_oldest(
    items: Sequence[T],
    excess_bytes: int,
    time_of: Callable[[T], datetime],
    may_omit: Callable[[T], bool] = lambda _: True,
) -> tuple[T, ...]:
    """The items, without those of the earliest time until so many bytes of JSON are omitted."""
    gone = set()
    for index in sorted(range(len(items)), key=lambda index: time_of(items[index])):
        if excess_bytes <= 0:
            break
        if may_omit(items[index]):
            excess_bytes -= len(msgspec.json.encode(items[index])) + len(",")
            gone.add(index)
    return tuple(item for index, item in enumerate(items) if index not in gone)
