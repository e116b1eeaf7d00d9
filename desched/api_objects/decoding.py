"""From the JSON of objects to values; errors name the object and the field."""

from collections.abc import Callable
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Raw

from desched.api_objects.memory_bounds import memory_of
from desched.api_objects.metadata import Items, ListMeta, Named
from desched.errors import ObservationError, ObservationSource

W = TypeVar("W")
V = TypeVar("V")

_MAKING = Lock()
"""Held while a decoder is made: msgspec lets other threads use a type that it has half read."""

NAMED = msgspec.json.Decoder(Named)
_RAW_ITEMS = msgspec.json.Decoder(Items[Raw])

LARGE_PAGE_BYTES = 8 * 2**20
"""The largest page of a list that is decoded at once; ordinary pages are smaller."""

UNDECODABLE = (msgspec.DecodeError, RecursionError)
"""Errors for JSON that is broken, of another shape, or nested without end."""


class Page(NamedTuple, Generic[V]):
    """One page of a list.

    `token` continues the list and is "" on its last page. `version` is that of the whole list, ""
    if the server does not name it.
    """

    values: list[V]
    token: str
    version: str


class Decoder(Generic[W, V]):
    """Decodes objects of one kind and builds a value from each.

    One unreadable object is an error for the whole list: a missing pod would look like free room,
    a missing budget like permission.
    """

    def __init__(self, kind: type[W], build: Callable[[W], V]) -> None:
        self._kind = kind.__name__
        self._build = build
        with _MAKING:
            self._object = msgspec.json.Decoder(kind)
            self._page: msgspec.json.Decoder[Items[W]] = msgspec.json.Decoder(
                Items[kind]  # type: ignore[valid-type]  # a type only known at run time
            )

    def page(self, body: bytes) -> Page[V]:
        """One page of a list.

        Raises:
            ObservationError: it is not such a list, or an object in it cannot be read.
        """
        try:
            items, values = self._large(body) if len(body) > LARGE_PAGE_BYTES else self._small(body)
        except (*UNDECODABLE, ValueError) as error:
            raise self._error_for(body, error) from error
        metadata = items.metadata or ListMeta()
        token = metadata.continue_ or ""
        if metadata.remaining_item_count and not token:
            missing = f"it ends {metadata.remaining_item_count} objects early"
            raise _unreadable(f"The list of {self._kind}s", missing)
        return Page(values, token, metadata.resource_version or "")

    def _small(self, body: bytes) -> tuple[Items[Any], list[V]]:
        items = self._page.decode(body)
        return items, [self._build(item) for item in items.items or ()]

    def _large(self, body: bytes) -> tuple[Items[Any], list[V]]:
        """One object after the other, which takes longer and less memory at a time."""
        items = _RAW_ITEMS.decode(body)
        return items, [self._build(self._object.decode(item)) for item in items.items or ()]

    def one(self, body: bytes) -> V:
        """The value of one object.

        Raises:
            ObservationError: it cannot be read.
        """
        try:
            return self._build(self._object.decode(body))
        except (*UNDECODABLE, ValueError) as error:
            raise _unreadable(f"The {self._kind} {_name(body)}", error) from error

    def _error_for(self, body: bytes, error: Exception) -> ObservationError:
        """The error for the first unreadable object; the decoder's message does not name it."""
        try:
            items = _RAW_ITEMS.decode(body).items or ()
        except UNDECODABLE:
            return _unreadable(f"The list of {self._kind}s", error)
        for item in items:
            try:
                self.one(bytes(item))
            except ObservationError as refused:
                return refused
        return _unreadable(f"The list of {self._kind}s", error)


def _name(body: bytes) -> str:
    try:
        metadata = NAMED.decode(body).metadata
    except UNDECODABLE:
        return "without a name"
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


def _unreadable(what: str, error: object) -> ObservationError:
    return ObservationError(
        ObservationSource.CLUSTER,
        f"{what} cannot be read ({error}); nothing is evicted until the object is corrected or "
        "desched supports its form.",
    )


class RawDecoder(Generic[V]):
    """Decodes a part of an object only when it is needed; None where it is absent or null."""

    def __init__(self, kind: type[V]) -> None:
        with _MAKING:
            self._decoder = msgspec.json.Decoder(kind)

    def __call__(self, raw: Raw | bytes) -> V | None:
        """The decoded part.

        Raises:
            msgspec.ValidationError: it is of another shape.
        """
        data = bytes(raw)
        return None if data in {b"", b"null"} else self._decoder.decode(data)


LARGEST_SHARED_BYTES = 4 * 2**10
"""Larger parts are not shared, so that a tenant who changes one again and again fills no memory."""


class Shared(dict[bytes, V]):
    """Values by the bytes that they are made from: equal parts share one value.

    `size_bytes` is the memory of all of them.
    """

    def __init__(self, make: Callable[[bytes], V]) -> None:
        super().__init__()
        self._make = make
        self.size_bytes = 0

    def __missing__(self, data: bytes) -> V:
        value = self._make(data)
        if len(data) <= LARGEST_SHARED_BYTES:
            self[data] = value
            self.size_bytes += len(data) + memory_of(value, len(data))
        return value
