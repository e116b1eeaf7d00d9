"""The logbook as stored bytes, bounded and checked.

Whatever is invalid becomes a problem, never an exception; the next write then begins a new logbook.
"""

import zlib
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple, Protocol

import msgspec

from desched.history.logbook import LONGEST_STEP_SECONDS, SHORTEST_STEP_SECONDS, Logbook
from desched.history.steps import smaller

VERSION = 1
LONGEST_BYTES = 512 * 1024
"""Half of the limit of a ConfigMap."""

LONGEST_UNPACKED_BYTES = 64 * 1024 * 1024
_COMPRESSION = 6
_YEARS = range(2000, 9000)


class StoredLogbook(NamedTuple):
    """The stored logbook, None if there is none yet; with a problem, it cannot be used."""

    book: Logbook | None = None
    problem: str = ""


class LogbookStore(Protocol):
    """Stores the logbook outside the process, apart from the state."""

    def load(self) -> StoredLogbook:
        """The stored logbook; none, with a problem, if it cannot be used.

        Raises:
            ObservationError: it could not be read in time, or there is no place for it.
        """

    def save(self, packed: bytes) -> None:
        """Store it in place of the one that this store loaded or saved last.

        Raises:
            ObservationError: it may not have been stored.
        """


class _Envelope(msgspec.Struct, gc=False):
    version: int
    book: msgspec.Raw = msgspec.Raw()


def encode_logbook(book: Logbook) -> tuple[bytes, Logbook]:
    """The bytes, at most LONGEST_BYTES, and the logbook in them, which may be a smaller one."""
    packed = _packed(book)
    while len(packed) > LONGEST_BYTES and (less := smaller(book)) is not None:
        book = less
        packed = _packed(book)
    return packed, book


def decode_logbook(packed: bytes) -> StoredLogbook:
    """The logbook from the bytes."""
    try:
        text = zlib.decompressobj().decompress(packed, LONGEST_UNPACKED_BYTES)
        envelope = msgspec.msgpack.decode(text, type=_Envelope)
        if envelope.version != VERSION:
            return StoredLogbook(
                problem=f"it has version {envelope.version}, but this desched supports version "
                f"{VERSION} only"
            )
        book = msgspec.msgpack.decode(envelope.book, type=Logbook)
    except (zlib.error, msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return StoredLogbook(problem=f"it is damaged ({error})")
    if not _fits(book):
        return StoredLogbook(problem="it is damaged (its parts do not fit together)")
    return StoredLogbook(book)


def _packed(book: Logbook) -> bytes:
    return zlib.compress(
        msgspec.msgpack.encode({"version": VERSION, "book": book}), level=_COMPRESSION
    )


def _fits(book: Logbook) -> bool:
    cells = len(book.nodes) * len(book.steps)
    return (
        SHORTEST_STEP_SECONDS <= book.step_seconds <= LONGEST_STEP_SECONDS
        and len(set(book.nodes)) == len(book.nodes)
        and len(book.overloaded) == cells
        and all(len(load.percents) == cells for load in book.loads)
        and all(len(load.lines) == len(book.nodes) for load in book.loads)
        and all(time.tzinfo is not None and time.year in _YEARS for time in _times(book))
        and 0 <= book.first_step * book.step_seconds <= book.newest_at.timestamp()
    )


def _times(book: Logbook) -> Iterator[datetime]:
    yield book.newest_at
    if book.moves_since is not None:
        yield book.moves_since
    if book.hour is not None:
        yield book.hour.began_at
    for move in book.moves:
        yield move.at
        yield move.last_at
        if move.settled_at is not None:
            yield move.settled_at
