"""A report as text: JSON or YAML for programs (docs/report.md), the table for people."""

import io
import math
from typing import Literal, assert_never

import msgspec
import yaml
from rich.console import Console

from desched.model.report import CycleReport
from desched.service.reports.cycle_table import print_report

ReportFormat = Literal["table", "json", "yaml"]

DECIMALS = 4
TABLE_COLUMNS = 100


def render_report(
    report: CycleReport,
    format: ReportFormat,  # noqa: A002  (its own word)
    *,
    single: bool = False,
) -> str:
    """The whole report in one of the formats, ending in a newline; `single` as in `print_report`.

    JSON and YAML have the same structure: nodes by name, refusals by node and pod, evictions and
    outcomes in their order, ratios rounded to four decimals, what is not a number as null.
    """
    match format:
        case "json":
            return json_text(_document(report))
        case "yaml":
            return yaml.safe_dump(_document(report), sort_keys=False)
        case "table":
            console = Console(file=io.StringIO(), width=TABLE_COLUMNS, color_system=None)
            with console.capture() as capture:
                print_report(report, console, single=single)
            # Cells are filled up with blanks, which would end up in files and diffs.
            return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())
        case _:
            assert_never(format)


def json_text(value: object) -> str:
    """The value as indented JSON, ending in a newline.

    What a terminal would obey or a reader not see is escaped: JSON itself leaves much of it alone.
    """
    text = msgspec.json.format(msgspec.json.encode(value)).decode()
    return "".join(f"{_escaped(line)}\n" for line in text.split("\n"))


def _escaped(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else _code_units(c) for c in line)


def _code_units(character: str) -> str:
    digits = character.encode("utf-16-be").hex()
    return "".join(f"\\u{digits[i : i + 4]}" for i in range(0, len(digits), 4))


def _document(report: CycleReport) -> object:
    plan = report.plan
    in_order = msgspec.structs.replace(
        plan,
        nodes=tuple(sorted(plan.nodes, key=lambda verdict: verdict.node)),
        refusals=tuple(sorted(plan.refusals, key=lambda refusal: (refusal.node, refusal.pod))),
    )
    return plain_value(msgspec.structs.replace(report, plan=in_order))


def plain_value(value: object) -> object:
    """The value as JSON can say it: every field of every struct, also where it is the default."""
    match value:
        case msgspec.Struct():
            return {name: plain_value(getattr(value, name)) for name in value.__struct_fields__}
        case float():
            return round(value, DECIMALS) if math.isfinite(value) else None
        case dict():
            return {key: plain_value(item) for key, item in value.items()}
        case list() | tuple():
            return [plain_value(item) for item in value]
        case _:
            return msgspec.to_builtins(value)
