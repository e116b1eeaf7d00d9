"""How commands print what they found: for people on a terminal, or as text."""

import sys
from collections.abc import Callable
from typing import TextIO

from rich.console import Console

from desched.views.rendering import ReportFormat


def write_out(
    form: ReportFormat | None,
    render: Callable[[ReportFormat], str],
    show: Callable[[Console], None],
    stdout: TextIO | None = None,
) -> None:
    """Print a table with `show` on a terminal, else the text from `render`; None means a table."""
    stdout = stdout or sys.stdout
    if form in {None, "table"} and stdout.isatty():
        show(Console(file=stdout))
    else:
        stdout.write(render(form or "table"))
        stdout.flush()
