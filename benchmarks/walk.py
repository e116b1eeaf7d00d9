"""Counts how often a snapshot comes back to a module on its way through a decision.

`python -m benchmarks.walk [SNAPSHOT]` runs `decide`, and follows each call that passes the snapshot
on: the snapshot itself, its cluster or load, or a value that holds one of them. Each function
counts once, at its first call. Vocabulary (`model/`, `policy/`) does not count.
"""

import sys
from collections import Counter
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType

import desched
from desched.decision import decide
from desched.model.cluster import ClusterState
from desched.model.load import ClusterLoad
from desched.model.snapshot import Snapshot
from desched.snapshot_file.load_check import own_policy
from desched.snapshot_file.storage import load_snapshot

HOUSE = Path(desched.__file__).parent
STORED = HOUSE.parent / "tests/unit/snapshot_file/stored/desched-0.1.0.snapshot"
VOCABULARY = ("model/", "policy/")

DEEPEST = 2
"""A context holds a book, and a book the snapshot; what holds a context is not the snapshot."""


def walk(path: Path) -> list[str]:
    """The modules that a decision about the stored snapshot enters, in this order."""
    content = load_snapshot(path)
    policy = own_policy(content, path.name)
    functions: dict[CodeType, None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code not in functions and _module(code):
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            if any(_holds(frame.f_locals.get(name), DEEPEST) for name in names):
                functions[code] = None

    sys.setprofile(note)
    try:
        decide(content.snapshot, policy, content.state)
    finally:
        sys.setprofile(None)
    return [module for module, _ in groupby(map(_module, functions))]


def _module(code: CodeType) -> str:
    """The path of the function's module within the house; empty outside and for vocabulary."""
    path = Path(code.co_filename)
    inside = str(path.relative_to(HOUSE)) if path.is_relative_to(HOUSE) else ""
    return "" if inside.startswith(VOCABULARY) else inside


def _holds(value: object, depth: int) -> bool:
    """Whether the value is the snapshot or a part of it, or has it as a field."""
    if isinstance(value, Snapshot | ClusterState | ClusterLoad):
        return True
    fields: tuple[str, ...] = getattr(value, "__struct_fields__", getattr(value, "_fields", ()))
    return depth > 0 and any(_holds(getattr(value, name), depth - 1) for name in fields)


def main() -> None:
    route = walk(Path(sys.argv[1]) if sys.argv[1:] else STORED)
    stays = Counter(route)
    twice = sum(count > 1 for count in stays.values())
    print(f"modules {len(stays)}, entered twice {twice}, returns {len(route) - len(stays)}")
    for module, count in stays.most_common():
        print(f"{count:4} {module}")


if __name__ == "__main__":
    main()
