"""Snapshot files on disk: JSON in gzip, written at once or not at all, read within bounds."""

import gzip
import os
import tempfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from desched.errors import ConfigurationError
from desched.model.text import on_one_line
from desched.snapshot_file.content import SnapshotContent
from desched.snapshot_file.document import decode, encode

LARGEST_BYTES = 192 * 2**20
"""The maximum size of the JSON, twice what the largest supported cluster needs."""


def write_snapshot(content: SnapshotContent, stream: BinaryIO) -> None:
    """Write the content, compressed; equal contents give equal bytes.

    Raises:
        ConfigurationError: the content is too large for a snapshot file.
    """
    text = encode(content)
    if len(text) > LARGEST_BYTES:
        raise ConfigurationError(
            f"The snapshot has {len(text) >> 20} MiB, more than the {LARGEST_BYTES >> 20} MiB that "
            "a snapshot file may have."
        )
    with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as compressed:
        compressed.write(text)


def save_snapshot(content: SnapshotContent, path: Path) -> None:
    """Write the content to a file that only its owner may read, in place of an older one.

    Raises:
        ConfigurationError: the file cannot be written, or the content is too large.
    """
    name = on_one_line(str(path))
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                write_snapshot(content, stream)
            Path(temporary).replace(path)
        except BaseException:
            with suppress(OSError):
                Path(temporary).unlink()
            raise
    except OSError as error:
        problem = error.strerror or "the system refused"
        raise ConfigurationError(f"{name}: the snapshot cannot be written: {problem}.") from error


def load_snapshot(path: Path) -> SnapshotContent:
    """The content of a snapshot file.

    Raises:
        ConfigurationError: it cannot be read, or it is not a snapshot that this desched can use.
    """
    name = on_one_line(str(path))
    try:
        with path.open("rb") as stream, gzip.GzipFile(fileobj=stream) as compressed:
            text = compressed.read(LARGEST_BYTES + 1)
    except (gzip.BadGzipFile, zlib.error) as error:
        raise ConfigurationError(
            f"{name}: this is no snapshot of desched, or it is damaged."
        ) from error
    except EOFError as error:
        raise ConfigurationError(f"{name}: this snapshot is cut off; copy it again.") from error
    except OSError as error:
        problem = error.strerror or "the system refused"
        raise ConfigurationError(f"{name}: the snapshot cannot be read: {problem}.") from error
    if len(text) > LARGEST_BYTES:
        raise ConfigurationError(
            f"{name}: this snapshot has more than {LARGEST_BYTES >> 20} MiB when decompressed, "
            "which no cluster needs; check that it is the right file."
        )
    return decode(text, name)
