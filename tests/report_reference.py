"""The references of reports and reasons in documents: `python -m tests.report_reference`.

People write the prose. What stands between `<!-- fields of TYPE -->` or `<!-- reasons of TYPE -->`
and `<!-- end -->` is made here: fields from the types of the JSON and their docstrings, reasons
from reasons.toml.
"""

import inspect
import re
import types
import typing
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from desched.history.review import Review
from desched.lab.figures import Backtest, Backtests, Simulated
from desched.model.load import UnknownReason
from desched.model.plan import NodeReason, NodeVerdict, VerdictReason
from desched.model.report import CycleReport
from desched.model.state import FAILURES, SUCCESSES, MoveResult
from desched.views.cycle import NODE_COLUMNS
from desched.views.explained.values import Explanation
from desched.views.reasons import texts
from tests.repository import ROOT

PAGES = (ROOT / "docs" / "report.md", ROOT / "docs" / "operations.md")
ROOTS: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (
        CycleReport,
        Explanation,
        Simulated,
        Backtest,
        Backtests,
        Review,
    )
}
_BLOCK = re.compile(r"(<!-- (fields|reasons) of (\w+) -->\n).*?(?=<!-- end -->)", re.DOTALL)
_SECTIONS: Mapping[str, str] = {
    "CycleResult": "results",
    "NotActing": "not-acting",
    "HoldReason": "holds",
    "NodeReason": "node-reasons",
    "UnknownReason": "unknown-loads",
    "RefusalReason": "refusal-reasons",
    "UnreservedReason": "pending-pods",
    "GpusLeftOut": "gpus-left-out",
    "GpuAnswer": "waits-for-gpus",
    "EvictionVerdict": "verdicts",
    "MoveResult": "move-results",
    "Assumption": "assumptions",
    "Caveat": "caveats",
}
"""Where the page has the values of an enumeration."""

_RESULTS = {"CycleResult", "MoveResult", "NotActing"}
_NAMES: Mapping[object, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    datetime: "time",
    type(None): "null",
}


def generated(text: str) -> str:
    """The page with its blocks as the code is now; each type is described where it comes first."""
    described: set[type] = set()

    def block(found: re.Match[str]) -> str:
        lines = _reasons(found[3]) if found[2] == "reasons" else _fields(found[3], described)
        return found[1] + "\n" + "\n".join(lines) + "\n"

    return _BLOCK.sub(block, text)


def _fields(root: str, described: set[type]) -> Iterator[str]:
    """A section for each type that is not described yet, the one that holds others first."""
    waiting = [ROOTS[root]]
    while waiting:
        kind = waiting.pop(0)
        if kind in described:
            continue
        described.add(kind)
        hints = typing.get_type_hints(kind)
        yield from (f"### {kind.__name__}", "", _prose(inspect.getdoc(kind) or ""), "")
        yield from ("| field | type |", "|---|---|")
        yield from (f"| `{name}` | {_type(hint)} |" for name, hint in hints.items())
        if kind is NodeVerdict:
            added = (each for each in NODE_COLUMNS if each.key not in hints)
            yield from (f"| `{each.key}` | string: {each.title} |" for each in added)
        yield ""
        waiting += [each for hint in hints.values() for each in _structs_in(hint)]


def _prose(docstring: str) -> str:
    text = re.sub(r"\bNone\b", "null", docstring)
    return "\n\n".join(" ".join(each.split()) for each in text.split("\n\n"))


def _structs_in(hint: object) -> Iterator[type]:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
    for argument in typing.get_args(hint):
        yield from _structs_in(argument)


def _type(hint: object) -> str:
    if hint is VerdictReason:
        hint = NodeReason | UnknownReason
    parts = [_type(each) for each in typing.get_args(hint) if each is not ...]
    origin = typing.get_origin(hint)
    if origin in {typing.Union, types.UnionType}:
        return " or ".join(parts)
    if origin is tuple:
        alike = ... in typing.get_args(hint)
        return f"list of {parts[0]}" if alike else f"[{', '.join(parts)}]"
    if origin is not None:
        return f"object: {parts[1]} by {parts[0]}"
    if isinstance(hint, type) and issubclass(hint, StrEnum) and hint.__name__ not in texts():
        return ", ".join(f"`{value.value}`" for value in hint)
    if hint in _NAMES:
        return _NAMES[hint]
    if not isinstance(hint, type):
        raise TypeError(f"what is {hint}?")
    name = hint.__name__
    return f"[{name}](#{_SECTIONS.get(name, name.lower())})"


def _reasons(name: str) -> Iterator[str]:
    rows = texts()[name]
    counts = name == MoveResult.__name__
    heads = ["value", "meaning", *(["counts as"] if counts else [])]
    if remedies := any(text.remedy for text in rows.values()):
        heads.append("what to do" if name in _RESULTS else "what would change it")
    yield from (f"| {' | '.join(heads)} |", "|---" * len(heads) + "|")
    for value, text in rows.items():
        cells = [f"`{value}`", text.means]
        if counts:
            cells.append(_counts_as(MoveResult(value)))
        if remedies:
            cells.append(text.remedy.format(workload="NAMESPACE/NAME", pool="NAME"))
        yield f"| {' | '.join(cells)} |"
    yield ""


def _counts_as(result: MoveResult) -> str:
    if result in SUCCESSES:
        return "success"
    return "failure" if result in FAILURES else "neither"


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(generated(page.read_text()))
