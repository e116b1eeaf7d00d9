"""The JSON Schema of reports, and the tables of reasons: `python -m tests.report_reference`.

The schema comes from the types of the JSON and their docstrings. In docs/reasons.md, the texts
between `<!-- reasons of TYPE -->` and `<!-- end -->` come from reasons.toml; people write the rest.
"""

import inspect
import json
import re
import types
import typing
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from desched.history.logbook import LoggedMove
from desched.history.review import Review
from desched.lab.figures import Backtest, Backtests, Simulated
from desched.model.extras import PluginPlan, PluginState
from desched.model.facts import Facts
from desched.model.load import UnknownReason
from desched.model.plan import NodeReason, NodeVerdict, Undertaking, VerdictReason
from desched.model.report import CycleReport
from desched.model.state import FAILURES, SUCCESSES, MoveResult
from desched.views.cycle import NODE_COLUMNS, NodeColumn
from desched.views.explained.values import Explanation
from desched.wording.reasons import texts
from tests.repository import ROOT

SCHEMA = ROOT / "docs" / "report.schema.json"
PAGE = ROOT / "docs" / "reasons.md"
DOCUMENTS = (CycleReport, Explanation, Simulated, Backtest, Backtests, Review)
"""What commands print as JSON; `desched history` prints a list of LoggedMove."""

_BLOCK = re.compile(r"(<!-- reasons of (\w+) -->\n).*?(?=<!-- end -->)", re.DOTALL)
_OF_PLUGINS = (Facts, PluginPlan, PluginState, Undertaking)
"""Types of the core of which plugins have their own."""

_CONSEQUENCES = {"CycleResult", "MoveResult", "NotActing"}
_SIMPLE: Mapping[object, Mapping[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": ["number", "null"]},  # what is not a finite number is null
    datetime: {"type": "string", "format": "date-time"},
    type(None): {"type": "null"},
}


def schema() -> dict[str, Any]:
    """The JSON Schema of all documents; further fields are allowed, as a version may gain some."""
    definitions: dict[str, Any] = {}
    of_plugins = (kind for base in _OF_PLUGINS for kind in _kinds_of(base))
    waiting: list[type] = [*DOCUMENTS, LoggedMove, *of_plugins]
    while waiting:
        kind = waiting.pop(0)
        if kind.__name__ not in definitions:
            definitions[kind.__name__] = _definition(kind)
            hints = _hints(kind).values() if _is_struct(kind) else ()
            waiting += [each for hint in hints for each in _named_in(hint)]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Reports of desched",
        "description": "What plan, explain, simulate, backtest, report and history print as JSON.",
        "if": {"type": "array"},
        "then": {"items": _reference(LoggedMove)},
        "else": {
            "type": "object",
            "properties": {"version": {"enum": [_version(kind) for kind in DOCUMENTS]}},
            "required": ["version"],
        },
        "allOf": [  # a validator names the wrong field then, which it does not with anyOf
            {"if": {"properties": {"version": {"const": _version(kind)}}, "type": "object"}}
            | {"then": _reference(kind)}
            for kind in DOCUMENTS
        ],
        "$defs": definitions,
    }


def schema_text() -> str:
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def _definition(kind: type) -> dict[str, Any]:
    described = {"description": _prose(inspect.getdoc(kind) or "")}
    if issubclass(kind, StrEnum):
        return {**described, "enum": [each.value for each in kind]}
    fields = {name: _schema(hint) for name, hint in _hints(kind).items()}
    required = list(fields)
    if kind in DOCUMENTS:
        fields["version"] = {"const": _version(kind)}
    if kind is NodeVerdict:
        fields |= {each.key: _column(each) for each in NODE_COLUMNS if each.key not in fields}
    return {**described, "type": "object", "properties": fields, "required": required}


def _hints(kind: type) -> Mapping[str, Any]:
    """The types of the fields of a struct."""
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in msgspec.structs.fields(kind)}


def _version(kind: type) -> str:
    (version,) = (each for each in msgspec.structs.fields(kind) if each.name == "version")
    return str(version.default)


def _column(column: NodeColumn) -> dict[str, str]:
    return {"type": "string", "description": f"{column.title}; only in the plan of a CycleReport."}


def _schema(hint: Any) -> Mapping[str, Any]:
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if hint is VerdictReason:
        hint = NodeReason | UnknownReason
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in {typing.Union, types.UnionType}:
        return _any_of([option for each in arguments for option in _options(_schema(each))])
    if origin is tuple and ... in arguments:
        return {"type": "array", "items": _schema(arguments[0])}
    if origin is tuple:
        items = [_schema(each) for each in arguments]
        exactly = {"minItems": len(items), "maxItems": len(items)}
        return {"type": "array", "prefixItems": items, **exactly}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", **_values(arguments[1])}
    if isinstance(hint, type) and (_is_struct(hint) or issubclass(hint, StrEnum)):
        return _of_type(hint)
    raise TypeError(f"what is {hint}?")


def _of_type(kind: type) -> Mapping[str, Any]:
    """A type with a definition; of an undertaking, that of each plugin."""
    kinds = _kinds_of(kind) if kind is Undertaking else [kind]
    return _any_of([_reference(each) for each in kinds])


def _values(hint: Any) -> Mapping[str, Any]:
    """The values of a mapping; those of plugins have the plugins' names."""
    if hint in _OF_PLUGINS:
        return {"properties": {kind.plugin: _reference(kind) for kind in _kinds_of(hint)}}
    return {"additionalProperties": _schema(hint)}


def _kinds_of(base: Any) -> list[Any]:
    """What plugins of desched make of a type of the core."""
    kinds = (kind for kind in base.__subclasses__() if kind.__module__.startswith("desched."))
    return sorted(kinds, key=lambda kind: kind.__name__)


def _options(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(schema.get("anyOf", [schema]))


def _any_of(options: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    if len(options) == 1:
        return options[0]
    if all(list(each) == ["type"] for each in options):
        names = (name for each in options for name in _listed(each["type"]))
        return {"type": list(dict.fromkeys(names))}
    return {"anyOf": options}


def _listed(names: str | list[str]) -> list[str]:
    return [names] if isinstance(names, str) else names


def _reference(kind: type) -> dict[str, str]:
    return {"$ref": f"#/$defs/{kind.__name__}"}


def _named_in(hint: Any) -> Iterator[type]:
    """The types of a hint that have a definition of their own."""
    if hint is VerdictReason:
        hint = NodeReason | UnknownReason
    if isinstance(hint, type) and (_is_struct(hint) or issubclass(hint, StrEnum)):
        yield from () if hint in _OF_PLUGINS else (hint,)
    for argument in typing.get_args(hint):
        yield from _named_in(argument)


def _is_struct(kind: type) -> bool:
    return issubclass(kind, msgspec.Struct)


def _prose(docstring: str) -> str:
    return " ".join(re.sub(r"\bNone\b", "null", docstring).split())


def with_reasons(text: str) -> str:
    """The page with its tables of reasons as the code is now."""
    return _BLOCK.sub(lambda found: "\n".join((found[1], *_reasons(found[2]), "")), text)


def _reasons(name: str) -> Iterator[str]:
    rows = texts()[name]
    counts = name == MoveResult.__name__
    heads = ["value", "meaning", *(["counts as"] if counts else [])]
    if remedies := any(text.remedy for text in rows.values()):
        heads.append("what to do" if name in _CONSEQUENCES else "what would change it")
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
    SCHEMA.write_text(schema_text())
    PAGE.write_text(with_reasons(PAGE.read_text()))
