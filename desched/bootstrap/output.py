"""How commands print what they found: for people on a terminal, or as text."""

import sys
from typing import TextIO

from rich.console import Console

from desched.views.rendering import Printer, ReportFormat, Shown, rendered


def write_out(
    form: ReportFormat | None,
    shown: Shown,
    print_table: Printer[Shown],
    stdout: TextIO | None = None,
) -> None:
    """Print the value in the format; None means a table, which has colours on a terminal."""
    stdout = stdout or sys.stdout
    if form in {None, "table"} and stdout.isatty():
        print_table(shown, Console(file=stdout))
    else:
        stdout.write(rendered(shown, print_table, form or "table"))
        stdout.flush()
