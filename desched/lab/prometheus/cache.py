"""Answers about the past on disk, so that an interrupted or repeated read asks less.

A file belongs to one cluster, server, account, expression and stretch of time. What cannot be read
is not there; what cannot be written is not kept. An empty answer is not kept either, since it may
come from a server that lacks data for the moment.
"""

import hashlib
import os
import tempfile
import zlib
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import numpy as np

from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.session import account_of
from desched.lab.prometheus.block import Block, Grid

FORMAT = "2"
KEPT = timedelta(days=30)
"""Files that nobody has used for this time are removed."""

_LEVEL = 1  # of compression: values compress badly, labels and regular times well
_LARGEST_BYTES = 2**28
_ROUNDS = 100_000
"""Of hashing: nobody finds a password by the name of a directory."""


class _Stored(msgspec.Struct):
    """A block as a file has it."""

    labels: list[dict[str, str]]
    firsts: bytes
    counts: bytes
    values: bytes


class BlockCache:
    """The files of one cluster, server and account below a directory.

    Another account may see other data of the same server, and another cluster may be behind the
    same address, such as that of a forwarded port. So `cluster` is what identifies the cluster.
    """

    def __init__(
        self, directory: Path, connection: PrometheusConnection, cluster: str, now: datetime
    ) -> None:
        account = hashlib.pbkdf2_hmac("sha256", account_of(connection), b"desched", _ROUNDS).hex()
        self._directory = directory / _digest([connection.address, account, cluster])[:16]
        self._now = now

    def find(self, expression: str, grid: Grid) -> Block | None:
        """The block of an expression, None if it is not there."""
        path = self._path(expression, grid)
        try:
            stored = msgspec.msgpack.decode(_unpacked(path.read_bytes()), type=_Stored)
            block = _block(grid, stored)
        except (OSError, zlib.error, msgspec.MsgspecError, ValueError):
            return None
        with suppress(OSError):
            os.utime(path, (self._now.timestamp(), self._now.timestamp()))
        return block

    def keep(self, expression: str, block: Block) -> None:
        """Store a block with any series; another process may do so at the same time."""
        if not block.labels:
            return
        stored = _Stored(
            [dict(labels) for labels in block.labels],
            block.firsts.tobytes(),
            block.counts.tobytes(),
            block.values.tobytes(),
        )
        path = self._path(expression, block.grid)
        with suppress(OSError):
            for directory in (self._directory.parent, self._directory):
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._directory.chmod(0o700)  # others may have made it
            with tempfile.NamedTemporaryFile(dir=self._directory, delete=False) as file:
                file.write(zlib.compress(msgspec.msgpack.encode(stored), _LEVEL))
            Path(file.name).replace(path)

    def remove_old(self) -> None:
        """Remove the files of all servers that nobody has used for long."""
        oldest = (self._now - KEPT).timestamp()
        with suppress(OSError):
            for path in self._directory.parent.glob("*/*"):
                with suppress(OSError):
                    if path.stat().st_mtime < oldest:
                        path.unlink()

    def _path(self, expression: str, grid: Grid) -> Path:
        return self._directory / _digest([FORMAT, expression, *map(str, grid)])[:32]


def _unpacked(packed: bytes) -> bytes:
    stream = zlib.decompressobj()
    content = stream.decompress(packed, _LARGEST_BYTES)
    if not stream.eof:  # with it, the checksum would have been compared
        raise ValueError("the file is damaged")
    return content


def _block(grid: Grid, stored: _Stored) -> Block:
    firsts, counts = (
        np.frombuffer(stored_bytes, np.int64) for stored_bytes in (stored.firsts, stored.counts)
    )
    values = np.frombuffer(stored.values, np.float64)
    whole = len(stored.labels) == len(firsts) == len(counts)
    if not whole or counts.sum() != len(values) or (counts < 1).any() or (firsts < 0).any():
        raise ValueError("the file is damaged")
    if (firsts + counts > grid.steps).any():
        raise ValueError("the file is damaged")
    return Block(grid, stored.labels, firsts, counts, values)


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
