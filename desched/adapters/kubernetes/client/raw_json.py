"""Parts of an object that are decoded only when needed, and once for all that look the same."""

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec
from msgspec import Raw

T = TypeVar("T")


class RawDecoder(Generic[T]):
    """Decodes a part of an object; None where it is absent or null."""

    def __init__(self, kind: type[T]) -> None:
        self._decoder = msgspec.json.Decoder(kind)

    def __call__(self, raw: Raw | bytes) -> T | None:
        """The decoded part.

        Raises:
            msgspec.ValidationError: it is of another shape.
        """
        data = bytes(raw)
        return None if data in {b"", b"null"} else self._decoder.decode(data)


class Shared(dict[bytes, T]):
    """Values by the bytes that they were made from, so that equal parts share one value."""

    def __init__(self, make: Callable[[bytes], T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, data: bytes) -> T:
        value = self[data] = self._make(data)
        return value
