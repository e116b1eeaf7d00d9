"""Kinds of objects: how each is read, and how a value is made from it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from desched.api_objects.access import Access
from desched.api_objects.decoding import Decoder
from desched.api_objects.memory_bounds import (
    BEYOND_SHARE,
    LARGEST_BYTES,
    LARGEST_JSON_BYTES,
    ORDINARY_JSON_BYTES,
    NamespaceShares,
    ObjectKey,
    TooLarge,
    kept_bytes,
)

W = TypeVar("W")
V = TypeVar("V")

JSON = "application/json"


class Kind(NamedTuple, Generic[W, V]):
    """A kind of object: the right that reads it, its JSON, and how a value is made from it.

    `may_be_absent`: a server that lacks its API group has none of it. `accept` is the form in which
    the server answers. `is_optional`: there is none of it, too, if the server does not have it in
    this version, or if the account may not read it. `size_of` is the number of bytes of JSON that
    are kept of an object, for kinds of which a tenant may write large ones. `remembered_bytes` is
    what the builder holds beside the values that are kept.
    """

    access: Access
    wire: type[W]
    build: Callable[[W], V]
    may_be_absent: bool = False
    accept: str = JSON
    is_optional: bool = False
    is_discovered: bool = False
    size_of: Callable[[W], int] | None = None
    remembered_bytes: Callable[[], int] = lambda: 0

    def decoder(self) -> Decoder[W, V]:
        """A decoder of one object or a list of them, however large."""
        return Decoder(self.wire, self.build)

    def decoder_within(self, shares: NamespaceShares) -> Decoder[W, V | TooLarge]:
        """Return a copy within these shares of namespaces."""
        return Decoder(self.wire, self.builder_within(shares))

    def builder_within(self, shares: NamespaceShares) -> Callable[[W], V | TooLarge]:
        """Makes the value of an object, unless it is too large."""
        if self.size_of is None:
            return self.build
        return partial(self._bounded, shares, self.size_of)

    def _bounded(
        self, shares: NamespaceShares, size_of: Callable[[W], int], item: W
    ) -> V | TooLarge:
        """The value, or why the object is too large to be kept."""
        key = self.key_of(item)
        size_bytes = size_of(item)
        if size_bytes > LARGEST_JSON_BYTES:
            shares.release(key)
            excess = f"{size_bytes >> 10} KiB to be read, more than {LARGEST_JSON_BYTES >> 10}"
        else:
            value = self.build(item)
            measured = kept_bytes(value) if size_bytes > ORDINARY_JSON_BYTES else 0
            if measured > LARGEST_BYTES:
                shares.release(key)
                excess = f"{measured >> 10} KiB of memory, more than {LARGEST_BYTES >> 10}"
            elif shares.admits(key, measured):
                return value
            else:
                excess = BEYOND_SHARE
        _, namespace, name = key
        return TooLarge(self.wire.__name__, namespace or name, name, excess)

    def key_of(self, item: Any) -> ObjectKey:
        """What identifies the object among those of all kinds."""
        return self.access, item.metadata.namespace, item.metadata.name


class Lists(Protocol):
    """All objects of each kind."""

    @property
    def too_large(self) -> Sequence[TooLarge]:
        """Those of them that are not kept."""

    def all(self, kind: Kind[W, V]) -> tuple[V, ...]:
        """All objects of a kind."""
