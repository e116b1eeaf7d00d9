"""How many small faults fail a test: a seeded sample, one fault at a time.

Run it with `make mutation`. Each fault runs the tests beside its module first, then those of its
room, and survives if none fails. It works on copies of the repository.
"""

import argparse
import ast
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from tests.repository import ROOT

SIMULATED = ("tests/unit/test_cycle.py", "tests/contracts/test_simulation.py")
ROOMS: dict[str, tuple[str, ...]] = {
    "planning": ("tests/unit/planning", *SIMULATED, "tests/properties/test_planner.py"),
    "eviction": ("tests/unit/eviction", *SIMULATED, "tests/properties/test_acting.py"),
    "policy_keys": ("tests/unit/policy_keys", "tests/unit/policy_file"),
    "policy_file/sections": ("tests/unit/policy_file", "tests/unit/planning", *SIMULATED),
    "adapters/kubernetes": ("tests/unit/adapters/kubernetes",),
    "adapters/prometheus": ("tests/unit/adapters/prometheus",),
    "adapters": ("tests/unit/adapters",),
    "views": ("tests/unit/views", "tests/unit/service", "tests/unit/commands"),
    "history": ("tests/unit/history", "tests/unit/commands", "tests/unit/views"),
    "lab/scheduler": (
        "tests/unit/planning/kube_scheduler",
        "tests/unit/lab",
        "tests/contracts",
    ),
    "lab": ("tests/unit/lab", "tests/contracts", "tests/unit/commands"),
    "service": ("tests/unit/service", "tests/unit/bootstrap"),
}
"""The packages that get faults, and the tests of each; of two that fit, the first counts."""
TIMEOUT_SECONDS = 600
PASSED, FAILED, NOT_COLLECTED = 0, 1, 2
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}


@dataclass(frozen=True)
class Fault:
    """The `number`th place of a file at which a fault is possible."""

    path: Path
    number: int


class Planter(ast.NodeTransformer):
    """Counts the places of a tree, and puts a fault into one of them."""

    def __init__(self, wanted: int = -1) -> None:
        self.wanted = wanted
        self.places = 0
        self.line = self._line = 0

    def _is_here(self) -> bool:
        self.places += 1
        if self.places - 1 != self.wanted:
            return False
        self.line = self._line
        return True

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Visits an operator in its place, with the line of the expression around it."""
        self._line = getattr(node, "lineno", self._line)
        super().generic_visit(node)
        return SWAPS[type(node)]() if type(node) in SWAPS and self._is_here() else node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return node.operand if isinstance(node.op, ast.Not) and self._is_here() else node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, bool):
            return ast.Constant(not node.value) if self._is_here() else node
        if isinstance(node.value, int | float) and self._is_here():
            return ast.Constant(node.value + 1)
        return node


def faults() -> Iterator[Fault]:
    """All that are possible in the rooms."""
    for path in sorted((ROOT / "desched").rglob("*.py")):
        found = path.relative_to(ROOT)
        if _room(found):
            planter = Planter()
            planter.visit(ast.parse(path.read_text()))
            yield from (Fault(found, n) for n in range(planter.places))


def _room(path: Path) -> str | None:
    fitting = (room for room in ROOMS if path.is_relative_to(f"desched/{room}"))
    return next(fitting, None)


def _tests_of(path: Path) -> Iterator[tuple[str, ...]]:
    """Those beside a module, or beside the folder above, and then those of its room."""
    beside = Path("tests/unit") / path.parent.relative_to("desched")
    while not (ROOT / beside).is_dir():
        beside = beside.parent
    room = _room(path)
    assert room is not None
    yield (str(beside),)
    if ROOMS[room] != (str(beside),):
        yield ROOMS[room]


def survives(fault: Fault, copy: Path) -> str:
    """Where the fault is if no test fails with it, else an empty text."""
    file = copy / fault.path
    before = file.read_text()
    planter = Planter(fault.number)
    tree = planter.visit(ast.parse(before))
    try:
        file.write_text(ast.unparse(tree))
        if any(_fail(tests, copy) for tests in _tests_of(fault.path)):
            return ""
    finally:
        file.write_text(before)
    return f"{fault.path}:{planter.line}: {before.splitlines()[planter.line - 1].strip()}"


def _fail(tests: tuple[str, ...], copy: Path) -> bool:
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        code = subprocess.call(
            command,
            cwd=copy,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return True
    assert code in {PASSED, FAILED, NOT_COLLECTED}, f"pytest did not run {tests}"
    return code != PASSED


def main() -> None:
    """Print each fault that survives, and the score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", default="", help="faults of paths that contain this")
    asked = parser.parse_args()
    possible = [fault for fault in faults() if asked.only in str(fault.path)]
    size = min(asked.sample, len(possible))
    sample = random.Random(asked.seed).sample(possible, size)  # noqa: S311  reproducible
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(asked.processes) as pool:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(asked.processes):
            skipped = shutil.ignore_patterns(".*", "__pycache__")
            copies.put(Path(shutil.copytree(ROOT, Path(directory) / str(number), ignore=skipped)))

        def tried(fault: Fault) -> str:
            copy = copies.get()
            try:
                return survives(fault, copy)
            finally:
                copies.put(copy)

        survivors = 0
        for number, found in enumerate(pool.map(tried, sample), 1):
            survivors += bool(found)
            if found:
                print(f"{number}. {found}", flush=True)
    print(f"{size - survivors} of {size} faults (of {len(possible)}) fail a test")


if __name__ == "__main__":
    main()
