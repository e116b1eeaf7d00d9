"""Walks through values by their types, and renames the texts with a mark of `model.names`."""

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec.structs import replace

from desched.model.extras import Objects, PluginState
from desched.model.names import Form, Mark

S = TypeVar("S", bound=msgspec.Struct)

Rename = Callable[["Renaming", Any, msgspec.Struct], Any]
"""The new value, from the value and the struct that has it."""

_WITHOUT_NAMES = (Enum, int, float, datetime, NoneType)


class Renaming:
    """Renames structs by what `text` makes of the mark, the text and the struct that has it.

    What several structs share is renamed once, and stays shared.
    """

    def __init__(self, text: Callable[[Mark, Any, Any], Any]) -> None:
        self.text = text
        self._known: dict[int, tuple[object, object]] = {}  # by id; keeps the old object alive

    def of(self, struct: S) -> S:
        """The struct with new names."""
        if id(struct) not in self._known:
            fields = {
                name: rename(self, getattr(struct, name), struct)
                for name, rename in renames_of(type(struct)).items()
            }
            self._known[id(struct)] = struct, replace(struct, **fields)
        first: S = self._known[id(struct)][1]  # type: ignore[assignment]  # of the same type
        return first


@cache
def renames_of(kind: type[msgspec.Struct]) -> Mapping[str, Rename]:
    """What happens to the fields of a struct; others stay.

    Raises:
        TypeError: a text has no mark.
    """
    renames = {}
    hints = get_type_hints(kind, include_extras=True)
    for name in kind.__struct_fields__:
        try:
            renames[name] = _rename_of(hints[name])
        except TypeError as error:
            raise TypeError(f"{kind.__name__}.{name}: {error}") from None
    return {name: rename for name, rename in renames.items() if rename is not None}


def _rename_of(kind: Any) -> Rename | None:
    """What happens to the values of a type; None if they stay."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        mark = next((part for part in parts[1:] if isinstance(part, Mark)), None)
        return _rename_of(parts[0]) if mark is None else _by(mark)
    if origin in _OF_PARTS:
        return _OF_PARTS[origin](*parts)
    if kind in {Objects, PluginState}:  # that of some plugin
        return _of_struct
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _of_struct if renames_of(kind) else None
    if not isinstance(kind, type) or not issubclass(kind, _WITHOUT_NAMES):
        raise TypeError(f"{kind} needs a mark of desched/model/names.py")
    return None


def _by(mark: Mark) -> Rename | None:
    if mark is Form.PLAIN:
        return None
    return lambda renaming, value, owner: renaming.text(mark, value, owner)


def _of_struct(renaming: Renaming, value: msgspec.Struct, _: msgspec.Struct) -> msgspec.Struct:
    return renaming.of(value)


def _of_union(*kinds: Any) -> Rename | None:
    """Structs are renamed by their own type; at most one of the others may be renamed."""
    renames = {_rename_of(kind) for kind in kinds}
    if renames == {None}:
        return None
    (rename,) = filter(None, renames)
    return lambda renaming, value, owner: value and rename(renaming, value, owner)


def _of_tuple(*kinds: Any) -> Rename | None:
    if kinds[-1] is Ellipsis:
        return _of_each(tuple, kinds[0])
    parts = [_rename_of(kind) for kind in kinds]
    if not any(parts):
        return None
    return lambda renaming, values, owner: tuple(
        rename(renaming, value, owner) if rename else value
        for rename, value in zip(parts, values, strict=True)
    )


def _of_each(make: type, kind: Any) -> Rename | None:
    rename = _rename_of(kind)
    if rename is None:
        return None
    return lambda renaming, values, owner: make(rename(renaming, value, owner) for value in values)


def _of_mapping(*kinds: Any) -> Rename | None:
    rename = _of_tuple(*kinds)
    if rename is None:
        return None
    return lambda renaming, values, owner: dict(
        rename(renaming, value, owner) for value in values.items()
    )


_OF_PARTS: Mapping[Any, Callable[..., Rename | None]] = {
    Union: _of_union,
    UnionType: _of_union,
    tuple: _of_tuple,
    frozenset: partial(_of_each, frozenset),
    Mapping: _of_mapping,
}
