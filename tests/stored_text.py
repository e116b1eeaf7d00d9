"""Texts that are stored beside a test, which writes them if the environment asks for that."""

import os
from collections.abc import Mapping
from difflib import unified_diff
from pathlib import Path

WRITE_VARIABLE = "WRITE_TABLES"
"""Not DESCHED_…, which desched itself would refuse."""


def check_stored(path: Path, text: str) -> None:
    """The file has exactly this text; it is written if the environment asks for that."""
    if os.environ.get(WRITE_VARIABLE):  # noqa: TID251  no setting of desched
        path.write_text(text, encoding="utf-8")
        return
    stored = path.read_text(encoding="utf-8") if path.exists() else ""
    changes = unified_diff(stored.splitlines(), text.splitlines(), "stored", "now", n=1)
    assert stored == text, (
        f"{path} has another text; if the new one is right, write it with `{WRITE_VARIABLE}=1` "
        "before the same pytest, without processes (`-n 0`)\n" + "\n".join(changes)
    )


def sections(texts: Mapping[str, str]) -> str:
    """One text of several, each under its title."""
    return "\n".join(f"## {title}\n{text.rstrip()}\n" for title, text in texts.items())
