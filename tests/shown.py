"""Views as people and programs see them."""

import io
import json
from collections.abc import Iterable
from typing import Any

from rich.console import Console

from desched.model.report import CycleReport
from desched.views.blocks import Block, print_blocks
from desched.views.cycle import CycleView
from desched.views.cycle_table import cycle_blocks
from desched.views.rendering import TABLE_COLUMNS, ReportFormat, rendered


def shown(report: CycleReport, form: ReportFormat = "table", **view: Any) -> str:
    """The report in a format; `view` as for `CycleView`."""
    cycle = CycleView(report, **view)
    return rendered(cycle, cycle_blocks(cycle), form)


def print_shown(report: CycleReport, console: Console) -> None:
    """Print the report as a table."""
    print_blocks(cycle_blocks(CycleView(report)), console)


def text_of(blocks: Iterable[Block], width: int = TABLE_COLUMNS) -> str:
    """The blocks in a terminal of this width without colours, without blanks at line ends."""
    stream = io.StringIO()
    print_blocks(blocks, Console(file=stream, width=width, color_system=None))
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().split("\n"))[:-1]


def json_of(value: object) -> Any:
    """The value as programs read its JSON."""
    return json.loads(rendered(value, (), "json"))
