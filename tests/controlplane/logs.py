"""Logs that are read while another process writes them."""

import json
from pathlib import Path
from typing import Any


def complete_lines(log: Path, position: int = 0) -> list[bytes]:
    """The lines from a position in bytes on, without a last one of which only a part is there."""
    with log.open("rb") as file:
        file.seek(position)
        text = file.read()
    return text[: text.rfind(b"\n") + 1].splitlines(keepends=True)


def events_in(log: Path, position: int = 0) -> list[dict[str, Any]]:
    """The complete lines from a position in bytes on that are JSON objects."""
    return [json.loads(line) for line in complete_lines(log, position) if line.startswith(b"{")]
