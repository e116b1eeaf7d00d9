"""Reports as people and programs see them."""

from typing import Any

from rich.console import Console

from desched.model.report import CycleReport
from desched.views.cycle import CycleView
from desched.views.cycle_table import print_cycle
from desched.views.rendering import ReportFormat, rendered


def shown(report: CycleReport, form: ReportFormat = "table", **view: Any) -> str:
    """The report in a format; `view` as for `CycleView`."""
    return rendered(CycleView(report, **view), print_cycle, form)


def print_shown(report: CycleReport, console: Console) -> None:
    """Print the report as a table."""
    print_cycle(CycleView(report), console)
