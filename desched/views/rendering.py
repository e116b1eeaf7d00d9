"""JSON, YAML (docs/report.schema.json) and tables for people, as text or on a terminal."""

import io
import math
import sys
from collections.abc import Iterable
from typing import Literal, TextIO, assert_never

import msgspec
import yaml
from rich.console import Console

from desched.views.blocks import Block, print_blocks

ReportFormat = Literal["table", "json", "yaml"]

DECIMALS = 4
TABLE_COLUMNS = 100


class View:
    """A value whose JSON is not that of its fields."""

    __slots__ = ()

    @property
    def document(self) -> object:
        """What JSON and YAML have."""
        raise NotImplementedError


def rendered(
    shown: object,
    blocks: Iterable[Block],
    format: ReportFormat,  # noqa: A002  (the word for it)
) -> str:
    """The value as JSON or YAML, or else its blocks as a table; ends in a newline."""
    document = shown.document if isinstance(shown, View) else shown
    match format:
        case "json":
            return json_text(plain_value(document))
        case "yaml":
            return yaml.safe_dump(plain_value(document), sort_keys=False)
        case "table":
            console = Console(file=io.StringIO(), width=TABLE_COLUMNS, color_system=None)
            with console.capture() as capture:
                print_blocks(blocks, console)
            # Rich pads cells with blanks, which do not belong into files and diffs.
            return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())
        case _:
            assert_never(format)


def write_out(
    form: ReportFormat | None,
    shown: object,
    blocks: Iterable[Block],
    stdout: TextIO | None = None,
) -> None:
    """Print the value in the format; None means its blocks, with colours on a terminal."""
    stdout = stdout or sys.stdout
    if form in {None, "table"} and stdout.isatty():
        print_blocks(blocks, Console(file=stdout))
    else:
        stdout.write(rendered(shown, blocks, form or "table"))
        stdout.flush()


def json_text(value: object) -> str:
    """The value as indented JSON, ending in a newline.

    Escapes characters that control a terminal or are invisible; JSON itself permits most of them.
    """
    text = msgspec.json.format(msgspec.json.encode(value)).decode()
    return "".join(f"{_escaped(line)}\n" for line in text.split("\n"))


def json_line(value: object) -> str:
    """The value as JSON on one line, without its end; with the same escapes."""
    return _escaped(msgspec.json.encode(value).decode())


def _escaped(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else _code_units(c) for c in line)


def _code_units(character: str) -> str:
    digits = character.encode("utf-16-be").hex()
    return "".join(f"\\u{digits[i : i + 4]}" for i in range(0, len(digits), 4))


def plain_value(value: object) -> object:
    """The value in JSON's types, with every field of every struct, also those with defaults.

    Floats are rounded to four decimals; what is not a finite number becomes null.
    """
    match value:
        case msgspec.Struct():
            return {name: plain_value(getattr(value, name)) for name in value.__struct_fields__}
        case float():
            return round(value, DECIMALS) if math.isfinite(value) else None
        case dict():
            return {str(plain_value(key)): plain_value(item) for key, item in value.items()}
        case list() | tuple():
            return [plain_value(item) for item in value]
        case _:
            return msgspec.to_builtins(value)
