"""Logs that are read while another process writes them."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any


def complete_lines(log: Path, position: int = 0) -> list[bytes]:
    """The lines from a position in bytes on, without a last one of which only a part is there."""
    with log.open("rb") as file:
        file.seek(position)
        text = file.read()
    return text[: text.rfind(b"\n") + 1].splitlines(keepends=True)


def events_in(log: Path) -> list[dict[str, Any]]:
    """The complete lines that are JSON objects."""
    return _events(complete_lines(log))


def _events(lines: Iterable[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines if line.startswith(b"{")]


class GrowingLog:
    """A log of JSON objects that is read again and again, each line of it once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._position = 0
        self._events: list[dict[str, Any]] = []
        self._lock = Lock()

    def events(self) -> Sequence[dict[str, Any]]:
        """Those since the last `forget`; the list grows."""
        with self._lock:
            lines = complete_lines(self.path, self._position)
            self._position += sum(map(len, lines))
            self._events += _events(lines)
            return self._events

    def forget(self) -> None:
        """Begin anew with what comes now."""
        self.events()
        with self._lock:
            self._events = []
